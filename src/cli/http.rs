//! The least HTTP that can ask something of a process on this machine: to find out who answers, a
//! client with opinions of its own would be in the way.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// For connecting, and for each read: everything that is asked is on this machine.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read; what is looked for stands in its head.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// A response: its head, and its body as far as it was read.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and fields.
    pub head: String,
    /// As far as it came.
    pub body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head: head.to_owned(), body: body.to_owned() })
    }

    /// Whether a courtesy made it.
    pub fn is_ours(&self) -> bool {
        let mut lines = self.head.lines().map(str::to_ascii_lowercase);
        lines.any(|line| line.starts_with("proxy-status: courtesy"))
    }

    /// The first line of its head.
    pub fn status_line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }
}

/// Asks the server at `address` for a URL, with these fields, each a line. `None`: what answers
/// does not speak HTTP.
pub fn get(address: SocketAddr, url: &str, fields: &str) -> io::Result<Option<Answer>> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let host = url.split('/').nth(2).unwrap_or_default();
    // In one piece: who does not like its beginning may not wait for its end.
    let request =
        format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    // What came before an error, or the timeout, may be enough.
    let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
    Ok(Answer::parse(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_ours_is_known_by_its_proxy_status() {
        let ours =
            Answer::parse(b"HTTP/1.1 403 Forbidden\r\nProxy-Status: courtesy; error=x\r\n\r\n")
                .unwrap();
        assert!(ours.is_ours());
        assert_eq!(ours.status, 403);
        let other = Answer::parse(
            b"HTTP/1.0 400 Bad Request\r\nServer: squid\r\n\r\nproxy-status: courtesy",
        );
        assert!(!other.unwrap().is_ours());
        assert!(Answer::parse(b"SSH-2.0-OpenSSH_9.2\r\n").is_none());
    }
}
