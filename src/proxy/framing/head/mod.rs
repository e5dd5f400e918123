//! A request head, read strictly before hyper sees it (RFC 9112 §2 to §6). hyper
//! corrects or ignores some faults that another reader may understand differently. Here each fault
//! is refused, with the line and the rule it breaks: a head that passes has one meaning only.

pub mod encoded;
mod fault;
mod field;
pub mod http2;
mod line;

use self::fault::field_fault;
pub use self::fault::{target_too_long, too_large, too_slow};
pub use self::field::{Field, field};
pub use self::line::{RequestLine, request_line};
use crate::proxy::outcome::rejection::Rejection;

/// The content that follows a head (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Length(u64),
    Chunked,
}

/// What hyper does not report of the field lines of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub content: Content,
    /// Whether all names are in title case, as hyper writes them.
    pub in_title_case: bool,
}

/// Reads the field lines after `line`, each without its line end.
pub fn fields<'a>(
    line: RequestLine,
    lines: impl Iterator<Item = &'a [u8]>,
    headers_max: usize,
) -> Result<Fields, Rejection> {
    let (mut length, mut codings, mut count, mut in_title_case) = (None, false, 0, true);
    for field_line in lines {
        count += 1;
        if count > headers_max {
            return Err(too_large());
        }
        let fault = |fault| Rejection::bad_request(field_fault(field_line, fault));
        let Field { name, value, in_title_case: is_in_title_case } =
            field(field_line).map_err(fault)?;
        in_title_case &= is_in_title_case;
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
    let content = content(line, length, codings)?;
    Ok(Fields { content, in_title_case })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<Content, String> {
        let mut lines = head.split("\r\n").map(str::as_bytes);
        let read = request_line(lines.next().unwrap_or_default(), true)
            .and_then(|line| fields(line, lines.take_while(|line| !line.is_empty()), 100));
        read.map(|fields| fields.content).map_err(|rejection| rejection.detail().to_owned())
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
}
