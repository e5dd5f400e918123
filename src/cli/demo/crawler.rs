//! A minimal crawler: one GET through a proxy, read to its end. Like most crawlers it ignores
//! robots.txt.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No response of the demo takes longer, even on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A response, as a crawler reads it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    head: String,
    body: Vec<u8>,
}

/// Asks `proxy` for `url` as `user_agent`.
pub fn get(proxy: SocketAddr, url: &str, user_agent: &str) -> io::Result<Answer> {
    get_with(proxy, url, user_agent, "")
}

/// The same with other fields, each with its line end.
pub fn get_with(
    proxy: SocketAddr,
    url: &str,
    user_agent: &str,
    fields: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let authority = url.split('/').nth(2).unwrap_or_default();
    write!(
        stream,
        "GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {user_agent}\r\n{fields}Connection: close\r\n\r\n"
    )?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Answer::read(bytes).ok_or_else(|| io::Error::other("the proxy's answer is no HTTP"))
}

impl Answer {
    fn read(mut bytes: Vec<u8>) -> Option<Self> {
        let end = memchr::memmem::find(&bytes, b"\r\n\r\n")?;
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body })
    }

    /// The value of the first header of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// The explanation of a refusal (RFC 9457), empty where there is none.
    pub fn problem(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}
