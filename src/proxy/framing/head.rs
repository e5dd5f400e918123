//! A request head, read strictly before hyper sees it (RFC 9112 §2 to §6). hyper
//! corrects or ignores some faults that another reader may understand differently. Here each fault
//! is refused, with the line and the rule it breaks: a head that passes has one meaning only.

use std::borrow::Cow;
use std::mem;

use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri, request};

use super::foreign_protocol::ForeignProtocol;
use crate::audit::Record;
use crate::egress::config::HYPER_HEADERS_MAX;
use crate::proxy::TARGET_BYTES_MAX;
use crate::proxy::rejection::Rejection;
use crate::types::origin::percent_encoded;

/// The content that follows a head (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Length(u64),
    Chunked,
}

/// Reads the field lines after `line`, each without its line end: how the content is framed.
pub fn fields<'a>(
    line: RequestLine,
    lines: impl Iterator<Item = &'a [u8]>,
    headers_max: usize,
) -> Result<Content, Rejection> {
    let (mut length, mut codings, mut count) = (None, false, 0);
    for field_line in lines {
        count += 1;
        if count > headers_max {
            return Err(too_large());
        }
        let fault = |fault| Rejection::bad_request(field_fault(field_line, fault));
        let Field { name, value } = field(field_line).map_err(fault)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            // Equal ones could be folded into one (RFC 9110 §8.6), but a client that
            // sends two may mean them to be read differently.
            let first = length.replace(number(value).map_err(fault)?).is_none();
            first
                .then_some(())
                .ok_or_else(|| fault("is the second of its name (RFC 9112 §6.3)"))?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let only =
                !std::mem::replace(&mut codings, true) && value.eq_ignore_ascii_case(b"chunked");
            only.then_some(()).ok_or_else(|| {
                fault("is not one transfer coding \"chunked\", the only one served (RFC 9112 §6.1)")
            })?;
        }
    }
    content(line, length, codings)
}

/// The content by its length and transfer coding (RFC 9112 §6.3).
fn content(line: RequestLine, length: Option<u64>, codings: bool) -> Result<Content, Rejection> {
    match (length, codings) {
        (Some(_), true) => Err(Rejection::bad_request(
            "the request has both Content-Length and Transfer-Encoding: one of them lies (RFC 9112 §6.1)",
        )),
        (None, true) if line.minor == b'0' => {
            Err(Rejection::bad_request("HTTP/1.0 has no Transfer-Encoding (RFC 9112 §6.1)"))
        }
        (_, true) | (Some(1..), _) if line.is_connect => Err(Rejection::bad_request(
            "a CONNECT has no content: what follows it would be taken out of the tunnel (RFC 9110 §9.3.6)",
        )),
        (None, true) => Ok(Content::Chunked),
        (length, false) => Ok(Content::Length(length.unwrap_or(0))),
    }
}

/// Digits only (RFC 9110 §8.6): no sign, no list, no other base, and no number that wraps.
fn number(value: &[u8]) -> Result<u64, &'static str> {
    let digits =
        std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|it| it.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    // hyper counts in a u64, too, and uses its highest values as markers.
    number.filter(|it| *it < u64::MAX - 1).ok_or("is not a number of digits only (RFC 9110 §8.6)")
}

const NO_VALID_TARGET: &str = "has no valid target";

/// What hyper does not report of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The digit after `HTTP/1.`.
    pub minor: u8,
    pub is_connect: bool,
    /// `OPTIONS` of an absolute URL without path and query, which is one of `*` at the origin
    /// (RFC 9112 §3.2.4). hyper's URI type always has a path.
    pub is_pathless: bool,
    /// Whether the target has to be percent-encoded ([`encoded_head`]) before hyper gets it.
    pub is_unencoded: bool,
}

