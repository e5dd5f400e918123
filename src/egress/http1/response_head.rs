//! Heads of responses that hyper does not take, made ones that it does.
//!
//! Of the response to a fetch of a robots.txt nothing is passed on but the file, so that its head is
//! read as browsers read heads. A page's head goes on to a client, which might read it in another
//! way: it is only mended where all readers agree, and otherwise refused with the name of what is
//! wrong with it.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use crate::egress::config::HYPER_HEADERS_MAX;

/// Bytes of a head that are read at once.
const PIECE_BYTES: usize = 4096;

/// Headers of one response. `http::HeaderMap` takes 24,576 different ones.
const HEADERS_MAX: usize = 24_000;

/// Bytes of a faulty line that an error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// Bytes before a status line that are passed over, as browsers do.
const SLOP_BYTES_MAX: usize = 4;

/// Headers of a response to a fetch that stay when it has more than hyper takes: what a fetch reads.
const READ_BY_FETCHES: [&str; 14] = [
    "age",
    "cache-control",
    "connection",
    "content-encoding",
    "content-type",
    "date",
    "etag",
    "expires",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-status",
    "retry-after",
    "vary",
];

/// Whose head it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOf {
    Page,
    RobotsTxt,
}

/// What is wrong with a head.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct HeadFault {
    text: String,
    /// Whether it exceeds a limit.
    pub is_too_large: bool,
}

/// A head that hyper takes.
#[derive(Debug)]
pub struct MendedHead {
    bytes: Vec<u8>,
    headers: usize,
    is_interim: bool,
    is_changed: bool,
}

/// Reads the heads up to the final one of a response and mends them; gives them to hyper, with what
/// has come behind them.
#[derive(Debug)]
pub struct HeadReader {
    of: HeadOf,
    bytes_max: usize,
    /// What has come of a head, or of what follows the final one.
    collected: BytesMut,
    /// Up to here the lines of the head are known.
    line: usize,
    /// Whether a line of them is not empty.
    has_begun: bool,
    mended: Bytes,
    is_final: bool,
    is_changed: bool,
}

impl HeadReader {
    /// A reader of heads of up to `bytes_max` bytes, of which `collected` has come.
    pub fn new(of: HeadOf, bytes_max: usize, collected: &[u8]) -> Self {
        Self {
            of,
            bytes_max,
            collected: collected.into(),
            line: 0,
            has_begun: false,
            mended: Bytes::new(),
            is_final: false,
            is_changed: false,
        }
    }

    /// Whether it has given all that it has.
    pub fn is_done(&self) -> bool {
        self.is_final && self.mended.is_empty() && self.collected.is_empty()
    }

    /// Whether a head was not one that hyper takes.
    pub const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Reads `stream` until a head is mended; the number of its headers.
    pub fn poll_head(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(end) = self.head_end() {
                let head = self.collected.split_to(end);
                let mended = mend(&head, self.of)
                    .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
                (self.line, self.has_begun) = (0, false);
                self.is_final = !mended.is_interim;
                self.is_changed |= mended.is_changed;
                self.mended = mended.bytes.into();
                return Poll::Ready(Ok(mended.headers));
            }
            if self.collected.len() > self.bytes_max {
                let fault = HeadFault::too_large("bytes", self.bytes_max);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, fault)));
            }
            if ready!(self.poll_collect(stream, cx))?.is_break() {
                // It is for hyper to say what is missing.
                self.is_final = true;
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn poll_collect(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<ControlFlow<()>>> {
        let mut piece = [0; PIECE_BYTES];
        let mut piece = ReadBuf::new(&mut piece);
        ready!(Pin::new(stream).poll_read(cx, &mut piece))?;
        self.collected.extend_from_slice(piece.filled());
        let has_ended = piece.filled().is_empty();
        let flow = if has_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        Poll::Ready(Ok(flow))
    }

    /// Gives hyper what is mended, and then what follows.
    pub fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.mended.is_empty() {
            if !self.is_final {
                ready!(self.poll_head(stream, cx))?;
            }
            if self.mended.is_empty() {
                self.mended = self.collected.split().freeze();
            }
        }
        let length = self.mended.len().min(buf.remaining());
        buf.put_slice(&self.mended[..length]);
        self.mended.advance(length);
        Poll::Ready(Ok(()))
    }

    /// Where the head ends that has come, behind its first empty line. Empty lines before it are of
    /// it (RFC 9112 §2.2).
    fn head_end(&mut self) -> Option<usize> {
        while let Some(length) = memchr::memchr(b'\n', &self.collected[self.line..]) {
            let line = &self.collected[self.line..self.line + length];
            let is_empty = matches!(line, b"" | b"\r");
            self.line += length + 1;
            if is_empty && self.has_begun {
                return Some(self.line);
            }
            self.has_begun |= !is_empty;
        }
        None
    }
}

