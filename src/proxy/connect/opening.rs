//! The beginning of a tunnel: the client's first bytes go on to the origin only once it is clear that they
//! are not TLS for another host than that of the CONNECT.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::proxy::connect::sni::{ClientHello, Mismatch, Named, check_tunnelled};
use crate::proxy::connect::tunnel::splice::read_ready;
use crate::types::origin::Host;

/// Bytes read at a time.
const READ_BYTES: usize = 4096;

/// What a tunnel is held to.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The host of the CONNECT.
    pub host: &'a Host,
    /// From the first byte of a ClientHello to its last (`limits.handshake_timeout`).
    pub handshake_timeout: Duration,
}

impl Opening<'_> {
    /// Reads the client's first bytes, of which `first` have come already, and returns them when they may
    /// be sent. A [`Mismatch`] is an error. What is not TLS may be sent: nothing in it is compared. Until the
    /// client says something, there is nothing to be compared either: in some protocols the server begins.
    pub async fn read(&self, client: &TcpStream, mut first: Vec<u8>) -> io::Result<Vec<u8>> {
        if first.is_empty() && read(client, &mut first).await? == 0 {
            return Ok(first);
        }
        let compared = timeout(self.handshake_timeout, self.compare(client, &mut first)).await;
        compared.map_err(|_| {
            io::Error::new(ErrorKind::TimedOut, "a ClientHello did not come to its end")
        })??;
        Ok(first)
    }

    async fn compare(&self, client: &TcpStream, first: &mut Vec<u8>) -> io::Result<()> {
        let mut hello = ClientHello::new();
        loop {
            let named = match kind(first) {
                Kind::Tls => hello.read(first).map_err(io::Error::other)?,
                // It has no extensions, and so no name.
                Kind::Ssl2 => Some(Named(None)),
                Kind::Other => return Ok(()),
                Kind::Unclear => None,
            };
            if let Some(Named(name)) = named {
                return check_tunnelled(self.host, name.as_deref()).map_err(io::Error::other);
            }
            if read(client, first).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Why the tunnel came to nothing, if it was for the name in TLS.
pub fn mismatch(error: io::Error) -> Result<Mismatch, io::Error> {
    error.downcast()
}

/// What a stream begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tls,
    /// A ClientHello in the form of SSL 2.0 (RFC 5246 §E.2), which some servers of TLS still take.
    Ssl2,
    Other,
    /// Too little has come.
    Unclear,
}

const fn kind(first: &[u8]) -> Kind {
    match first {
        // A record of a handshake (RFC 8446 §5.1).
        [0x16, ..] => Kind::Tls,
        [0x80..=0xff, _, 0x01, ..] => Kind::Ssl2,
        [] | [0x80..=0xff] | [0x80..=0xff, _] => Kind::Unclear,
        _ => Kind::Other,
    }
}

/// Appends what comes next, and says how much that was; 0 is the end.
async fn read(client: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        client.readable().await?;
        let mut room = [0; READ_BYTES];
        let count = read_ready(client, |from| Ok(rustix::io::read(from, &mut room)?))?;
        if let Some(count) = count {
            bytes.extend_from_slice(&room[..count]);
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_is_compared() {
        for (first, expected) in [
            (&b"\x16"[..], Kind::Tls),
            (b"\x16\x03\x01\x02\x00", Kind::Tls),
            (b"\x80\x2e\x01\x03\x01", Kind::Ssl2),
            (b"\x80\x2e", Kind::Unclear),
            (b"\x80", Kind::Unclear),
            (b"", Kind::Unclear),
            (b"\x80\x2e\x02", Kind::Other),
            (b"\x17\x03\x03", Kind::Other),
            (b"GET / HTTP/1.1", Kind::Other),
            (b"SSH-2.0-x", Kind::Other),
        ] {
            assert_eq!(kind(first), expected, "{}", first.escape_ascii());
        }
    }
}
