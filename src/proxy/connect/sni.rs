//! The name in a client's TLS handshake (server name indication, RFC 6066 §3), compared with the
//! host of its CONNECT: that host was decided on, and a server of several hosts serves the one that
//! TLS names.

use rustls::server::Acceptor;

use crate::types::origin::Host;

/// A fatal alert `unrecognized_name` (RFC 8446 §6.2) as it goes on the wire.
pub const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x70];

/// A fatal alert `access_denied` (RFC 8446 §6.2) as it goes on the wire.
pub const ACCESS_DENIED: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31];

/// Bytes of a ClientHello, with the rest of its flight. Clients send 200 to 2000; with several key
/// shares and tickets, a few thousand.
const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

/// Why a TLS handshake is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("the client asks for {0} in TLS, which is not the host of its CONNECT")]
    Other(String),
    #[error("the client names no host in TLS, but its CONNECT does")]
    Missing,
    #[error("the ClientHello cannot be read: {0}")]
    Unreadable(String),
}

impl Mismatch {
    /// The name that the client has sent.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Other(name) => Some(name),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}

/// Whether TLS that ends here may name `sni` inside a CONNECT to `host`: without a name, the
/// certificate and the requests inside are for that host.
pub fn check_intercepted(host: &Host, sni: Option<&str>) -> Result<(), Mismatch> {
    match sni {
        None => Ok(()),
        Some(_) => check_tunnelled(host, sni),
    }
}

/// Whether TLS that ends at the origin may name `sni` inside a CONNECT to `host`. Without a name
/// the origin would choose a host; an address has no name in TLS, so its CONNECT must come with
/// none (RFC 6066 §3).
pub fn check_tunnelled(host: &Host, sni: Option<&str>) -> Result<(), Mismatch> {
    match (host, sni) {
        (Host::Name(host), Some(name)) if is_same(host, name) => Ok(()),
        (Host::V4(_) | Host::V6(_), None) => Ok(()),
        (_, Some(name)) => Err(Mismatch::Other(name.to_owned())),
        (Host::Name(_), None) => Err(Mismatch::Missing),
    }
}

/// Whether both are the same host. A dot at the end makes no difference.
fn is_same(host: &str, name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case(name)
}

/// Reads the ClientHello at the beginning of a TLS stream, in whatever pieces and records it comes.
pub struct ClientHello {
    acceptor: Acceptor,
    /// How many bytes of the stream have been read.
    given: usize,
}

/// The name in a whole ClientHello, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named(pub Option<String>);

impl ClientHello {
    /// Before the first byte.
    pub fn new() -> Self {
        Self { acceptor: Acceptor::default(), given: 0 }
    }

    /// Reads the new bytes of `stream`, all that has come so far. `None`: the ClientHello is not
    /// whole.
    pub fn read(&mut self, stream: &[u8]) -> Result<Option<Named>, Mismatch> {
        let unreadable = |why: &dyn ToString| Mismatch::Unreadable(why.to_string());
        while self.given < stream.len() {
            let mut rest = &stream[self.given..];
            self.given += self.acceptor.read_tls(&mut rest).map_err(|error| unreadable(&error))?;
            let accepted = self.acceptor.accept().map_err(|(error, _alert)| unreadable(&error))?;
            if let Some(accepted) = accepted {
                return Ok(Some(Named(accepted.client_hello().server_name().map(str::to_owned))));
            }
        }
        if stream.len() < CLIENT_HELLO_BYTES_MAX {
            Ok(None)
        } else {
            Err(unreadable(&"it is too long"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Host {
        Host::Name("example.com".into())
    }

    #[test]
    fn the_name_in_tls_is_that_of_connect() {
        for same in ["example.com", "Example.COM", "example.com."] {
            assert_eq!(check_tunnelled(&name(), Some(same)), Ok(()), "{same}");
            assert_eq!(check_intercepted(&name(), Some(same)), Ok(()), "{same}");
        }
        for other in ["www.example.com", "example.co", "example.com..", "127.0.0.1", ""] {
            let mismatch = Err(Mismatch::Other(other.into()));
            assert_eq!(check_tunnelled(&name(), Some(other)), mismatch, "{other}");
            assert_eq!(check_intercepted(&name(), Some(other)), mismatch, "{other}");
        }
    }

    #[test]
    fn a_name_that_is_missing_is_one_only_where_the_origin_would_choose() {
        let addresses = [Host::V4([127, 0, 0, 1].into()), Host::V6(std::net::Ipv6Addr::LOCALHOST)];
        assert_eq!(check_tunnelled(&name(), None), Err(Mismatch::Missing));
        assert_eq!(check_intercepted(&name(), None), Ok(()));
        for address in addresses {
            assert_eq!(check_tunnelled(&address, None), Ok(()));
            assert!(check_tunnelled(&address, Some("example.com")).is_err());
            assert!(check_intercepted(&address, Some("127.0.0.1")).is_err());
        }
    }

    #[test]
    fn a_client_hello_without_end_is_given_up() {
        // A handshake message of 64 KiB, in records of 16 KiB.
        let mut stream = vec![0x16, 3, 1, 0x40, 0];
        stream.extend([0x01, 0x00, 0xff, 0xff]);
        let mut hello = ClientHello::new();
        assert_eq!(hello.read(&stream), Ok(None));
        stream.resize(CLIENT_HELLO_BYTES_MAX, 0);
        assert!(matches!(hello.read(&stream), Err(Mismatch::Unreadable(_))));
    }
}
