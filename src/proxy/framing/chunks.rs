//! Finds the end of a chunked body (RFC 9112 §7.1), strictly by the grammar: sizes of hexadecimal
//! digits only, CRLF as the only line end, bounded extensions, which are ignored, and trailers that
//! are read as strictly as headers.

use crate::proxy::framing::head;

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
            return Err("the trailers are more than limits.max_headers allows");
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
mod tests {
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