/// Reads a request line, without its line end.
pub fn request_line(line: &[u8]) -> Result<RequestLine, Rejection> {
    if let Some(foreign) = ForeignProtocol::by(line) {
        return Err(Rejection::foreign(foreign));
    }
    let fault =
        |fault: &str| Rejection::bad_request(format!("the request line {} {fault}", quoted(line)));
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(fault(
            "is not a method, a target and a version with one blank between each (RFC 9112 §3)",
        ));
    };
    if !is_token(method) {
        return Err(fault("does not begin with a method"));
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(target_too_long());
    }
    let mut is_unencoded = false;
    if !is_plain_url(target) {
        let target = encoded_target(target);
        if target.len() > TARGET_BYTES_MAX {
            return Err(target_too_long());
        }
        if let Some(wrong) = target_fault(&target) {
            return Err(fault(wrong));
        }
        if http::Uri::try_from(&*target).is_err() {
            return Err(fault(NO_VALID_TARGET));
        }
        is_unencoded = matches!(target, Cow::Owned(_));
    }
    let Some(&[minor @ b'0'..=b'9']) = version.strip_prefix(b"HTTP/1.") else {
        return Err(fault("does not end in HTTP/1.1 or HTTP/1.0"));
    };
    let is_pathless = method == b"OPTIONS" && is_without_path(target);
    Ok(RequestLine { minor, is_connect: method == b"CONNECT", is_pathless, is_unencoded })
}

/// What is wrong with a target that a URI parser may overlook, in any version of HTTP.
pub fn target_fault(target: &[u8]) -> Option<&'static str> {
    if target.contains(&b'#') {
        return Some("has a fragment in its target, which is never sent (RFC 9110 §7.1)");
    }
    (!target.iter().all(u8::is_ascii_graphic)).then_some(NO_VALID_TARGET)
}

/// Whether the target is an absolute URL without a path or query. A path may contain "://", too.
fn is_without_path(target: &[u8]) -> bool {
    !target.starts_with(b"/")
        && memchr::memmem::find(target, b"://")
            .is_some_and(|at| memchr::memchr2(b'/', b'?', &target[at + 3..]).is_none())
}

/// Whether the target is a common URL, which is valid without parsing it: letters, digits and a few
/// signs. If not, a parser decides.
fn is_plain_url(target: &[u8]) -> bool {
    let Some(rest) = target.strip_prefix(b"http://") else { return false };
    let host_end = rest.iter().position(|byte| !is_of_class(*byte, HOST)).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(host_end);
    let digits = rest.strip_prefix(b":").map_or(&b""[..], |port| {
        let end = port.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(port.len());
        &port[..end]
    });
    let path = if digits.is_empty() { rest } else { &rest[1 + digits.len()..] };
    !host.is_empty()
        && digits.len() <= 5
        && path.first() == Some(&b'/')
        && path.iter().all(|byte| is_of_class(*byte, PATH))
}

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is_of_class(*byte, TOKEN))
}

/// A field line (RFC 9112 §5).
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Reads a field line, or says the rule it breaks.
pub fn field(line: &[u8]) -> Result<Field<'_>, &'static str> {
    let is_token = |byte: &u8| is_of_class(*byte, TOKEN);
    let length = line.iter().position(|byte| !is_token(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(length);
    let Some(value) = rest.strip_prefix(b":").filter(|_| !name.is_empty()) else {
        return Err(name_fault(line));
    };
    let value = trim(value);
    if has_control(value) {
        return Err("has a control character in its value (RFC 9110 §5.5)");
    }
    Ok(Field { name, value })
}

/// Why a line does not begin with a field name and a colon.
fn name_fault(line: &[u8]) -> &'static str {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return "begins with a blank: folded lines are obsolete (RFC 9112 §5.2)";
    }
    match memchr::memchr(b':', line) {
        None => "has no colon (RFC 9112 §5)",
        Some(colon) if line[..colon].last().is_some_and(u8::is_ascii_whitespace) => {
            "has a blank before the colon (RFC 9112 §5.1)"
        }
        Some(_) => "has a name that is no token (RFC 9110 §5.1)",
    }
}

/// Without an early return, so that the compiler checks many bytes at once.
fn has_control(value: &[u8]) -> bool {
    value.iter().fold(false, |found, byte| found | (byte.is_ascii_control() & (*byte != b'\t')))
}

/// Optional whitespace around a value (RFC 9110 §5.6.3): a carriage return is none.
fn trim(value: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !blank(byte)).map_or(begin, |last| last + 1);
    &value[begin..end]
}