impl HeadFault {
    fn line(line: &[u8], wrong: impl fmt::Display) -> Self {
        let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
        let more = if shown.len() < line.len() { "…" } else { "" };
        let text = format!("its header line \"{}{more}\" {wrong}", shown.escape_ascii());
        Self { text, is_too_large: false }
    }

    fn too_large(what: &str, max: usize) -> Self {
        let setting = if what == "bytes" { " (limits.max_header_bytes)" } else { "" };
        let text = format!("its head has more than {max} {what}{setting}");
        Self { text, is_too_large: true }
    }

    fn framing(text: &str) -> Self {
        Self { text: text.into(), is_too_large: false }
    }
}

/// Makes of `head`, with its empty line, one that hyper takes.
///
/// # Errors
///
/// What is wrong with it.
fn mend(head: &[u8], of: HeadOf) -> Result<MendedHead, HeadFault> {
    let lines = head.split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status_line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let lines = lines.take_while(|line| !line.is_empty());
    let strictly = lines.clone().map(strict).collect::<Result<Vec<_>, _>>();
    let (status_line, mut headers) = match (of, strictly) {
        (HeadOf::RobotsTxt, Ok(headers)) if is_plain(status_line, &headers) => {
            let is_interim = is_interim(status_line);
            let (bytes, headers) = (head.to_vec(), headers.len());
            return Ok(MendedHead { bytes, headers, is_interim, is_changed: false });
        }
        (HeadOf::RobotsTxt, _) => (lenient_status_line(status_line), lenient(lines)?),
        (HeadOf::Page, strictly) => (status_line.to_vec(), strictly?),
    };
    if headers.len() > HEADERS_MAX {
        return Err(HeadFault::too_large("headers", HEADERS_MAX));
    }
    if of == HeadOf::RobotsTxt && headers.len() > HYPER_HEADERS_MAX {
        leave_out_unread(&mut headers);
    }
    let is_interim = is_interim(&status_line);
    let mut bytes = status_line;
    bytes.extend_from_slice(b"\r\n");
    for Header { name, value } in &headers {
        bytes.extend([name.as_slice(), b": ", value, b"\r\n"].into_iter().flatten());
    }
    bytes.extend_from_slice(b"\r\n");
    Ok(MendedHead { bytes, headers: headers.len(), is_interim, is_changed: true })
}

/// Whether hyper takes a response to a fetch as it is.
fn is_plain(status_line: &[u8], headers: &[Header]) -> bool {
    let values = |name: &str| {
        let of_name = headers.iter().filter(|header| header.is(name));
        of_name.map(|header| header.value.as_slice()).collect::<Vec<_>>()
    };
    let is_framed = match (&values("transfer-encoding")[..], &values("content-length")[..]) {
        ([], []) => true,
        ([], [length]) => !length.is_empty() && length.iter().all(u8::is_ascii_digit),
        ([coding], []) => coding.eq_ignore_ascii_case(b"chunked"),
        _ => false,
    };
    is_framed
        && headers.len() <= HYPER_HEADERS_MAX
        && lenient_status_line(status_line) == status_line
}

