//! Captures as a web archive: WARC 1.1 (ISO 28500:2017), which any tool for archives reads.
//!
//! Each answer is preceded by the request that it came to, where the capture has it.
//!
//! Two things differ from the wire, and are marked. A file is kept decoded, so its headers for
//! coding and length are renamed to `X-Archive-Orig-…`. And HTTP/2 is written like HTTP/1.1, the
//! only form that WARC knows, with `WARC-Protocol: h2`.

use std::io::{self, Write};

use super::capture::{Answer, CaptureRecord, Failure};
use super::warc_head::{bytes, http_head};
pub use super::warc_record::Packing;
use super::warc_record::{Id, Record, date};
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// The `warcinfo` of the archive.
#[derive(Clone, Debug)]
pub struct Info {
    pub made_at: Timestamp,
    /// In a sentence, what is in it.
    pub description: String,
}

/// Writes an archive, record by record. The same captures give the same bytes.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    packing: Packing,
    info: Id,
}

impl<W: Write> Writer<W> {
    /// Begins the archive with what it says of itself.
    pub fn new(out: W, packing: Packing, info: &Info) -> io::Result<Self> {
        let fields = [
            ("software", concat!("courtesy/", env!("CARGO_PKG_VERSION"))),
            ("format", "WARC File Format 1.1"),
            (
                "conformsTo",
                "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            ),
            ("description", &info.description),
        ];
        let block = warc_fields(&fields);
        let id = Id::of(&["warcinfo", &date(info.made_at), &sanitize::sha256_hex(&block)]);
        let mut writer = Self { out, packing, info: id };
        let mut record = Record::new("warcinfo", id, info.made_at);
        record.field("Content-Type", "application/warc-fields");
        record.write(&mut writer.out, packing, &block)?;
        Ok(writer)
    }

    /// One attempt to fetch a robots.txt: a `request` and a `response` for each answer, and why it
    /// failed, if it did, as `metadata`. `body` is the file that `capture.body` names, where it is
    /// at hand. The caller writes each capture once.
    pub fn write_capture(
        &mut self,
        capture: &CaptureRecord,
        body: Option<&[u8]>,
    ) -> io::Result<()> {
        let attempt =
            Attempt { capture, sha256: sanitize::hex(&capture.seal().sha256), info: self.info };
        for (index, answer) in capture.answers.iter().enumerate() {
            if let Some(request) = &answer.request {
                let (record, block) = attempt.request(index, answer, request);
                record.write(&mut self.out, self.packing, &block)?;
            }
            let is_last = index + 1 == capture.answers.len();
            let file = if is_last && capture.body.is_some() { body } else { None };
            let (record, block) = attempt.response(index, answer, file);
            record.write(&mut self.out, self.packing, &block)?;
        }
        if let Some(failure) = &capture.failure {
            let (record, block) = attempt.failed(failure);
            record.write(&mut self.out, self.packing, &block)?;
        }
        Ok(())
    }

    /// Hands back what was written to, all of it written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// What the records of one capture have in common.
struct Attempt<'a> {
    capture: &'a CaptureRecord,
    sha256: String,
    info: Id,
}

impl Attempt<'_> {
    /// What was sent for `answer`. It names the answer's record, as WARC 1.1 §6.4 has it.
    fn request(&self, index: usize, answer: &Answer, request: &str) -> (Record, Vec<u8>) {
        let id = Id::of(&["request", &self.sha256, &index.to_string()]);
        let mut record = self.begin("request", id, &answer.url);
        record.id("WARC-Concurrent-To", self.id(index));
        note_peer(&mut record, answer);
        record.field("Content-Type", "application/http;msgtype=request");
        (record, [bytes(request), b"\r\n".to_vec()].concat())
    }

    fn response(&self, index: usize, answer: &Answer, file: Option<&[u8]>) -> (Record, Vec<u8>) {
        let mut record = self.record("response", index, &answer.url);
        note_peer(&mut record, answer);
        if let Some(reason) = self.truncated(answer, file) {
            record.field("WARC-Truncated", reason);
        }
        if let Some(file) = file {
            record.digest("WARC-Payload-Digest", file);
        }
        record.field("Content-Type", "application/http;msgtype=response");
        let mut block = http_head(answer, file.map_or(0, <[u8]>::len));
        block.extend_from_slice(file.unwrap_or_default());
        (record, block)
    }

    /// Why the record has less than the answer had.
    fn truncated(&self, answer: &Answer, file: Option<&[u8]>) -> Option<&'static str> {
        let cut = self.capture.body.as_ref().is_some_and(|body| body.cut);
        match file {
            Some(_) if cut => Some("length"),
            _ if answer.head_cut => Some("length"),
            Some(_) => None,
            // RFC 9110 §6.4.1: these never have a body. Of the others only files are kept.
            None if matches!(answer.status, 204 | 304) => None,
            None => Some("unspecified"),
        }
    }

    fn failed(&self, failure: &Failure) -> (Record, Vec<u8>) {
        let mut record = self.record("metadata", self.capture.answers.len(), &self.capture.asked);
        record.field("Content-Type", "application/warc-fields");
        let text = sanitize::text(failure.text.as_bytes(), usize::MAX);
        (record, warc_fields(&[("failure", &failure.word), ("failureText", &text)]))
    }

    /// The `index`th record of the attempt. All but the first name that one.
    fn record(&self, kind: &str, index: usize, url: &str) -> Record {
        let mut record = self.begin(kind, self.id(index), url);
        if index > 0 {
            record.id("WARC-Concurrent-To", self.id(0));
        }
        record
    }

    fn begin(&self, kind: &str, id: Id, url: &str) -> Record {
        let mut record = Record::new(kind, id, Timestamp::from_millis(self.capture.fetched_at));
        record.id("WARC-Warcinfo-ID", self.info);
        record.field("WARC-Target-URI", &sanitize::url(url.as_bytes(), usize::MAX));
        record
    }

    /// Of the record of the `index`th answer, or of what came instead of it.
    fn id(&self, index: usize) -> Id {
        Id::of(&["capture", &self.sha256, &index.to_string()])
    }
}

/// The address that answered, and the protocol where it is not HTTP/1.
fn note_peer(record: &mut Record, answer: &Answer) {
    if let Some(peer) = answer.peer {
        record.field("WARC-IP-Address", &peer.to_string());
    }
    if answer.head.starts_with("HTTP/2") {
        record.field("WARC-Protocol", "h2");
    }
}

/// `application/warc-fields`. The values have no line ends.
fn warc_fields(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes()).collect()
}
