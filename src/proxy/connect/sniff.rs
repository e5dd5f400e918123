//! Recognizes a protocol by its first bytes.

/// What a client speaks inside an intercepted CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelProtocol {
    Tls,
    Http,
    Other,
}

impl TunnelProtocol {
    /// By the first byte: a TLS record of a handshake begins with 0x16 (RFC 8446 §5.1), an HTTP
    /// method with a letter. Other protocols begin with a letter too (`EHLO`, `SSH-2.0`), but their
    /// first line does not end as a request line does (RFC 9112 §3).
    pub fn of(first: &[u8]) -> Self {
        match first {
            [0x16, ..] => Self::Tls,
            [b'A'..=b'Z' | b'a'..=b'z', ..] => match memchr::memchr(b'\n', first) {
                Some(end) if memchr::memmem::find(&first[..end], b" HTTP/1.").is_none() => {
                    Self::Other
                }
                _ => Self::Http,
            },
            _ => Self::Other,
        }
    }
}

/// The kind of first bytes in a tunnel, as a TLS server may read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelStart {
    Tls,
    /// A ClientHello in the format of SSL 2.0 (RFC 5246 §E.2), which some TLS servers still accept.
    Ssl2,
    Other,
    /// Too few bytes to decide.
    Incomplete,
}

impl TunnelStart {
    /// By the first one to three bytes.
    pub const fn of(first: &[u8]) -> Self {
        match first {
            // A record of a handshake (RFC 8446 §5.1).
            [0x16, ..] => Self::Tls,
            [0x80..=0xff, _, 0x01, ..] => Self::Ssl2,
            [] | [0x80..=0xff] | [0x80..=0xff, _] => Self::Incomplete,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_first_line() {
        assert_eq!(TunnelProtocol::of(b"\x16\x03"), TunnelProtocol::Tls);
        for http in ["G", "GET /", "GET / HTTP/1.1\r\nHost: a\r\n"] {
            assert_eq!(TunnelProtocol::of(http.as_bytes()), TunnelProtocol::Http, "{http}");
        }
        for other in [
            "\0",
            "\x15",
            " ",
            "\r\n",
            "\x17",
            "EHLO x\r\n",
            "SSH-2.0-x\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            assert_eq!(TunnelProtocol::of(other.as_bytes()), TunnelProtocol::Other, "{other:?}");
        }
    }

    #[test]
    fn a_tunnel_is_known_by_its_first_three_bytes() {
        for (first, expected) in [
            (&b"\x16"[..], TunnelStart::Tls),
            (b"\x16\x03\x01\x02\x00", TunnelStart::Tls),
            (b"\x80\x2e\x01\x03\x01", TunnelStart::Ssl2),
            (b"\x80\x2e", TunnelStart::Incomplete),
            (b"\x80", TunnelStart::Incomplete),
            (b"", TunnelStart::Incomplete),
            (b"\x80\x2e\x02", TunnelStart::Other),
            (b"\x17\x03\x03", TunnelStart::Other),
            (b"GET / HTTP/1.1", TunnelStart::Other),
            (b"SSH-2.0-x", TunnelStart::Other),
        ] {
            assert_eq!(TunnelStart::of(first), expected, "{}", first.escape_ascii());
        }
    }
}
