//! Captures as a web archive: WARC 1.1 (ISO 28500:2017), which any tool for archives reads.
//!
//! Each answer is preceded by the request that it came to, where the capture has it.
//!
//! Two things differ from the wire, and are marked. A file is kept decoded, so its headers for
//! coding and length are renamed to `X-Archive-Orig-…`. And HTTP/2 is written like HTTP/1.1, the
//! only form that WARC knows, with `WARC-Protocol: h2`.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use time::UtcDateTime;
use time::macros::format_description;

use super::{Answer, CaptureRecord, Failure};
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
        let id = Id::of(&["warcinfo", &warc_date(info.made_at), &sanitize::sha256_hex(&block)]);
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
        (record, [head_bytes(request), b"\r\n".to_vec()].concat())
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

/// A record's identifier: a UUID of what it is made of (RFC 9562 §5.8), so that the same evidence
/// has the same one in every archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id([u8; 16]);

/// How the records follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `.warc`
    Plain,
    /// `.warc.gz`: each record a gzip member, so that readers can begin at any of them.
    Gzip,
}

/// A record without its block.
#[derive(Debug)]
pub struct Record {
    fields: String,
}

impl Id {
    /// The identity made of `parts`.
    pub fn of(parts: &[&str]) -> Self {
        let digest = Sha256::digest(parts.join("\n"));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = sanitize::hex(&self.0);
        let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        write!(f, "<urn:uuid:{a}-{b}-{c}-{d}-{e}>")
    }
}

impl Record {
    /// A record of this type (`warcinfo`, `response`…), made `at` this time, with its first fields.
    pub fn new(kind: &str, id: Id, at: Timestamp) -> Self {
        let mut record = Self { fields: "WARC/1.1\r\n".to_owned() };
        record.field("WARC-Type", kind);
        record.id("WARC-Record-ID", id);
        record.field("WARC-Date", &warc_date(at));
        record
    }

    /// A named field; `value` has no line ends.
    pub fn field(&mut self, name: &str, value: &str) {
        for part in [name, ": ", value, "\r\n"] {
            self.fields.push_str(part);
        }
    }

    /// Adds a field with an identity.
    pub fn id(&mut self, name: &str, id: Id) {
        self.field(name, &id.to_string());
    }

    /// Adds a field with the digest of `bytes`.
    pub fn digest(&mut self, name: &str, bytes: &[u8]) {
        self.field(name, &format!("sha256:{}", sanitize::sha256_hex(bytes)));
    }

    /// Writes the record with its `block`.
    pub fn write(mut self, out: &mut impl Write, packing: Packing, block: &[u8]) -> io::Result<()> {
        self.digest("WARC-Block-Digest", block);
        self.field("Content-Length", &block.len().to_string());
        let parts = [self.fields.as_bytes(), b"\r\n", block, b"\r\n\r\n"];
        match packing {
            Packing::Plain => parts.into_iter().try_for_each(|part| out.write_all(part)),
            Packing::Gzip => {
                let mut member = GzEncoder::new(out, Compression::default());
                parts.into_iter().try_for_each(|part| member.write_all(part))?;
                member.finish().map(drop)
            }
        }
    }
}

/// RFC 3339 in UTC, with the milliseconds that WARC 1.1 has room for.
pub fn warc_date(moment: Timestamp) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let date = UtcDateTime::from_unix_timestamp_nanos(i128::from(moment.millis()) * 1_000_000)
        .unwrap_or(UtcDateTime::MAX);
    date.format(&format).expect("the format has no parts that a date lacks")
}

/// Headers for the length and coding of a body: true on the wire, and not of the stored file.
const OF_THE_WIRE: [&str; 3] = ["content-encoding", "content-length", "transfer-encoding"];

/// The head before a body of `length` bytes that is in no coding, with the empty line.
pub fn http_head(answer: &Answer, length: usize) -> Vec<u8> {
    let mut lines = answer.head.split_terminator("\r\n");
    let mut head = head_bytes(&status_line(lines.next().unwrap_or_default(), answer.status));
    for line in lines {
        let name = line.split(':').next().unwrap_or_default();
        if OF_THE_WIRE.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            head.extend_from_slice(b"\r\nX-Archive-Orig-");
        } else {
            head.extend_from_slice(b"\r\n");
        }
        head.extend(head_bytes(line));
    }
    head.extend(format!("\r\nContent-Length: {length}\r\n\r\n").bytes());
    head
}

/// RFC 9112 §4: the space before the reason phrase stands even where there is none.
fn status_line(line: &str, status: u16) -> String {
    if line.starts_with("HTTP/1.") { line.to_owned() } else { format!("HTTP/1.1 {status:03} ") }
}

/// ISO 8859-1, as a head was written down.
pub fn head_bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(head: &str, length: usize) -> String {
        let answer = Answer {
            head: head.to_owned(),
            head_cut: false,
            peer: None,
            request: None,
            status: 200,
            url: String::new(),
            via: None,
        };
        http_head(&answer, length).into_iter().map(char::from).collect()
    }

    #[test]
    fn what_was_true_on_the_wire_only_stands_under_another_name() {
        let received = "HTTP/1.1 200 Fine\r\ncontent-encoding: gzip\r\nX-N: \u{e9}\r\nTransfer-Encoding: chunked\r\n";
        let kept = "HTTP/1.1 200 Fine\r\nX-Archive-Orig-content-encoding: gzip\r\nX-N: \u{e9}\r\n\
                    X-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n";
        assert_eq!(head(received, 7), kept);
    }

    #[test]
    fn http_2_is_written_as_the_format_knows_it() {
        for received in ["HTTP/2 200\r\n", ""] {
            assert_eq!(head(received, 0), "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n");
        }
    }
}
