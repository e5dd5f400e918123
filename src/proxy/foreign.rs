//! Protocols that clients speak to the proxy's port although it speaks HTTP: a wrong scheme in the address that they were
//! given for it. Few of them show the answer (400, as to anything else that is no request), so the log says what to write.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use tracing::warn;

use crate::clients::Client;
use crate::types::client_key::ClientKey;

/// Clients of which it is remembered that the log has named them for a protocol that is not spoken here.
const FOREIGN_NAMED_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// What is spoken instead of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    Tls,
    Socks4,
    Socks5,
}

/// The latest clients that have been named for it.
#[derive(Debug)]
pub struct Named(Mutex<LruCache<ClientKey, ()>>);

impl Foreign {
    /// By the first bytes: a TLS record of a handshake (RFC 8446 §5.1), or a version of SOCKS (RFC 1928 §3).
    pub fn by(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x16] | [0x16, 0x03, ..] => Some(Self::Tls),
            [4, ..] => Some(Self::Socks4),
            [5, ..] => Some(Self::Socks5),
            _ => None,
        }
    }

    /// What to write, and what was written.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Tls => {
                "this is a TLS handshake, but the proxy is spoken to in plain HTTP: write http:// instead of \
                 https:// for the proxy's own address (as in HTTPS_PROXY=http://127.0.0.1:3128)"
            }
            Self::Socks4 | Self::Socks5 => {
                "this is SOCKS, but the proxy is spoken to in HTTP: write http:// instead of socks4:// or socks5:// \
                 for the proxy's own address (as in ALL_PROXY=http://127.0.0.1:3128)"
            }
        }
    }
}

impl Default for Named {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(FOREIGN_NAMED_MAX)))
    }
}

impl Named {
    /// Says in the log what `client` has spoken, once.
    pub fn say(&self, client: &Client, foreign: Foreign) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).put(client.key(), ());
        if before.is_none() {
            warn!(client = %client.address, "a client does not speak HTTP: {}", foreign.detail());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_is_spoken() {
        for (bytes, expected) in [
            (&b"\x16\x03\x01"[..], Some(Foreign::Tls)),
            (b"\x16", Some(Foreign::Tls)),
            (b"\x16G", None),
            (b"\x04\x01\x00\x50", Some(Foreign::Socks4)),
            (b"\x05\x01\x00", Some(Foreign::Socks5)),
            (b"GET / HTTP/1.1", None),
            (b"", None),
        ] {
            assert_eq!(Foreign::by(bytes), expected, "{bytes:?}");
        }
    }
}
