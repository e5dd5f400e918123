//! Where each request of a connection begins and ends, decided before hyper sees its
//! bytes (RFC 9112 §6). hyper gets one request at a time, and only with a valid head.

mod chunks;
pub mod foreign_protocol;
pub mod head;
#[cfg(test)]
mod tests;

use crate::proxy::framing::chunks::Chunks;
use crate::proxy::framing::head::encoded::{self, Encoded};
use crate::proxy::framing::head::{Content, Fields, RequestLine};
use crate::proxy::outcome::rejection::Rejection;
use crate::proxy::request::char_class::{TOKEN, is};

/// Splits the bytes of one client into requests.
#[derive(Debug)]
pub struct Framing {
    bytes_max: usize,
    headers_max: usize,
    strict_target: bool,
    state: State,
    /// The request line of the last request whose head has come.
    line: Option<RequestLine>,
    in_title_case: bool,
    /// The head that hyper gets in place of the one that was passed last.
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

/// What to do with the first of the bytes that have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingStep {
    /// Pass so many bytes to hyper: they are of one request.
    Pass(usize),
    /// Discard so many bytes: empty lines before a request (RFC 9112 §2.2).
    Discard(usize),
    /// Read more bytes.
    ReadMore,
}

/// Why bytes are not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Head(Rejection),
    Content(&'static str),
}

impl Framing {
    /// For heads, and trailers, of at most so many bytes and fields. With `strict_target`, a target
    /// that would have to be percent-encoded is refused.
    pub fn new(bytes_max: usize, headers_max: usize, strict_target: bool) -> Self {
        let state = State::Head(Search::default());
        Self {
            bytes_max,
            headers_max,
            strict_target,
            state,
            line: None,
            in_title_case: true,
            encoded: None,
        }
    }

    /// Checks `bytes`: all that were read after those that were passed or discarded.
    pub fn check(&mut self, bytes: &mut [u8]) -> Result<FramingStep, Fault> {
        if bytes.is_empty() {
            return Ok(FramingStep::ReadMore);
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
        Ok(FramingStep::Pass(passed))
    }

    /// Whether the next bytes begin a request.
    pub const fn is_between_requests(&self) -> bool {
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

    /// The head that hyper gets in place of the bytes that were just passed, if they are a
    /// head whose target had to be percent-encoded.
    pub const fn take_encoded(&mut self) -> Option<Encoded> {
        self.encoded.take()
    }

    fn head(&mut self, bytes: &mut [u8], search: Search) -> Result<FramingStep, Rejection> {
        match empty_lines(bytes) {
            0 if bytes == b"\r" => return Ok(FramingStep::ReadMore),
            0 => {}
            count => return Ok(FramingStep::Discard(count)),
        }
        // The end of an invalid line is not waited for: a client that speaks TLS sends none.
        if !is(bytes[0], TOKEN) {
            head::request_line(bytes, self.strict_target)?;
        }
        let (search, end) = self.search(bytes, search)?;
        self.state = State::Head(search);
        match (search.line, end) {
            (Some(line), Some(end)) if end <= self.bytes_max => {
                self.begin(line, &mut bytes[..end])?;
                Ok(FramingStep::Pass(end))
            }
            (Some(_), _) if bytes.len() > self.bytes_max => Err(head::too_large()),
            (None, _) if bytes.len() > self.bytes_max => Err(head::target_too_long()),
            _ => Ok(FramingStep::ReadMore),
        }
    }

    /// Searches for the empty line, and checks the first line as soon as it is whole.
    fn search(
        &self,
        bytes: &[u8],
        mut search: Search,
    ) -> Result<(Search, Option<usize>), Rejection> {
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

    /// Checks a whole head, and begins the content that follows it.
    fn begin(&mut self, line: RequestLine, head: &mut [u8]) -> Result<(), Rejection> {
        let mut begin = 0;
        let mut lines = memchr::memchr_iter(b'\n', head).map(|end| {
            let line = &head[begin..end];
            begin = end + 1;
            without_cr(line)
        });
        let length = lines.next().map_or(0, <[u8]>::len);
        let lines = lines.take_while(|line| !line.is_empty());
        let Fields { content, in_title_case } = head::fields(line, lines, self.headers_max)?;
        // A higher minor version is treated as the highest known one (RFC 9110 §6.2).
        head[length - 1] = line.minor.min(b'1');
        if line.is_unencoded {
            let encoded = encoded::encoded_head(head);
            // hyper has the same limit.
            if encoded.head.len() > self.bytes_max {
                return Err(head::too_large());
            }
            self.encoded = Some(encoded);
        }
        (self.line, self.in_title_case) = (Some(line), in_title_case);
        self.state = match content {
            Content::Length(length) => State::Length(length),
            Content::Chunked => State::Chunked(Chunks::new(self.bytes_max, self.headers_max)),
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
