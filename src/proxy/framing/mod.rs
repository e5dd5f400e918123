//! Where each request of a connection begins and ends, decided before hyper sees its
//! bytes (RFC 9112 §6). hyper gets one request at a time, and only with a valid head.

pub mod foreign_protocol;
pub mod head;
#[cfg(test)]
mod tests;

use super::rejection::Rejection;
use head::{Content, Encoded, RequestLine, TOKEN, is_of_class};

/// Splits the bytes of one client into requests.
#[derive(Debug)]
pub struct Framing {
    bytes_max: usize,
    headers_max: usize,
    state: State,
    /// The request line of the last request whose head has come.
    line: Option<RequestLine>,
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
    /// For heads, and trailers, of at most so many bytes and fields.
    pub fn new(bytes_max: usize, headers_max: usize) -> Self {
        let state = State::Head(Search::default());
        Self { bytes_max, headers_max, state, line: None, encoded: None }
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
        if !is_of_class(bytes[0], TOKEN) {
            head::request_line(bytes)?;
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
                search.line = Some(head::request_line(without_cr(&bytes[..at]))?);
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
        let content = head::fields(line, lines, self.headers_max)?;
        // A higher minor version is treated as the highest known one (RFC 9110 §6.2).
        head[length - 1] = line.minor.min(b'1');
        if line.is_unencoded {
            let encoded = head::encoded_head(head);
            // hyper has the same limit.
            if encoded.head.len() > self.bytes_max {
                return Err(head::too_large());
            }
            self.encoded = Some(encoded);
        }
        self.line = Some(line);
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

// Finds the end of a chunked body (RFC 9112 §7.1), strictly by the grammar: sizes of hexadecimal
// digits only, CRLF as the only line end, bounded extensions, which are ignored, and trailers that
// are read as strictly as headers.

/// Bytes of chunk extensions in one request (RFC 9112 §7.1.1: to be limited).
const CHUNK_EXTENSION_BYTES_MAX: usize = 16 << 10;

/// The position in one chunked body.
#[derive(Debug)]
pub struct Chunks {
    at: At,
    /// Bytes left of the chunk, or the part of its size that has been read.
    size: u64,
    extensions: usize,
    trailers: Trailers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the first digit of a size.
    Begin,
    Size,
    /// After blanks that only an extension may follow.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer,
    TrailerLf,
    Over,
}

/// The trailer section after the last chunk: the current line, and the totals so far.
#[derive(Debug)]
struct Trailers {
    line: Vec<u8>,
    bytes: usize,
    fields: usize,
    bytes_max: usize,
    headers_max: usize,
}

impl Chunks {
    /// The beginning of a body, with limits for its trailers.
    pub const fn new(bytes_max: usize, headers_max: usize) -> Self {
        let trailers = Trailers { line: Vec::new(), bytes: 0, fields: 0, bytes_max, headers_max };
        Self { at: At::Begin, size: 0, extensions: 0, trailers }
    }

    /// How many of `bytes` belong to this body: fewer than all only if it ends in them.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut taken = 0;
        while taken < bytes.len() && self.at != At::Over {
            if self.at == At::Data {
                taken += self.data(bytes.len() - taken);
            } else {
                self.at = self.step(bytes[taken])?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Whether the body has ended.
    pub fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// Skips the data of the chunk that is at hand.
    fn data(&mut self, available: usize) -> usize {
        let count = usize::try_from(self.size).unwrap_or(usize::MAX).min(available);
        self.size -= count as u64;
        if self.size == 0 {
            self.at = At::DataCr;
        }
        count
    }

    fn step(&mut self, byte: u8) -> Result<At, &'static str> {
        match (self.at, byte) {
            (At::Begin | At::Size, _) if byte.is_ascii_hexdigit() => self.digit(byte),
            (At::Size, b' ' | b'\t') | (At::Blank, b' ' | b'\t') => self.extension(At::Blank),
            (At::Size | At::Blank, b';') => self.extension(At::Extension),
            (At::Size | At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Extension, _) if byte == b'\t' || !byte.is_ascii_control() => {
                self.extension(At::Extension)
            }
            (At::SizeLf, b'\n') => Ok(if self.size == 0 { At::Trailer } else { At::Data }),
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => {
                self.size = 0;
                Ok(At::Begin)
            }
            (At::Trailer, b'\r') => Ok(At::TrailerLf),
            (At::Trailer, _) if byte != b'\n' => self.trailers.push(byte),
            (At::TrailerLf, b'\n') => self.trailers.end_line(),
            _ => Err(self.at.rule()),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<At, &'static str> {
        let value = char::from(byte).to_digit(16).map(u64::from);
        let size =
            self.size.checked_mul(16).zip(value).and_then(|(size, digit)| size.checked_add(digit));
        self.size = size.ok_or("a chunk's size is more than can be counted (RFC 9112 §7.1)")?;
        Ok(At::Size)
    }

    fn extension(&mut self, at: At) -> Result<At, &'static str> {
        self.extensions += 1;
        if self.extensions > CHUNK_EXTENSION_BYTES_MAX {
            return Err("the chunks have too many extensions (RFC 9112 §7.1.1)");
        }
        Ok(at)
    }
}

impl Trailers {
    fn push(&mut self, byte: u8) -> Result<At, &'static str> {
        self.bytes += 1;
        if self.bytes > self.bytes_max {
            return Err("the trailers are longer than limits.max_header_bytes allows");
        }
        self.line.push(byte);
        Ok(At::Trailer)
    }

    fn end_line(&mut self) -> Result<At, &'static str> {
        if self.line.is_empty() {
            return Ok(At::Over);
        }
        head::field(&self.line)?;
        self.line.clear();
        self.fields += 1;
        if self.fields > self.headers_max {
            return Err("the trailers have too many fields");
        }
        Ok(At::Trailer)
    }
}

impl At {
    /// The rule that a byte breaks which may not stand here.
    const fn rule(self) -> &'static str {
        match self {
            Self::Begin | Self::Size | Self::Blank => {
                "a chunk's size is not hexadecimal digits only (RFC 9112 §7.1)"
            }
            Self::Extension | Self::SizeLf => "a chunk's size does not end in CRLF (RFC 9112 §7.1)",
            Self::Data | Self::DataCr | Self::DataLf => {
                "a chunk is longer than its size (RFC 9112 §7.1)"
            }
            Self::Trailer | Self::TrailerLf | Self::Over => {
                "a trailer does not end in CRLF (RFC 9112 §7.1.2)"
            }
        }
    }
}

#[cfg(test)]
mod chunks_tests {
    use super::*;

