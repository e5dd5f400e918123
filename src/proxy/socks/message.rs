//! The messages of SOCKS5 (RFC 1928 §3, §4; RFC 1929 §2). Each has its length in it, so that no byte
//! after it is read.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The version of the protocol, and the first byte of its first message.
pub const VERSION: u8 = 5;

/// The version of the negotiation of name and password (RFC 1929 §2).
const PASSWORD_VERSION: u8 = 1;

/// No method that the client offers is accepted.
const NO_METHOD: u8 = 0xff;

/// The command CONNECT (RFC 1928 §4).
const CONNECT: u8 = 1;

/// A method of authentication (RFC 1928 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No authentication.
    None = 0,
    /// Name and password (RFC 1929).
    Password = 2,
}

/// A name and a password. Never printed.
pub struct Credentials {
    pub name: Vec<u8>,
    pub password: Vec<u8>,
}

/// What the client asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// CONNECT, to a host and a port as in a URL.
    Connect(String),
    /// BIND, UDP ASSOCIATE or an unknown one.
    Other,
    /// An address of an unknown type.
    OtherAddress,
}

impl Method {
    /// The method for a client that offers these. With `has_users` only one that names a user;
    /// without, a name and a password are accepted and mean nothing.
    pub fn choose(offered: &[u8], has_users: bool) -> Option<Self> {
        let wanted: &[Self] =
            if has_users { &[Self::Password] } else { &[Self::None, Self::Password] };
        wanted.iter().copied().find(|method| offered.contains(&(*method as u8)))
    }
}

/// The answer to the offered methods.
pub fn chosen_method(method: Option<Method>) -> [u8; 2] {
    [VERSION, method.map_or(NO_METHOD, |method| method as u8)]
}

/// The answer to a name and a password.
pub const fn auth_status(is_valid: bool) -> [u8; 2] {
    [PASSWORD_VERSION, if is_valid { 0 } else { 1 }]
}

/// Reads the methods that the client offers.
///
/// # Errors
///
/// Another version, and those of the stream.
pub async fn read_methods(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    version(from, VERSION).await?;
    counted(from).await
}

/// Reads a name and a password (RFC 1929 §2).
///
/// # Errors
///
/// Another version, and those of the stream.
pub async fn read_credentials(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Credentials> {
    version(from, PASSWORD_VERSION).await?;
    Ok(Credentials { name: counted(from).await?, password: counted(from).await? })
}

/// Reads the request (RFC 1928 §4, §5).
///
/// # Errors
///
/// Another version, and those of the stream.
pub async fn read_request(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Command> {
    version(from, VERSION).await?;
    let [command, _reserved, address_type] = read(from).await?;
    let host = match address_type {
        1 => Ipv4Addr::from(read::<4>(from).await?).to_string(),
        3 => String::from_utf8_lossy(&counted(from).await?).into_owned(),
        4 => format!("[{}]", Ipv6Addr::from(read::<16>(from).await?)),
        _ => return Ok(Command::OtherAddress),
    };
    let port = u16::from_be_bytes(read(from).await?);
    let is_connect = command == CONNECT;
    Ok(if is_connect { Command::Connect(format!("{host}:{port}")) } else { Command::Other })
}

async fn version(from: &mut (impl AsyncRead + Unpin), expected: u8) -> io::Result<()> {
    let [version] = read(from).await?;
    let other = || io::Error::new(ErrorKind::InvalidData, format!("version {version} of SOCKS"));
    (version == expected).then_some(()).ok_or_else(other)
}

/// Bytes behind their number.
async fn counted(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let [count] = read(from).await?;
    let mut bytes = vec![0; usize::from(count)];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn read<const N: usize>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_names_a_user_where_there_are_users() {
        for (offered, has_users, expected) in [
            (&[0][..], false, Some(Method::None)),
            (&[2, 0], false, Some(Method::None)),
            (&[2], false, Some(Method::Password)),
            (&[0], true, None),
            (&[0, 2], true, Some(Method::Password)),
            (&[1, 3], false, None),
            (&[], false, None),
        ] {
            assert_eq!(Method::choose(offered, has_users), expected, "{offered:?}");
        }
    }

    #[tokio::test]
    async fn a_request_is_read_to_its_last_byte_and_no_further() {
        let name = [&b"\x05\x01\0\x03\x0bexample.com"[..], b"\x01\xbb"].concat();
        let v6 = [&b"\x05\x01\0\x04"[..], &Ipv6Addr::LOCALHOST.to_bits().to_be_bytes(), b"\0\x50"]
            .concat();
        for (sent, expected) in [
            (&b"\x05\x01\0\x01\x7f\0\0\x01\x01\xbb"[..], Command::Connect("127.0.0.1:443".into())),
            (&name, Command::Connect("example.com:443".into())),
            (&v6, Command::Connect("[::1]:80".into())),
            (b"\x05\x02\0\x01\x7f\0\0\x01\x01\xbb", Command::Other),
            (b"\x05\x03\0\x01\x7f\0\0\x01\x01\xbb", Command::Other),
        ] {
            let mut stream = &[sent, b"rest"].concat()[..];
            assert_eq!(read_request(&mut stream).await.unwrap(), expected);
            assert_eq!(stream, b"rest");
            for length in 0..sent.len() {
                let error = read_request(&mut &sent[..length]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{length}");
            }
        }
        let other = read_request(&mut &b"\x05\x01\0\x02"[..]).await.unwrap();
        assert_eq!(other, Command::OtherAddress);
        assert!(read_request(&mut &b"\x04\x01\0\x01"[..]).await.is_err());
    }

    #[tokio::test]
    async fn name_and_password_have_any_bytes() {
        let mut sent = &b"\x01\x01a\x02\xff:"[..];
        let Credentials { name, password } = read_credentials(&mut sent).await.unwrap();
        assert_eq!((&name[..], &password[..]), (&b"a"[..], &b"\xff:"[..]));
        assert!(read_credentials(&mut &b"\x05\x01a\x01b"[..]).await.is_err());
        assert_eq!(read_methods(&mut &b"\x05\x02\0\x02"[..]).await.unwrap(), [0, 2]);
    }
}