/// Whether a final response follows (RFC 9110 §15.2). Behind 101 there is another protocol.
fn is_interim(status_line: &[u8]) -> bool {
    let status = status_line.split(|byte| *byte == b' ').nth(1);
    status.is_some_and(|status| status.starts_with(b"1") && status != b"101")
}

#[derive(Debug)]
struct Header {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Header {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The header of a page in `line`. A blank before the colon is removed (RFC 9112 §5.1).
fn strict(line: &[u8]) -> Result<Header, HeadFault> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err(HeadFault::line(line, "is folded (RFC 9112 §5.2)"));
    }
    let Some((name, value)) = split(line) else {
        return Err(HeadFault::line(line, "has no colon (RFC 9112 §5)"));
    };
    if !is_token(name) {
        return Err(HeadFault::line(line, "has a name that is no token (RFC 9110 §5.1)"));
    }
    if value.iter().any(|byte| is_control(*byte)) {
        return Err(HeadFault::line(line, "has a control character in its value (RFC 9110 §5.5)"));
    }
    Ok(Header { name: name.to_vec(), value: value.to_vec() })
}

/// The headers in the lines of a response to a fetch: what is none is left out. A folded value is
/// joined (RFC 9112 §5.2), and control characters become blanks (RFC 9110 §5.5).
fn lenient<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Header>, HeadFault> {
    let mut headers: Vec<Header> = Vec::new();
    let mut is_header = false;
    for line in lines {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some(last) = headers.last_mut().filter(|_| is_header) {
                last.value.push(b' ');
                last.value.extend_from_slice(&without_controls(line));
            }
            continue;
        }
        is_header = false;
        if let Some((name, value)) = split(line)
            && is_token(name)
        {
            is_header = true;
            headers.push(Header { name: name.to_vec(), value: without_controls(value) });
        }
    }
    join_framing(&mut headers)?;
    Ok(headers)
}

/// Leaves one header to say where the response ends (RFC 9112 §6.3): said twice, or beside chunks,
/// it changes nothing. `identity` is what a coding was called that is none (RFC 2616 §3.6).
fn join_framing(headers: &mut Vec<Header>) -> Result<(), HeadFault> {
    let elements = |name: &str| {
        let of_name = headers.iter().filter(|header| header.is(name));
        let elements = of_name.flat_map(|header| header.value.split(|byte| *byte == b','));
        let elements = elements.map(|element| element.trim_ascii().to_ascii_lowercase());
        elements.filter(|it| !it.is_empty() && it != b"identity").collect::<Vec<_>>()
    };
    let (codings, lengths) = (elements("transfer-encoding"), elements("content-length"));
    if !codings.iter().all(|coding| coding == b"chunked") {
        return Err(HeadFault::framing("its Transfer-Encoding has a coding besides chunked"));
    }
    if !lengths.iter().flatten().all(u8::is_ascii_digit) {
        return Err(HeadFault::framing("its Content-Length is no number"));
    }
    if codings.is_empty() && lengths.windows(2).any(|two| two[0] != two[1]) {
        return Err(HeadFault::framing("its Content-Length has several values"));
    }
    headers.retain(|header| !header.is("transfer-encoding") && !header.is("content-length"));
    let framing = match (codings.first(), lengths.first()) {
        (Some(_), _) => Header { name: b"transfer-encoding".into(), value: b"chunked".into() },
        (None, Some(length)) => Header { name: b"content-length".into(), value: length.clone() },
        (None, None) => return Ok(()),
    };
    headers.push(framing);
    Ok(())
}

