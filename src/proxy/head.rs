//! A request head, read strictly before the HTTP engine sees it (RFC 9112 §2 to §6). The engine
//! mends or overlooks what two readers could understand differently; here that is a fault, with the
//! line and the rule it breaks. What passes means one thing only.

use http::StatusCode;

use super::octets::{CAPITAL, HOST, PATH, SMALL, TOKEN, is};
use super::refusal::Refusal;
use crate::limits::{DETAIL_OCTETS_MAX, TARGET_OCTETS_MAX};

/// What a request line says beside what the engine makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The digit behind `HTTP/1.`.
    pub minor: u8,
    pub is_connect: bool,
    /// `OPTIONS` of an absolute URL without path and query, which is one of `*` at the origin
    /// (RFC 9112 §3.2.4). The engine's URI type has a path all the same.
    pub is_pathless: bool,
}

/// What follows a head, up to the next request (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Length(u64),
    Chunked,
}

/// Reads a request line, without its line end.
pub fn request_line(line: &[u8]) -> Result<RequestLine, Refusal> {
    if is_tls(line) {
        return Err(Refusal::bad_request(
            "this is a TLS handshake, but the proxy is spoken to in plain HTTP: write http:// instead of \
             https:// for the proxy's own address (as in HTTPS_PROXY=http://127.0.0.1:3128)",
        ));
    }
    let fault = |fault: &str| Refusal::bad_request(format!("the request line {} {fault}", quoted(line)));
    let mut parts = line.split(|octet| *octet == b' ');
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
    if target.len() > TARGET_OCTETS_MAX {
        return Err(target_too_long());
    }
    if !is_plain_url(target) {
        if target.contains(&b'#') {
            return Err(fault("has a fragment in its target, which is never sent (RFC 9110 §7.1)"));
        }
        if !target.iter().all(u8::is_ascii_graphic) || http::Uri::try_from(target).is_err() {
            return Err(fault("has no valid target"));
        }
    }
    let Some(&[minor @ b'0'..=b'9']) = version.strip_prefix(b"HTTP/1.") else {
        return Err(fault("does not end in HTTP/1.1 or HTTP/1.0"));
    };
    let is_pathless = method == b"OPTIONS" && is_without_path(target);
    Ok(RequestLine { minor, is_connect: method == b"CONNECT", is_pathless })
}

/// What the field lines of a head say beside what the engine makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub content: Content,
    /// Whether all names are written as the engine would write them by itself.
    pub in_title_case: bool,
}

/// Reads the field lines behind `line`, each without its line end.
pub fn fields<'a>(
    line: RequestLine,
    lines: impl Iterator<Item = &'a [u8]>,
    fields_max: usize,
) -> Result<Fields, Refusal> {
    let (mut length, mut codings, mut count, mut in_title_case) = (None, false, 0, true);
    for field_line in lines {
        count += 1;
        if count > fields_max {
            return Err(too_large());
        }
        let fault = |fault| Refusal::bad_request(field_fault(field_line, fault));
        let Field { name, value, in_title_case: is_in_title_case } = field(field_line).map_err(fault)?;
        in_title_case &= is_in_title_case;
        if name.eq_ignore_ascii_case(b"content-length") {
            // Equal ones could be folded into one (RFC 9110 §8.6); whoever sends two is not trusted to.
            let first = length.replace(number(value).map_err(fault)?).is_none();
            first.then_some(()).ok_or_else(|| fault("is the second of its name (RFC 9112 §6.3)"))?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let only = !std::mem::replace(&mut codings, true) && value.eq_ignore_ascii_case(b"chunked");
            only.then_some(()).ok_or_else(|| {
                fault("is not one transfer coding \"chunked\", the only one served (RFC 9112 §6.1)")
            })?;
        }
    }
    let content = content(line, length, codings)?;
    Ok(Fields { content, in_title_case })
}