    /// How much of `bytes` is one body, and whether it has come to its end.
    fn taken(bytes: &str) -> Result<(usize, bool), &'static str> {
        let mut chunks = Chunks::new(64, 2);
        let whole = chunks.take(bytes.as_bytes()).map(|count| (count, chunks.is_over()));
        let mut chunks = Chunks::new(64, 2);
        let by_byte: Result<usize, _> =
            bytes.as_bytes().chunks(1).map(|byte| chunks.take(byte)).sum();
        assert_eq!(by_byte.map(|count| (count, chunks.is_over())), whole, "{bytes:?} in pieces");
        whole
    }

    #[test]
    fn a_body_ends_behind_its_last_chunk_and_its_trailers() {
        for body in [
            "0\r\n\r\n",
            "000\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "A\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n",
            "3;name=value;\"a, b\"\r\nabc\r\n0\r\n\r\n",
            "3 \t;x\r\nabc\r\n0;y\r\n\r\n",
            "0\r\nX-Sum: 1\r\nX-Two: 2\r\n\r\n",
        ] {
            assert_eq!(taken(body), Ok((body.len(), true)), "{body:?}");
            assert_eq!(taken(&format!("{body}GET")), Ok((body.len(), true)), "{body:?} and more");
            let begun = &body[..body.len() - 1];
            assert_eq!(taken(begun), Ok((begun.len(), false)), "{begun:?}");
        }
    }

    #[test]
    fn b5_b6_what_is_not_in_the_grammar_ends_it() {
        for body in [
            "\r\n",
            ";x\r\n",
            " 3\r\n",
            "-1\r\n",
            "+3\r\n",
            "0x3\r\n",
            "3_0\r\n",
            "g\r\n",
            "3\n",
            "3\rabc",
            "3 \r\n",
            "3;a\nabc",
            "3;\0\r\n",
            "3;a\rb",
            "3\r\nabcd",
            "3\r\nabc\n",
            "3\r\nabc0\r\n",
            "3\r\nabc\rx",
            "10000000000000000\r\n",
            "0\r\n\n",
            "0\r\nX: 1\n",
            "0\r\nX : 1\r\n",
            "0\r\n folded\r\n",
            "0\r\nX: 1\r\n folded\r\n",
            "0\r\nno colon\r\n",
            "0\r\nX: a\0b\r\n",
            "0\r\nX: 1\r\nX: 2\r\nX: 3\r\n",
        ] {
            assert!(taken(body).is_err(), "{body:?}");
        }
        assert!(taken(&format!("0\r\nX: {}", "x".repeat(62))).is_err(), "trailers are bounded");
        let mut chunks = Chunks::new(64, 2);
        let extended = format!("1;{}\r\nx\r\n", "x".repeat(1000));
        assert!(
            (0..100).any(|_| chunks.take(extended.as_bytes()).is_err()),
            "and so are extensions"
        );
    }
}