/// Leaves as many headers as hyper takes: those that a fetch reads, and the first of the others.
fn leave_out_unread(headers: &mut Vec<Header>) {
    let is_read = |header: &Header| {
        let name = header.name.to_ascii_lowercase();
        let is_limit = |name: &[u8]| memchr::memmem::find(name, b"rate").is_some();
        READ_BY_FETCHES.iter().any(|it| it.as_bytes() == name) || is_limit(&name)
    };
    let (mut read, mut others, last) = (0, 0, headers.len() - 1);
    let mut at = 0;
    headers.retain(|header| {
        let is_framing = at == last;
        at += 1;
        let count = if is_read(header) { &mut read } else { &mut others };
        *count += 1;
        is_framing || *count < HYPER_HEADERS_MAX / 2
    });
}

/// The status line of a response to a fetch, as browsers read it: in either case of letters, behind
/// some bytes of something else, and with any blanks.
fn lenient_status_line(line: &[u8]) -> Vec<u8> {
    let is_version = |at: &usize| {
        line.get(*at..at + 5).is_some_and(|version| version.eq_ignore_ascii_case(b"HTTP/"))
    };
    let begin = (0..=SLOP_BYTES_MAX).find(is_version).unwrap_or_default();
    let mut words =
        line[begin..].split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let (Some(version), Some(status)) = (words.next(), words.next()) else {
        return line.to_vec();
    };
    let Some(status) = status.get(..3).filter(|status| status.iter().all(u8::is_ascii_digit))
    else {
        return line.to_vec();
    };
    // RFC 9112 §2.3: a higher version than this proxy's is read as the highest that it knows.
    let version = match version.get(5..) {
        Some([b'1', b'.', b'0']) => b"HTTP/1.0 ",
        Some([b'1'..=b'9', ..]) if is_version(&begin) => b"HTTP/1.1 ",
        _ => return line.to_vec(),
    };
    let reason = words.flat_map(|word| [&b" "[..], word].concat());
    let reason = reason.filter(|byte| !is_control(*byte));
    version.iter().chain(status).copied().chain(reason).collect()
}

/// Name and value of a line, without the blanks around them.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((without_blanks(&line[..colon]), without_blanks(&line[colon + 1..])))
}