/// By its length, where one is given, and by whether it is in a transfer coding (RFC 9112 §6.3).
fn content(line: RequestLine, length: Option<u64>, codings: bool) -> Result<Content, Refusal> {
    match (length, codings) {
        (Some(_), true) => Err(Refusal::bad_request(
            "the request has both Content-Length and Transfer-Encoding: one of them lies (RFC 9112 §6.1)",
        )),
        (None, true) if line.minor == b'0' => {
            Err(Refusal::bad_request("HTTP/1.0 has no Transfer-Encoding (RFC 9112 §6.1)"))
        }
        (_, true) | (Some(1..), _) if line.is_connect => Err(Refusal::bad_request(
            "a CONNECT has no content: what follows it would be taken out of the tunnel (RFC 9110 §9.3.6)",
        )),
        (None, true) => Ok(Content::Chunked),
        (length, false) => Ok(Content::Length(length.unwrap_or(0))),
    }
}

/// A field line (RFC 9112 §5).
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Whether the name has a capital at its beginning and behind each hyphen, and no other.
    pub in_title_case: bool,
}

/// Reads a field line, or says the rule it breaks.
pub fn field(line: &[u8]) -> Result<Field<'_>, &'static str> {
    let (length, in_title_case) = name(line);
    let (name, rest) = line.split_at(length);
    let Some(value) = rest.strip_prefix(b":").filter(|_| !name.is_empty()) else {
        return Err(name_fault(line));
    };
    let value = trim(value);
    if has_control(value) {
        return Err("has a control character in its value (RFC 9110 §5.5)");
    }
    Ok(Field { name, value, in_title_case })
}

/// How long the token is that `line` begins with, and whether it is in title case.
fn name(line: &[u8]) -> (usize, bool) {
    let (mut in_title_case, mut misplaced) = (true, SMALL);
    for (at, octet) in line.iter().enumerate() {
        if !is(*octet, TOKEN) {
            return (at, in_title_case);
        }
        in_title_case &= !is(*octet, misplaced);
        misplaced = if *octet == b'-' { SMALL } else { CAPITAL };
    }
    (line.len(), in_title_case)
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

/// Without a way out before the end: so it is looked at in many octets at once.
fn has_control(value: &[u8]) -> bool {
    value.iter().fold(false, |found, octet| found | (octet.is_ascii_control() & (*octet != b'\t')))
}

/// Digits only (RFC 9110 §8.6): no sign, no list, no other base, and no number that wraps.
fn number(value: &[u8]) -> Result<u64, &'static str> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|it| it.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    // The engine counts in the same width, and has put the last of its numbers to other uses.
    number.filter(|it| *it < u64::MAX - 1).ok_or("is not a number of digits only (RFC 9110 §8.6)")
}

/// Optional whitespace around a value (RFC 9110 §5.6.3): a carriage return is none.
fn trim(value: &[u8]) -> &[u8] {
    let blank = |octet: &u8| matches!(octet, b' ' | b'\t');
    let begin = value.iter().position(|octet| !blank(octet)).unwrap_or(value.len());
    let end = value.iter().rposition(|octet| !blank(octet)).map_or(begin, |last| last + 1);
    &value[begin..end]
}

/// A path may have "://" in it, too.
fn is_without_path(target: &[u8]) -> bool {
    !target.starts_with(b"/")
        && memchr::memmem::find(target, b"://")
            .is_some_and(|at| memchr::memchr2(b'/', b'?', &target[at + 3..]).is_none())
}

/// A URL as most are, of which nothing has to be parsed to know that it is one: letters, digits and few
/// signs. That something else is a URL is for a parser to say.
fn is_plain_url(target: &[u8]) -> bool {
    let Some(rest) = target.strip_prefix(b"http://") else { return false };
    let host_end = rest.iter().position(|octet| !is(*octet, HOST)).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(host_end);
    let digits = rest.strip_prefix(b":").map_or(&b""[..], |port| {
        let end = port.iter().position(|octet| !octet.is_ascii_digit()).unwrap_or(port.len());
        &port[..end]
    });
    let path = if digits.is_empty() { rest } else { &rest[1 + digits.len()..] };
    !host.is_empty()
        && digits.len() <= 5
        && path.first() == Some(&b'/')
        && path.iter().all(|octet| is(*octet, PATH))
}

/// A TLS record of a handshake (RFC 8446 §5.1).
fn is_tls(octets: &[u8]) -> bool {
    octets.starts_with(&[0x16, 0x03])
}

pub fn is_token(octets: &[u8]) -> bool {
    !octets.is_empty() && octets.iter().all(|octet| is(*octet, TOKEN))
}