// Targets with bytes that a URL may only have percent-encoded. Some clients send them as typed,
// and servers accept that. They are encoded here once, before hyper, the decision and the
// origin see the target: what is decided on is what is sent, and it is ASCII.

/// A head whose target had to be percent-encoded.
#[derive(Debug)]
pub struct Encoded {
    /// The whole head, with the encoded target.
    pub head: Vec<u8>,
    /// Path and query as they came, as a record shows them.
    pub path_as_received: Box<str>,
}

/// `target` with its path and query percent-encoded; never what is before them (RFC 3986 §3.2.2).
pub fn encoded_target(target: &[u8]) -> Cow<'_, [u8]> {
    let (before, path) = target.split_at(path_at(target));
    match percent_encoded(path) {
        Cow::Borrowed(_) => Cow::Borrowed(target),
        Cow::Owned(path) => Cow::Owned([before, &path].concat()),
    }
}

/// `head` with the target of its request line encoded.
pub fn encoded_head(head: &[u8]) -> Encoded {
    let after_blank =
        |from: usize| memchr::memchr(b' ', &head[from..]).map_or(head.len(), |at| from + at + 1);
    let begin = after_blank(0);
    let end = after_blank(begin).saturating_sub(1).max(begin);
    let begin = begin + path_at(&head[begin..end]);
    let path = &head[begin..end];
    Encoded {
        head: [&head[..begin], &percent_encoded(path), &head[end..]].concat(),
        path_as_received: path_as_received(path),
    }
}

/// `path_and_query` as a record shows it.
pub fn path_as_received(path_and_query: &[u8]) -> Box<str> {
    Record::text(path_and_query).into()
}

/// Where path and query begin: after the authority, if there is one. The end, if there is neither.
fn path_at(target: &[u8]) -> usize {
    let from = match memchr::memmem::find(target, b"://") {
        // A path or a query may contain "://", too.
        Some(colon) if !target[..colon].iter().any(|byte| b"/?".contains(byte)) => colon + 3,
        _ => 0,
    };
    memchr::memchr2(b'/', b'?', &target[from..]).map_or(target.len(), |at| from + at)
}

// Checks a request head that came by HTTP/2 by the same rules as an HTTP/1 head: the request may
// be forwarded by HTTP/1.1. hyper checks for malformed messages (RFC 9113 §8); the rest is
// here.

/// Refuses a head that would be refused in HTTP/1, or would mean something else there.
/// Percent-encodes the path if necessary, and then returns it as it came.
pub fn check_http2(
    request: &mut request::Parts,
    headers_max: usize,
) -> Result<Option<Box<str>>, Rejection> {
    if request.headers.len() > headers_max {
        return Err(too_large());
    }
    let path_as_received = encode(&mut request.uri)?;
    if let Some(target) = request.uri.path_and_query() {
        let fault = target_fault(target.as_str().as_bytes());
        fault
            .map_or(Ok(()), |fault| Err(Rejection::bad_request(format!("the request {fault}"))))?;
    }
    check_fields(request).map(|()| path_as_received)
}

/// As [`encoded_head`]. Of the bytes that need encoding, hyper accepts UTF-8 and, in a path,
/// `"`.
fn encode(uri: &mut Uri) -> Result<Option<Box<str>>, Rejection> {
    let Some(path) = uri.path_and_query().map(PathAndQuery::as_str) else { return Ok(None) };
    let Cow::Owned(target) = percent_encoded(path.as_bytes()) else { return Ok(None) };
    if target.len() > TARGET_BYTES_MAX {
        return Err(target_too_long());
    }
    let path_as_received = path_as_received(path.as_bytes());
    let invalid = || Rejection::bad_request(format!("the request {NO_VALID_TARGET}"));
    let mut parts = mem::take(uri).into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| invalid())?);
    *uri = Uri::from_parts(parts).map_err(|_| invalid())?;
    Ok(Some(path_as_received))
}

fn check_fields(request: &request::Parts) -> Result<(), Rejection> {
    let fields = &request.headers;
    if fields.values().any(is_blank_at_an_end) {
        return Err(Rejection::bad_request(
            "the request has a field value with a blank at its beginning or end (RFC 9113 §8.2.1)",
        ));
    }
    match fields.get_all(CONTENT_LENGTH).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Rejection::bad_request(
            "the request has more than one Content-Length (RFC 9110 §8.6)",
        )),
    }
}

