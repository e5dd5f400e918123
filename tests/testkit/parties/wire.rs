//! Reading HTTP/1.1 from a socket, the same for the origin and the client: nothing is interpreted
//! beyond where a message ends.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// What the bytes go over: a connection, or TLS on one.
pub trait Stream: Read + Write + Debug + Send {
    fn tcp(&self) -> &TcpStream;

    /// Whether the other side has ended, as far as can be told without taking bytes from it. Waits
    /// for the read timeout of the connection when nothing comes.
    fn has_ended(&mut self) -> io::Result<bool>;

    /// Says that no more will come.
    fn finish(&mut self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.peek(&mut [0])? == 0)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A stream and what has been read of it too early.
#[derive(Debug)]
pub struct Wire {
    pub stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

impl Wire {
    pub fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Whether bytes are here that nobody has asked for yet.
    pub fn has_buffered(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// What has been read too early.
    pub fn take_buffered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// A head with its empty line; `None` at the end of the stream.
    pub fn head(&mut self) -> io::Result<Option<String>> {
        let mut from = 0;
        loop {
            if let Some(at) = find(&self.buffer[from..], b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..from + at + 4).collect();
                return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
            }
            from = self.buffer.len().saturating_sub(3);
            if self.more()? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(cut("inside a head")) };
            }
        }
    }

    /// So many bytes, appended to `body`; what came before the end stays there.
    pub fn exactly(&mut self, count: usize, body: &mut Vec<u8>) -> io::Result<()> {
        let mut left = count;
        loop {
            let taken = left.min(self.buffer.len());
            body.extend(self.buffer.drain(..taken));
            left -= taken;
            if left == 0 {
                return Ok(());
            }
            if self.more()? == 0 {
                return Err(cut(&format!("{left} bytes before the end of the body")));
            }
        }
    }

    /// A chunked body into `body`; returns its trailers as they came.
    pub fn chunked(&mut self, body: &mut Vec<u8>) -> io::Result<String> {
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16)
                .map_err(|_| io::Error::other(format!("no chunk size: {line:?}")))?;
            if size == 0 {
                break;
            }
            self.exactly(size, body)?;
            self.line()?;
        }
        let mut trailers = String::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(trailers);
            }
            trailers.push_str(&line);
            trailers.push_str("\r\n");
        }
    }

    /// Everything up to the end of the stream.
    pub fn rest(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        body.append(&mut self.buffer);
        self.stream.read_to_end(body).map(drop)
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.more()? == 0 {
                return Err(cut("inside a chunked body"));
            }
        }
    }

    fn more(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

fn cut(place: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the stream ended {place}"))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// The values of the field lines of `head` named `name`, in order.
pub fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
}