pub fn too_large() -> Refusal {
    Refusal::bad_request_as(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "the request head is longer, or has more fields, than limits.max_header_bytes and \
         limits.max_headers allow",
    )
}

pub fn too_slow() -> Refusal {
    Refusal::bad_request_as(
        StatusCode::REQUEST_TIMEOUT,
        "the request head did not come to its end in time (limits.header_timeout)",
    )
}

pub fn target_too_long() -> Refusal {
    Refusal::bad_request_as(
        StatusCode::URI_TOO_LONG,
        "the request line is longer than limits.max_header_bytes allows, or its target than 65,534 octets",
    )
}

/// Values are not repeated, for they may be secret; but those that frame the message are said.
fn field_fault(line: &[u8], fault: &str) -> String {
    let name = memchr::memchr2(b':', b' ', line).map_or(line, |end| &line[..end]);
    let frames = [&b"content-length"[..], b"transfer-encoding"];
    let is_framing = frames.iter().any(|framing| name.eq_ignore_ascii_case(framing));
    format!("the field line {} {fault}", if is_framing { quoted(line) } else { quoted(name) })
}

fn quoted(line: &[u8]) -> String {
    let cut = &line[..line.len().min(DETAIL_OCTETS_MAX)];
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_passes_for_a_plain_url_is_one_for_the_engine(
            target in "http://[-.a-zA-Z0-9]{0,12}(:[0-9]{0,6})?/?[-._/?&=%a-zA-Z0-9@:\"]{0,20}"
        ) {
            prop_assert!(!is_plain_url(target.as_bytes()) || http::Uri::try_from(&target).is_ok());
        }
    }

    #[test]
    fn a_target_needs_no_parser_where_it_is_plain() {
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
    fn title_case_is_what_the_engine_writes_by_itself() {
        for (name, expected) in [
            ("User-Agent", true),
            ("Te", true),
            ("X-1a-_b--C", true),
            ("user-agent", false),
            ("User-agent", false),
            ("DNT", false),
            ("ETag", false),
            ("X-1A", false),
        ] {
            assert_eq!(super::name(name.as_bytes()), (name.len(), expected), "{name}");
        }
    }

    fn read(head: &str) -> Result<Content, String> {
        let mut lines = head.split("\r\n").map(str::as_bytes);
        let read = request_line(lines.next().unwrap_or_default())
            .and_then(|line| fields(line, lines.take_while(|line| !line.is_empty()), 100));
        read.map(|fields| fields.content).map_err(|refusal| refusal.detail().to_owned())
    }

    #[test]
    fn the_reason_names_the_line_and_the_rule() {
        for (head, expected) in [
            ("\x16\x03\x01\x02", "TLS handshake"),
            ("GET http://a/\r\n\r\n", "is not a method, a target and a version"),
            ("GET  http://a/ HTTP/1.1\r\n\r\n", "one blank between each"),
            ("G@T http://a/ HTTP/1.1\r\n\r\n", "does not begin with a method"),
            ("GET http://a/ HTTP/2.0\r\n\r\n", "does not end in HTTP/1.1"),
            ("GET http://a/\u{e9} HTTP/1.1\r\n\r\n", "has no valid target"),
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
            ("GET http://a/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "both"),
            ("GET http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0 has no"),
            ("CONNECT a:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "a CONNECT has no content"),
        ] {
            let reason = read(head).unwrap_err();
            assert!(reason.contains(expected), "{head:?}: {reason}");
        }
    }

    #[test]
    fn c7_what_may_be_secret_is_not_repeated() {
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
    fn a_head_tells_what_follows_it() {
        for (fields, expected) in [
            ("", Content::Length(0)),
            ("Content-Length:\t007 \r\n", Content::Length(7)),
            ("Content-Length: 18446744073709551613\r\n", Content::Length(u64::MAX - 2)),
            ("transfer-encoding: Chunked\r\n", Content::Chunked),
        ] {
            assert_eq!(read(&format!("POST http://a/ HTTP/1.1\r\n{fields}\r\n")), Ok(expected), "{fields:?}");
        }
        let connect = "CONNECT a:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(connect), Ok(Content::Length(0)), "nothing is taken out of the tunnel");
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
            assert_eq!(request_line(line.as_bytes()).map(|it| it.is_pathless), Ok(expected), "{line}");
        }
    }
}