/// In HTTP/1 such a blank is not part of the value: the origin would see another value than the
/// proxy.
fn is_blank_at_an_end(value: &HeaderValue) -> bool {
    let ends = [value.as_bytes().first(), value.as_bytes().last()];
    ends.into_iter().flatten().any(|byte| matches!(byte, b' ' | b'\t'))
}

/// Bytes of a malformed line that the response repeats.
const DETAIL_BYTES_MAX: usize = 120;

/// Fields of a request's head, and of its trailers: hyper has room for so many on the stack.
pub const FIELDS_MAX: usize = HYPER_HEADERS_MAX;

/// The rejection of a head that is longer, or has more fields, than is allowed.
pub fn too_large() -> Rejection {
    Rejection::bad_request_as(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        format!(
            "the request head is longer than limits.max_header_bytes allows, or has more than \
             {FIELDS_MAX} fields"
        ),
    )
}

/// The rejection of a head that takes too long to arrive.
pub fn too_slow() -> Rejection {
    Rejection::bad_request_as(
        StatusCode::REQUEST_TIMEOUT,
        "the request head did not come to its end in time (limits.header_timeout)",
    )
}

/// The rejection of a target, or a request line, that is longer than is allowed.
pub fn target_too_long() -> Rejection {
    Rejection::bad_request_as(
        StatusCode::URI_TOO_LONG,
        "the request line is longer than limits.max_header_bytes allows, or its target than 65,534 bytes",
    )
}

/// Describes a fault of a field line. Only the values of fields that frame the message are
/// repeated: others may be secret.
fn field_fault(line: &[u8], fault: &str) -> String {
    let name = memchr::memchr2(b':', b' ', line).map_or(line, |end| &line[..end]);
    let frames = [&b"content-length"[..], b"transfer-encoding"];
    let is_framing = frames.iter().any(|framing| name.eq_ignore_ascii_case(framing));
    format!("the field line {} {fault}", if is_framing { quoted(line) } else { quoted(name) })
}

/// The beginning of `line` for a detail of a rejection, in quotation marks.
fn quoted(line: &[u8]) -> String {
    let cut = &line[..line.len().min(DETAIL_BYTES_MAX)];
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_ascii())
}

/// In a token (RFC 9110 §5.6.2).
pub const TOKEN: u8 = 1;
/// In the host of most URLs: letters, digits and few signs.
pub const HOST: u8 = 1 << 1;
/// In the path and query of most URLs.
pub const PATH: u8 = 1 << 2;

