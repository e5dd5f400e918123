//! Where each request of a connection begins and ends, decided before the HTTP engine sees its
//! bytes (RFC 9112 §6). The engine gets one request at a time, and only when its head holds.

mod chunks;
pub mod head;

use crate::proxy::framing::chunks::Chunks;
use crate::proxy::framing::head::encoded::{self, Encoded};
use crate::proxy::framing::head::{Content, Fields, RequestLine};
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::request::char_class::{TOKEN, is};

/// The bytes of one client in their order.
#[derive(Debug)]
pub struct Framing {
    bytes_max: usize,
    fields_max: usize,
    strict_target: bool,
    state: State,
    /// Of the last request whose head has come.
    line: Option<RequestLine>,
    in_title_case: bool,
    /// What the engine is to have in place of the head that was passed last.
    encoded: Option<Encoded>,
}

#[derive(Debug)]
enum State {
    Head(Search),
    Length(u64),
    Chunked(Chunks),
}

/// How far a head has been searched for its end, and its first line once that has come.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    searched: usize,
    line: Option<RequestLine>,
}

/// What is to be done with the first of the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// So many are of one request: the engine may have them.
    Pass(usize),
    /// So many mean nothing: empty lines before a request (RFC 9112 §2.2).
    Drop(usize),
    /// None of them, before more have come.
    More,
}

/// Why bytes go no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Head(Refusal),
    Content(&'static str),
}

impl Framing {
    /// For heads, and trailers, of so many bytes and fields at most. With `strict_target`, a target is refused where
    /// it would have to be percent-encoded.
    pub fn new(bytes_max: usize, fields_max: usize, strict_target: bool) -> Self {
        let state = State::Head(Search::default());
        Self {
            bytes_max,
            fields_max,
            strict_target,
            state,
            line: None,
            in_title_case: true,
            encoded: None,
        }
    }

    /// Judges `bytes`: those that came since the last that were passed or dropped.
    pub fn admit(&mut self, bytes: &mut [u8]) -> Result<Admit, Fault> {
        if bytes.is_empty() {
            return Ok(Admit::More);
        }
        let passed = match &mut self.state {
            State::Head(search) => {
                let search = *search;
                return self.head(bytes, search).map_err(Fault::Head);
            }
            State::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= count as u64;
                count
            }
            State::Chunked(chunks) => chunks.take(bytes).map_err(Fault::Content)?,
        };
        self.end_content();
        Ok(Admit::Pass(passed))
    }

    /// Whether what comes next belongs to a request of which nothing has been passed.
    pub const fn is_between(&self) -> bool {
        matches!(self.state, State::Head(_))
    }

    /// The request line of the last request passed.
    pub const fn line(&self) -> Option<RequestLine> {
        self.line
    }

    /// Whether all names of the last head passed are in title case.
    pub const fn in_title_case(&self) -> bool {
        self.in_title_case
    }

    /// Where the bytes that were just passed are a head whose target has to be percent-encoded, what the engine is to
    /// have in their place.
    pub const fn take_encoded(&mut self) -> Option<Encoded> {
        self.encoded.take()
    }

    fn head(&mut self, bytes: &mut [u8], search: Search) -> Result<Admit, Refusal> {
        match empty_lines(bytes) {
            0 if bytes == b"\r" => return Ok(Admit::More),
            0 => {}
            count => return Ok(Admit::Drop(count)),
        }
        // A line that cannot be one is not waited for: who speaks TLS sends no line end.
        if !is(bytes[0], TOKEN) {
            head::request_line(bytes, self.strict_target)?;
        }
        let (search, end) = self.search(bytes, search)?;
        self.state = State::Head(search);
        match (search.line, end) {
            (Some(line), Some(end)) if end <= self.bytes_max => {
                self.begin(line, &mut bytes[..end])?;
                Ok(Admit::Pass(end))
            }
            (Some(_), _) if bytes.len() > self.bytes_max => Err(head::too_large()),
            (None, _) if bytes.len() > self.bytes_max => Err(head::target_too_long()),
            _ => Ok(Admit::More),
        }
    }

    /// Looks for the empty line, and at the first line as soon as it is there.
    fn search(&self, bytes: &[u8], mut search: Search) -> Result<(Search, Option<usize>), Refusal> {
        for at in memchr::memchr_iter(b'\n', &bytes[search.searched..]) {
            let at = search.searched + at;
            if search.line.is_none() {
                if at > self.bytes_max {
                    return Err(head::target_too_long());
                }
                search.line =
                    Some(head::request_line(without_cr(&bytes[..at]), self.strict_target)?);
            }
            match &bytes[at + 1..] {
                [b'\n', ..] => return Ok((search, Some(at + 2))),
                [b'\r', b'\n', ..] => return Ok((search, Some(at + 3))),
                [] | [b'\r'] => return Ok((Search { searched: at, ..search }, None)),
                _ => {}
            }
        }
        search.searched = bytes.len();
        Ok((search, None))
    }

    /// A whole head: what follows it is its content, and then the next request.
    fn begin(&mut self, line: RequestLine, head: &mut [u8]) -> Result<(), Refusal> {
        let mut begin = 0;
        let mut lines = memchr::memchr_iter(b'\n', head).map(|end| {
            let line = &head[begin..end];
            begin = end + 1;
            without_cr(line)
        });
        let length = lines.next().map_or(0, <[u8]>::len);
        let lines = lines.take_while(|line| !line.is_empty());
        let Fields { content, in_title_case } = head::fields(line, lines, self.fields_max)?;
        // A higher minor version is treated as the highest that we know (RFC 9110 §6.2).
        head[length - 1] = line.minor.min(b'1');
        if line.is_unencoded {
            let encoded = encoded::head(head);
            // The engine has the same bound.
            if encoded.head.len() > self.bytes_max {
                return Err(head::too_large());
            }
            self.encoded = Some(encoded);
        }
        (self.line, self.in_title_case) = (Some(line), in_title_case);
        self.state = match content {
            Content::Length(length) => State::Length(length),
            Content::Chunked => State::Chunked(Chunks::new(self.bytes_max, self.fields_max)),
        };
        self.end_content();
        Ok(())
    }

    fn end_content(&mut self) {
        let is_over = match &self.state {
            State::Head(_) => false,
            State::Length(left) => *left == 0,
            State::Chunked(chunks) => chunks.is_over(),
        };
        if is_over {
            self.state = State::Head(Search::default());
        }
    }
}

