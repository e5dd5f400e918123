//! SOCKS5 on the proxy's port (RFC 1928, RFC 1929): its CONNECT is handled as the CONNECT of HTTP,
//! and the stream after the reply as what is inside one. BIND and UDP ASSOCIATE are refused.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use super::connection::close_in_stages;
use super::connection::connection_state::ConnectionContext;
use super::handle::{CurrentProxy, Proxy};
use super::rejection::{Refusal, Rejection};
use super::upgrade::FirstBytes;
use crate::clients::RejectReason;
use crate::runtime::box_future;

/// Serves SOCKS5 on `stream`, of which nothing has been read. With `is_rejected`, no method of
/// authentication is accepted.
pub async fn serve(
    mut stream: TcpStream,
    context: Arc<ConnectionContext>,
    current: CurrentProxy,
    is_rejected: bool,
) {
    let opened = box_future(|| open(&mut stream, &context, &current, is_rejected)).await;
    match opened {
        Ok(Some(socket)) => {
            let after = context.state.take_after_upgrade();
            drop((context, current));
            if let Some(after) = after
                && socket.send((Vec::new(), stream)).is_ok()
            {
                after.await;
            }
        }
        // The last reply arrives before the end.
        Ok(None) => close_in_stages(stream).await,
        Err(error) => {
            debug!(client = %context.client.address, "a SOCKS connection ended: {error}");
        }
    }
}

/// Negotiates, and handles the request. `Some`: the client has its reply, and what follows runs
/// once it is sent the stream.
async fn open(
    stream: &mut TcpStream,
    context: &ConnectionContext,
    current: &CurrentProxy,
    is_rejected: bool,
) -> io::Result<Option<oneshot::Sender<FirstBytes>>> {
    let proxy = current.load_full();
    let limit = proxy.handshake_timeout;
    let offered = within(limit, read_methods(stream)).await?;
    let chosen = Method::choose(&offered, proxy.admission.has_users());
    let chosen = chosen.filter(|_| !is_rejected);
    stream.write_all(&chosen_method(chosen)).await?;
    let mut headers = HeaderMap::new();
    match chosen {
        None => return Ok(None),
        Some(Method::None) => {}
        Some(Method::Password) => {
            let credentials = within(limit, read_credentials(stream)).await?;
            let verified = verify(&proxy, context, &credentials, &mut headers).await;
            stream.write_all(&auth_status(verified.is_ok())).await?;
            if let Err(reason) = verified {
                debug!(client = %context.client.address, "{reason}");
                return Ok(None);
            }
        }
    }
    let (reply, socket) = match within(limit, read_request(stream)).await? {
        Command::Connect(authority) => {
            let (sender, receiver) = oneshot::channel();
            match proxy.connect_synthetic(&authority, headers, receiver, context, current).await {
                Ok(()) => (Reply::Succeeded, Some(sender)),
                Err(refusal) => (Reply::to(&refusal), None),
            }
        }
        Command::Other => (Reply::CommandNotSupported, None),
        Command::OtherAddress => (Reply::AddressNotSupported, None),
    };
    stream.write_all(&reply.bytes()).await?;
    Ok(socket)
}

/// Verifies a name and a password as those of `Proxy-Authorization`, and writes that header.
async fn verify(
    proxy: &Proxy,
    context: &ConnectionContext,
    Credentials { name, password }: &Credentials,
    headers: &mut HeaderMap,
) -> Result<(), RejectReason> {
    // In Basic the name would end at the colon (RFC 7617 §2): another one.
    if name.contains(&b':') {
        return Err(RejectReason::WrongCredentials);
    }
    let encoded = STANDARD.encode([&name[..], b":", password].concat());
    let mut value = HeaderValue::try_from(format!("Basic {encoded}"))
        .map_err(|_| RejectReason::WrongCredentials)?;
    value.set_sensitive(true);
    headers.insert(PROXY_AUTHORIZATION, value);
    proxy.admission.authenticate(context.client.address, headers).await.map(drop)
}

/// A message of the client, which has `limit` for it.
async fn within<T>(limit: Duration, message: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(ErrorKind::TimedOut, "the SOCKS message is incomplete");
    timeout(limit, message).await.map_err(|_| late())?
}

// The messages of SOCKS5 (RFC 1928 §3, §4; RFC 1929 §2). Each has its length in it, so that no byte
// after it is read.

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

/// The code of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    /// By policy: robots.txt, the port, the address, the client.
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

impl Reply {
    /// The reply to a request that is refused.
    pub fn to(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Denial(_) => Self::NotAllowed,
            Refusal::Rejection(rejection) => Self::to_rejected(rejection),
        }
    }

    /// By the proxy error type (RFC 9209 §2.3).
    fn to_rejected(rejection: &Rejection) -> Self {
        let error = rejection.proxy_error.split(';').next().unwrap_or_default();
        match error {
            _ if rejection.status == StatusCode::FORBIDDEN => Self::NotAllowed,
            "http_request_denied" | "destination_ip_prohibited" => Self::NotAllowed,
            "destination_ip_unroutable" => Self::NetworkUnreachable,
            "dns_error" | "dns_timeout" | "connection_timeout" => Self::HostUnreachable,
            "connection_refused" => Self::ConnectionRefused,
            _ => Self::GeneralFailure,
        }
    }

    /// As it goes on the wire. The address from which the origin is reached has no meaning for the
    /// client, and stays empty.
    pub const fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::RejectReason;
    use crate::egress::{Error, Failure};

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

    #[test]
    fn the_code_says_what_failed() {
        for (failure, expected) in [
            (Failure::NameNotFound, Reply::HostUnreachable),
            (Failure::DnsTimeout, Reply::HostUnreachable),
            (Failure::ConnectionTimeout, Reply::HostUnreachable),
            (Failure::ConnectionRefused, Reply::ConnectionRefused),
            (Failure::NoRoute, Reply::NetworkUnreachable),
            (Failure::Loop, Reply::GeneralFailure),
            (Failure::Exhausted, Reply::GeneralFailure),
        ] {
            let rejection = Rejection::origin(&Error::new(failure, "a test"));
            assert_eq!(Reply::to(&rejection.into()), expected, "{failure:?}");
        }
        for (reason, expected) in [
            (RejectReason::NoLongerUser, Reply::NotAllowed),
            (RejectReason::WrongCredentials, Reply::NotAllowed),
            (RejectReason::TooManyRequests(1), Reply::GeneralFailure),
        ] {
            assert_eq!(Reply::to(&Rejection::from(reason).into()), expected, "{reason:?}");
        }
    }
}