/// Without optional whitespace around it (RFC 9110 §5.6.3).
fn without_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] | [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

fn without_controls(value: &[u8]) -> Vec<u8> {
    let blank = value.iter().map(|byte| if is_control(*byte) { b' ' } else { *byte });
    blank.collect::<Vec<_>>().trim_ascii().to_vec()
}

const fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// RFC 9110 §5.6.2.
fn is_token(name: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status line and headers that hyper is given, one in a line; or what is wrong.
    fn mended(head: &str, of: HeadOf) -> Result<String, String> {
        let mended = mend(head.as_bytes(), of).map_err(|fault| fault.to_string())?;
        Ok(String::from_utf8(mended.bytes).unwrap().trim_end().replace("\r\n", "|"))
    }

    /// What servers send for a robots.txt, what is read of it, and which RFC or whose habit that is.
    #[test]
    fn of_the_head_of_a_robots_txt_what_is_a_header_is_read() {
        for (name, lines, read) in [
            ("nothing to mend", "A: 1\r\nB: 2", "A: 1|B: 2"),
            (
                "a blank before the colon (RFC 9112 §5.1)",
                "A : 1\r\nX Foo: 1\r\nB\t : 2",
                "A: 1|B: 2",
            ),
            ("a warning of PHP", "PHP Warning:  Undefined x in /a.php on line 3\r\nA: 1", "A: 1"),
            ("markup", "<br />\r\n<b>Notice</b>: x\r\nA: 1", "A: 1"),
            ("a blank in the name", "X Foo: 1\r\nA: 1", "A: 1"),
            ("the status line again", "HTTP/1.1 200 OK\r\nA: 1", "A: 1"),
            ("no name", ": 1\r\nA: 1", "A: 1"),
            ("no colon", "A: 1\r\nnonsense", "A: 1"),
            ("a name in Latin-1", "\u{e9}: 1\r\nA: 1", "A: 1"),
            ("a folded value (RFC 9112 §5.2)", "A: 1;\r\n\tb=2\r\n  c\r\nB: 3", "A: 1; b=2 c|B: 3"),
            ("folded, below what is no header", "X Foo: 1\r\n A: 2\r\nB: 3", "B: 3"),
            ("folded, below the status line", " A: 1\r\nB: 2", "B: 2"),
            (
                "control characters in a value (RFC 9110 §5.5)",
                "A: 1\u{1}2\0\r\nB: \u{7f}",
                "A: 1 2|B: ",
            ),
            ("CR in a value", "A: 1\r2\r\nB: 3", "A: 1 2|B: 3"),
            ("LF ends lines (RFC 9112 §2.2)", "A: 1\nX Foo: 1\nB: 2", "A: 1|B: 2"),
            (
                "chunks and a length (§6.3)",
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "transfer-encoding: chunked",
            ),
            (
                "chunks, said twice: two servers",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked",
                "transfer-encoding: chunked",
            ),
            ("chunks in a list", "Transfer-Encoding: chunked,", "transfer-encoding: chunked"),
            (
                "identity (RFC 2616 §3.6)",
                "Transfer-Encoding: identity\r\nContent-Length: 5",
                "content-length: 5",
            ),
            (
                "a length, said twice (RFC 9110 §8.6)",
                "Content-Length: 5, 5\r\ncontent-length: 5",
                "content-length: 5",
            ),
            ("a length that is folded", "Content-Length:\r\n 5", "content-length: 5"),
            ("no length at all", "Content-Length:\r\nA: 1", "A: 1"),
            ("a length", "Content-Length: 5", "Content-Length: 5"),
            ("chunks", "Transfer-Encoding: Chunked", "Transfer-Encoding: Chunked"),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
            let expected = format!("HTTP/1.1 200 OK|{read}").trim_end().to_owned();
            assert_eq!(mended(&head, HeadOf::RobotsTxt), Ok(expected), "{name}");
        }
        for (name, lines) in [
            ("two lengths", "Content-Length: 5\r\nContent-Length: 6"),
            ("no number", "Content-Length: x"),
            ("a sign", "Content-Length: -5"),
            ("two numbers", "Content-Length: 5\r\n 6"),
            ("a coding not asked for", "Transfer-Encoding: gzip, chunked"),
            ("no coding", "Transfer-Encoding: xchunked"),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
            let fault = mended(&head, HeadOf::RobotsTxt).expect_err(name);
            assert!(
                fault.contains("Content-Length") || fault.contains("Transfer-Encoding"),
                "{fault}"
            );
        }
    }

    #[test]
    fn the_status_line_of_a_robots_txt_is_read_as_browsers_do() {
        for (line, read) in [
            ("HTTP/1.1 200", "HTTP/1.1 200"),
            ("HTTP/1.1  404  Not  Found", "HTTP/1.1 404 Not Found"),
            ("http/1.1 200 ok", "HTTP/1.1 200 ok"),
            ("HTTP/1.0 200 OK", "HTTP/1.0 200 OK"),
            ("HTTP/2.0 200 OK", "HTTP/1.1 200 OK"),
            ("\u{feff}HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
            ("HTTP/1.1 200OK", "HTTP/1.1 200"),
            ("HTTP/1.1 200 O\u{1}K", "HTTP/1.1 200 OK"),
            // Whatever this is, hyper does not take it for a response.
            ("ICY 200 OK", "ICY 200 OK"),
            ("<html>", "<html>"),
            ("HTTP/1.1 abc OK", "HTTP/1.1 abc OK"),
            ("HTTP/0.9 200 OK", "HTTP/0.9 200 OK"),
        ] {
            assert_eq!(mended(&format!("{line}\r\n\r\n"), HeadOf::RobotsTxt).as_deref(), Ok(read));
        }
    }

    #[test]
    fn a_pages_head_is_mended_where_all_agree_or_its_line_is_named() {
        let head = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        let blank = mended(&head("Content-Length : 5"), HeadOf::Page);
        assert_eq!(blank.as_deref(), Ok("HTTP/1.1 200 OK|Content-Length: 5"));
        for (lines, wrong) in [
            ("A: 1\r\nX Foo: 1", "\"X Foo: 1\" has a name that is no token"),
            ("HTTP/1.1 200 OK", "\"HTTP/1.1 200 OK\" has no colon"),
            (": 1", "\": 1\" has a name that is no token"),
            ("A: 1\r\n 2", "\" 2\" is folded"),
            ("A: 1\r\n \r\nB: 2", "\" \" is folded"),
            ("A: 1\0", "\"A: 1\\x00\" has a control character"),
            ("A: 1\rB: 2", "\"A: 1\\rB: 2\" has a control character"),
            ("A: 1\r\r\nB: 2", "\"A: 1\\r\" has a control character"),
        ] {
            let fault = mended(&head(lines), HeadOf::Page).expect_err(lines);
            assert!(fault.contains(wrong), "{lines:?}: {fault}");
        }
        let many = head(&vec!["A:"; HEADERS_MAX + 1].join("\r\n"));
        assert!(mended(&many, HeadOf::Page).expect_err("too many").contains("24000 headers"));
    }

    #[test]
    fn of_many_headers_a_fetch_gets_those_that_it_reads() {
        let cookies = "Set-Cookie: a=b\r\n".repeat(200);
        let head = format!(
            "HTTP/1.1 200 OK\r\n{cookies}ETag: 1\r\nX-RateLimit-Reset: 2\r\nContent-Length: 3\r\n\r\n"
        );
        let mended = mend(head.as_bytes(), HeadOf::RobotsTxt).unwrap();
        let text = String::from_utf8(mended.bytes).unwrap();
        assert!(mended.headers <= HYPER_HEADERS_MAX, "{}", mended.headers);
        for line in ["ETag: 1\r\n", "X-RateLimit-Reset: 2\r\n", "content-length: 3\r\n"] {
            assert!(text.contains(line), "{line}");
        }
    }

    #[tokio::test]
    async fn heads_come_in_any_pieces_and_what_follows_stays_as_it_is() {
        let interim = "\r\n\r\nHTTP/1.1 103 Early Hints\r\nX Foo: 1\r\nLink: a\r\n\r\n";
        let sent = format!("{interim}HTTP/1.1 200 OK\r\nA : 1\r\n\r\nX Foo: 1\r\n\r\nbody");
        let expected = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
                        HTTP/1.1 200 OK\r\nA : 1\r\n\r\nX Foo: 1\r\n\r\nbody";
        for begun in 0..sent.len() {
            let mut reader = HeadReader::new(HeadOf::RobotsTxt, 1024, &sent.as_bytes()[..begun]);
            let mut rest = &sent.as_bytes()[begun..];
            let mut given = Vec::new();
            while !reader.is_done() {
                let mut room = [0; 7];
                let mut room = ReadBuf::new(&mut room);
                std::future::poll_fn(|cx| reader.poll_read(&mut rest, cx, &mut room))
                    .await
                    .unwrap();
                given.extend_from_slice(room.filled());
            }
            given.extend_from_slice(rest);
            assert_eq!(
                given.escape_ascii().to_string(),
                expected.as_bytes().escape_ascii().to_string()
            );
            assert!(reader.is_changed());
        }
    }

    #[tokio::test]
    async fn a_head_without_an_end_has_a_bound() {
        let mut reader = HeadReader::new(HeadOf::Page, 1024, b"HTTP/1.1 200 OK\r\n");
        let lines = b"A: 1\r\n".repeat(1000);
        let mut rest = lines.as_slice();
        let read = std::future::poll_fn(|cx| reader.poll_head(&mut rest, cx)).await;
        let fault = read.unwrap_err().into_inner().unwrap().downcast::<HeadFault>().unwrap();
        assert!(fault.is_too_large && fault.to_string().contains("limits.max_header_bytes"));
    }
}
