//! Protocols that are not served there, and that clients speak to the proxy's port, because the address that they
//! were given for the proxy has the wrong scheme.

/// A protocol spoken in place of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignProtocol {
    Tls,
    Socks4,
}

impl ForeignProtocol {
    /// Reads the first bytes: a TLS handshake record (RFC 8446 §5.1), or version 4 of
    /// SOCKS.
    pub fn by(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x16] | [0x16, 0x03, ..] => Some(Self::Tls),
            [4, ..] => Some(Self::Socks4),
            _ => None,
        }
    }

    /// The address that was configured, and the one to configure instead.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Tls => {
                "this is a TLS handshake, but the proxy speaks plain HTTP: write http:// instead of \
                 https:// for the proxy's own address (as in HTTPS_PROXY=http://127.0.0.1:3128), or \
                 set listen.tls"
            }
            Self::Socks4 => {
                "this is SOCKS4, but the proxy speaks HTTP and SOCKS5: write http:// or socks5h:// \
                 instead of socks4:// for the proxy's own address (as in \
                 ALL_PROXY=http://127.0.0.1:3128)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        for (bytes, expected) in [
            (&b"\x16\x03\x01"[..], Some(ForeignProtocol::Tls)),
            (b"\x16", Some(ForeignProtocol::Tls)),
            (b"\x16G", None),
            (b"\x04\x01\x00\x50", Some(ForeignProtocol::Socks4)),
            (b"\x05\x01\x00", None),
            (b"GET / HTTP/1.1", None),
            (b"", None),
        ] {
            assert_eq!(ForeignProtocol::by(bytes), expected, "{bytes:?}");
        }
    }
}