/// A line may end in LF alone (RFC 9112 §2.2); one CR before it belongs to the line end.
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Bytes of empty lines at the beginning.
fn empty_lines(bytes: &[u8]) -> usize {
    let mut count = 0;
    loop {
        count += match &bytes[count..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return count,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of `bytes` is passed, request by request, when they come in these pieces; and the status
    /// of what ends it.
    fn passed(bytes: &str, pieces: &[usize]) -> (Vec<String>, Option<u16>) {
        let mut framing = Framing::new(200, 4, false);
        let (mut held, mut all, mut is_new) = (Vec::new(), Vec::<String>::new(), true);
        let mut rest = bytes.as_bytes();
        for size in pieces.iter().copied().chain([usize::MAX]) {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            held.extend_from_slice(piece);
            rest = later;
            loop {
                let count = match framing.admit(&mut held) {
                    Ok(Admit::Pass(count)) => {
                        let encoded = framing.take_encoded().map(|encoded| encoded.head);
                        let text =
                            String::from_utf8_lossy(encoded.as_deref().unwrap_or(&held[..count]))
                                .into_owned();
                        match all.last_mut().filter(|_| !is_new) {
                            Some(last) => last.push_str(&text),
                            None => all.push(text),
                        }
                        is_new = framing.is_between();
                        count
                    }
                    Ok(Admit::Drop(count)) => count,
                    Ok(Admit::More) => break,
                    Err(Fault::Head(refusal)) => return (all, Some(refusal.status().as_u16())),
                    Err(Fault::Content(_)) => return (all, Some(0)),
                };
                held.drain(..count);
            }
        }
        (all, None)
    }

    /// The same at once, byte by byte, and split at each boundary.
    #[track_caller]
    fn assert_passed(bytes: &str, requests: &[&str], status: Option<u16>) {
        let expected = (requests.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), status);
        for at in 0..bytes.len() {
            // How much of broken content passes before it breaks depends on how it comes.
            if status != Some(0) {
                assert_eq!(passed(bytes, &[at]), expected, "{bytes:?} split at {at}");
            }
        }
        let (requests, status) = passed(bytes, &vec![1; bytes.len()]);
        assert_eq!(status, expected.1, "{bytes:?} byte by byte");
        assert!(
            status == Some(0) || requests == expected.0,
            "{bytes:?} byte by byte: {requests:?}"
        );
    }

    const GET: &str = "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn requests_pass_one_by_one_however_they_come() {
        let post = "POST http://a/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\nX: y\r\n\r\n";
        assert_passed(GET, &[GET], None);
        assert_passed(&[GET, post, chunked, GET].concat(), &[GET, post, chunked, GET], None);
        assert_passed(&format!("\r\n\n{GET}\r\n\r\n{GET}\n"), &[GET, GET], None);
        assert_passed("GET http://a/ HTTP/1.0\n\n", &["GET http://a/ HTTP/1.0\n\n"], None);
        assert_passed("GET http://a/ HTTP/1.7\r\n\r\n", &["GET http://a/ HTTP/1.1\r\n\r\n"], None);
        assert_passed(&GET[..GET.len() - 1], &[], None);
    }

    #[test]
    fn what_the_engine_gets_of_a_target_is_encoded_however_it_comes() {
        let typed = "GET http://a/caf\u{e9}?\"<>` HTTP/1.1\r\nHost: a\r\n\r\n";
        let encoded = "GET http://a/caf%C3%A9?%22%3C%3E` HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_passed(&[GET, typed, GET].concat(), &[GET, encoded, GET], None);
        // The head, or the target alone, would be longer than it may be.
        let long = |typed: &str| format!("GET http://a/{} HTTP/1.1\r\n\r\n{GET}", typed.repeat(60));
        assert_passed(&long("<"), &[], Some(431));
        assert_passed(
            &[GET, "GET http://a\u{e9}/ HTTP/1.1\r\n\r\n", GET].concat(),
            &[GET],
            Some(400),
        );
    }

    #[test]
    fn b14_what_is_behind_a_fault_does_not_pass() {
        for (fault, status) in [
            ("GET http://a/ HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("\rGET http://a/ HTTP/1.1\r\n\r\n", 400),
            ("GET http://a/ HTTP/2.0\r\n", 400),
            ("\0", 400),
            ("GET http://a/ HTTP/1.1\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n\r\n", 431),
        ] {
            assert_passed(&[GET, fault, GET].concat(), &[GET], Some(status));
        }
        let long = "x".repeat(300);
        assert_passed(&format!("GET http://a/{long} HTTP/1.1\r\n\r\n{GET}"), &[], Some(414));
        assert_passed(&format!("GET http://a/ HTTP/1.1\r\nX: {long}\r\n\r\n{GET}"), &[], Some(431));
        let chunks =
            "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n";
        assert_passed(&[chunks, GET].concat(), &[], Some(0));
    }
}