/// Whether `byte` is one of `class`.
pub const fn is_of_class(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

const CLASSES: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        table[at] = match byte {
            b'A'..=b'Z' | b'a'..=b'z' => TOKEN | HOST | PATH,
            b'0'..=b'9' | b'-' | b'.' => TOKEN | HOST | PATH,
            b'_' | b'%' | b'&' => TOKEN | PATH,
            b'!' | b'#' | b'$' | b'\'' | b'*' | b'+' | b'^' | b'`' | b'|' | b'~' => TOKEN,
            b'/' | b'?' | b'=' => PATH,
            _ => 0,
        };
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(head: &str) -> Result<Content, String> {
        let mut lines = head.split("\r\n").map(str::as_bytes);
        let read = request_line(lines.next().unwrap_or_default())
            .and_then(|line| fields(line, lines.take_while(|line| !line.is_empty()), 100));
        read.map_err(|rejection| rejection.detail().to_owned())
    }

    #[test]
    fn the_reason_names_the_line_and_the_rule() {
        for (head, expected) in [
            ("\x16\x03\x01\x02", "TLS handshake"),
            ("GET http://a/\r\n\r\n", "is not a method, a target and a version"),
            ("GET  http://a/ HTTP/1.1\r\n\r\n", "one blank between each"),
            ("G@T http://a/ HTTP/1.1\r\n\r\n", "does not begin with a method"),
            ("GET http://a/ HTTP/2.0\r\n\r\n", "does not end in HTTP/1.1"),
            ("GET http://a\u{e9}/ HTTP/1.1\r\n\r\n", "has no valid target"),
            ("GET http://a/#b HTTP/1.1\r\n\r\n", "has a fragment"),
            ("GET http://a/ HTTP/1.1\r\nHost : a\r\n\r\n", "blank before the colon"),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "folded"),
            ("GET http://a/ HTTP/1.1\r\nHost a\r\n\r\n", "has no colon"),
            ("GET http://a/ HTTP/1.1\r\nX: a\0b\r\n\r\n", "control character"),
            ("GET http://a/ HTTP/1.1\r\nX(: a\r\n\r\n", "no token"),
            ("GET http://a/ HTTP/1.1\r\nContent-Length: +5\r\n\r\n", "digits only"),
            (
                "GET http://a/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
                "second of its name",
            ),
            ("GET http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "one transfer coding"),
            (
                "GET http://a/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                "both",
            ),
            ("GET http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 has no"),
            ("CONNECT a:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "a CONNECT has no content"),
        ] {
            let reason = read(head).unwrap_err();
            assert!(reason.contains(expected), "{head:?}: {reason}");
        }
    }

    #[test]
    fn c7_values_that_may_be_secret_are_not_repeated() {
        for (line, name) in [
            ("Proxy-Authorization : Basic c2VjcmV0", "\"Proxy-Authorization\""),
            ("Proxy-Authorization Basic c2VjcmV0", "\"Proxy-Authorization\""),
            ("Cookie: c2VjcmV0\0", "\"Cookie\""),
            (" c2VjcmV0", "\"\""),
            ("Content-Length: +5", "\"Content-Length: +5\""),
        ] {
            let reason = read(&format!("GET http://a/ HTTP/1.1\r\n{line}\r\n\r\n")).unwrap_err();
            assert!(reason.contains(name) && !reason.contains("c2VjcmV0"), "{line:?}: {reason}");
        }
    }

    #[test]
    fn a_head_gives_the_length_of_its_content() {
        for (fields, expected) in [
            ("", Content::Length(0)),
            ("Content-Length:\t007 \r\n", Content::Length(7)),
            ("Content-Length: 18446744073709551613\r\n", Content::Length(u64::MAX - 2)),
            ("transfer-encoding: Chunked\r\n", Content::Chunked),
        ] {
            assert_eq!(
                read(&format!("POST http://a/ HTTP/1.1\r\n{fields}\r\n")),
                Ok(expected),
                "{fields:?}"
            );
        }
        let connect = "CONNECT a:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(connect), Ok(Content::Length(0)), "nothing is taken out of the tunnel");
    }

    proptest! {
        #[test]
        fn a_plain_url_is_valid_for_the_engine(
            target in "http://[-.a-zA-Z0-9]{0,12}(:[0-9]{0,6})?/?[-._/?&=%a-zA-Z0-9@:\"]{0,20}"
        ) {
            prop_assert!(!is_plain_url(target.as_bytes()) || http::Uri::try_from(&target).is_ok());
        }
    }

    #[test]
    fn common_urls_are_known_without_a_parser() {
        for (target, plain) in [
            ("http://a.example/", true),
            ("http://a.example:8080/b/c?d=%20&e=f", true),
            ("http://a.example", false),
            ("http:///a", false),
            ("http://a.example:/", false),
            ("http://a.example:123456/", false),
            ("http://u@a.example/", false),
            ("http://a.example/\"", false),
            ("/a", false),
        ] {
            assert_eq!(is_plain_url(target.as_bytes()), plain, "{target}");
        }
    }

    #[test]
    fn a9_an_options_without_a_path_is_known() {
        for (line, expected) in [
            ("OPTIONS http://a HTTP/1.1", true),
            ("OPTIONS http://a:80 HTTP/1.1", true),
            ("OPTIONS http://a/ HTTP/1.1", false),
            ("OPTIONS http://a?b HTTP/1.1", false),
            ("OPTIONS * HTTP/1.1", false),
            ("OPTIONS /http://a HTTP/1.1", false),
            ("GET http://a HTTP/1.1", false),
        ] {
            assert_eq!(
                request_line(line.as_bytes()).map(|it| it.is_pathless),
                Ok(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn only_path_and_query_are_encoded() {
        for (given, expected) in [
            (&b"http://a/\xe9"[..], &b"http://a/%E9"[..]),
            (b"http://a?\xe9://\xe9", b"http://a?%E9://%E9"),
            (b"/\xe9://b/\xe9", b"/%E9://b/%E9"),
            (b"?http://\"", b"?http://%22"),
            (b"http://\xe9/a", b"http://\xe9/a"),
            (b"http://\xe9/\xe9", b"http://\xe9/%E9"),
            (b"h\xe9://a/", b"h\xe9://a/"),
            (b"http:\xe9//a/<", b"http:\xe9//a/%3C"),
            (b"a\xe9:443", b"a\xe9:443"),
            (b"http://a<b", b"http://a<b"),
            (b"*\xe9", b"*\xe9"),
            (b"", b""),
        ] {
            let is = encoded_target(given);
            assert_eq!(*is, *expected, "{}", given.escape_ascii());
        }
    }

    #[test]
    fn the_rest_of_a_head_stays_as_it_is() {
        let given = b"GET http://a/\xc3\xa9?<x> HTTP/1.1\r\nHost: a\r\nX: \xe9 <\r\n\r\n";
        let Encoded { head, path_as_received } = encoded_head(given);
        assert_eq!(
            head,
            b"GET http://a/%C3%A9?%3Cx%3E HTTP/1.1\r\nHost: a\r\nX: \xe9 <\r\n\r\n",
            "{}",
            head.escape_ascii()
        );
        assert_eq!(&*path_as_received, "/\u{e9}?<x>");
    }

    #[test]
    fn each_class_has_its_bytes_and_no_other() {
        for (class, signs) in [(TOKEN, "!#$%&'*+-.^_`|~"), (HOST, "-."), (PATH, "-._/?&=%")] {
            for byte in 0..=u8::MAX {
                let expected = match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => true,
                    sign => signs.as_bytes().contains(&sign),
                };
                assert_eq!(is_of_class(byte, class), expected, "{:?} as {class}", byte as char);
            }
        }
    }
}

#[cfg(test)]
mod http2_tests {
    use http::{HeaderName, Request};

    use super::*;

    fn read(path: &str, fields: &[(&str, &str)]) -> Result<(String, Option<String>), u16> {
        let mut request = Request::builder().uri(format!("https://a.example{path}"));
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request = request.header(HeaderName::try_from(*name).unwrap(), value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let path_as_received =
            check_http2(&mut parts, 3).map_err(|rejection| rejection.status().as_u16())?;
        Ok((parts.uri.to_string(), path_as_received.map(String::from)))
    }

    fn status(path: &str, fields: &[(&str, &str)]) -> Result<(), u16> {
        read(path, fields).map(drop)
    }

    #[test]
    fn h2_a_head_is_checked_by_the_rules_of_http_1() {
        assert_eq!(status("/a?b=%20", &[("a", "1"), ("a", ""), ("b", "1 2")]), Ok(()));
        assert_eq!(status("/", &[("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")]), Err(431));
        for value in [" a", "a ", "\ta", "a\t", " "] {
            assert_eq!(status("/", &[("user-agent", value)]), Err(400), "{value:?}");
        }
        assert_eq!(status("/", &[("content-length", "1"), ("content-length", "1")]), Err(400));
    }

    #[test]
    fn h2_bytes_that_are_invalid_in_a_url_are_encoded() {
        for (path, expected, path_as_received) in [
            ("/caf\u{e9}?\u{e9}", "https://a.example/caf%C3%A9?%C3%A9", Some("/caf\u{e9}?\u{e9}")),
            ("/\"a\"", "https://a.example/%22a%22", Some("/\"a\"")),
            ("/caf%C3%A9?{}|`", "https://a.example/caf%C3%A9?{}|`", None),
            ("?\u{e9}", "https://a.example/?%C3%A9", Some("?\u{e9}")),
        ] {
            let expected = (expected.to_owned(), path_as_received.map(str::to_owned));
            assert_eq!(read(path, &[]), Ok(expected), "{path}");
        }
        let long = format!("/{}", "\u{e9}".repeat(12_000));
        assert_eq!(read(&long, &[]), Err(414));
    }
}
