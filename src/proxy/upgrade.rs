//! A connection that switches to another protocol after a permitted request (RFC 9110 §7.8), as to
//! WebSocket.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Response, Version, request};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::connect::tunnel::{self, IdleTimer};
use super::connection::body::Body;
use super::connection::client_io::ClientIo;
use super::connection::client_socket::{ClientSocket, ClientStream, SecuredClient};
use super::connection::connection_state::ConnectionState;
use super::decision::revocation::Revocation;
use super::forward::permission::breach;
use super::framing::head::{TOKEN, is_of_class};
use super::hop_by_hop::{self, HeaderSet, Via};
use crate::clients::MemoryPermit;
use crate::egress::{self, ResponseBody};

/// The upgrade that a request asks for, if it asks for one that is permitted.
pub struct RequestedUpgrade {
    /// The protocols, as the value of `Upgrade`.
    pub protocol: Option<HeaderValue>,
    /// The client's connection, once it has been sent the 101.
    on_upgrade: Option<OnUpgrade>,
}

impl RequestedUpgrade {
    /// Takes the upgrade to one of the `permitted` protocols out of `head`.
    pub fn take(
        head: &mut request::Parts,
        header_set: HeaderSet,
        permitted: &[UpgradeProtocol],
    ) -> Self {
        let asks = header_set.has(HeaderSet::UPGRADE) && head.version == Version::HTTP_11;
        let wanted = || wanted_protocol(&head.headers, permitted);
        let protocol = if asks { wanted() } else { None };
        let on_upgrade = protocol.as_ref().and_then(|_| head.extensions.remove::<OnUpgrade>());
        Self { protocol, on_upgrade }
    }

    /// The client's connection, for the protocol that the origin switches to. A 101 switches only
    /// to what was requested (RFC 9110 §7.8). `is_complete`: the origin has the whole request.
    pub fn accept<B>(
        self,
        response: &Response<B>,
        is_complete: bool,
    ) -> Result<OnUpgrade, egress::Error> {
        let Self { protocol, on_upgrade } = self;
        let is_requested =
            protocol.is_some_and(|requested| switches_to_one_of(&requested, response.headers()));
        let Some(on_upgrade) = on_upgrade.filter(|_| is_requested) else {
            return Err(breach("the origin switched to a protocol that was not requested"));
        };
        if !is_complete {
            // The rest of the content would be taken for the new protocol.
            return Err(breach(
                "the origin switched to another protocol before it had the whole request",
            ));
        }
        Ok(on_upgrade)
    }
}

/// Forwards the 101, and then bytes both ways.
pub fn switch(
    mut response: Response<Box<ResponseBody>>,
    client_side: OnUpgrade,
    idle_timeout: Duration,
    via: &Via,
    (state, shutdown): (&Arc<ConnectionState>, &CancellationToken),
    (revocation, permit): (Revocation, MemoryPermit),
) -> Response<Body> {
    let origin_side = hyper::upgrade::on(&mut response);
    let (mut parts, _) = response.into_parts();
    let protocol = parts.headers.get(UPGRADE).cloned();
    hop_by_hop::clean_response(&mut parts.headers);
    via.append(&mut parts.headers, parts.version);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        parts.headers.insert(UPGRADE, protocol);
    }
    let shutdown = shutdown.clone();
    state.upgrade(async move {
        let _permit = permit;
        if let (Ok(client), Ok(origin)) = tokio::join!(client_side, origin_side) {
            let idle = IdleTimer::new(idle_timeout, shutdown);
            let copying = tunnel::copy(TokioIo::new(client), TokioIo::new(origin), &idle);
            if let Some(Err(error)) = revocation.while_permitted(copying).await {
                debug!("an upgraded connection ended: {error}");
            }
        }
    });
    Response::from_parts(parts, Body::empty())
}

// Protocols that a request may upgrade its connection to (RFC 9110 §7.8). No decisions are made on
// what follows a 101, so only listed protocols are requested: HTTP, or a protocol that carries it,
// would hide requests.

/// Protocols that are HTTP, or TLS that may carry it, by prefixes of their names (RFC 9110 §16.7):
/// `HTTP/2.0`, `h2c`, `h2c-14`, `TLS/1.0`.
const CARRIERS: [&str; 6] = ["http", "h2", "h3", "tls", "ssl", "spdy"];

/// A protocol as `Upgrade` names it: a name, or a name and a version. Names are compared in any
/// case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeProtocol(Box<str>);

impl UpgradeProtocol {
    /// WebSocket (RFC 6455 §11.2).
    pub fn websocket() -> Self {
        Self("websocket".into())
    }

    fn is(&self, member: &[u8]) -> bool {
        self.0.as_bytes().eq_ignore_ascii_case(member)
    }
}

impl FromStr for UpgradeProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_token =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| is_of_class(byte, TOKEN));
        let mut parts = text.split('/');
        if !parts.by_ref().take(2).all(is_token) || parts.next().is_some() {
            return Err(format!("\"{text}\" is no protocol name of Upgrade; write \"websocket\""));
        }
        let name = text.to_ascii_lowercase();
        match CARRIERS.iter().find(|carrier| name.starts_with(*carrier)) {
            Some(_) => {
                Err(format!("\"{text}\" carries HTTP requests, which would not be decided on"))
            }
            None => Ok(Self(name.into())),
        }
    }
}

impl fmt::Display for UpgradeProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The protocols of `allowed` that a request names in `Upgrade`, if `Connection` has the option,
/// too (RFC 9110 §7.8). Other protocols are not forwarded.
pub fn wanted_protocol(headers: &HeaderMap, allowed: &[UpgradeProtocol]) -> Option<HeaderValue> {
    if !members(headers, CONNECTION).any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let is_allowed = |member: &&[u8]| allowed.iter().any(|protocol| protocol.is(member));
    let wanted: Vec<&[u8]> = members(headers, UPGRADE).filter(is_allowed).collect();
    HeaderValue::from_bytes(&wanted.join(&b", "[..])).ok().filter(|wanted| !wanted.is_empty())
}

/// Whether a 101 with these `headers` switches to one or more of the protocols in `asked`, and to
/// no other.
pub fn switches_to_one_of(asked: &HeaderValue, headers: &HeaderMap) -> bool {
    let is_asked_for =
        |protocol: &[u8]| list(asked.as_bytes()).any(|asked| asked.eq_ignore_ascii_case(protocol));
    let mut switched = members(headers, UPGRADE).peekable();
    switched.peek().is_some() && switched.all(is_asked_for)
}

/// The members of a list header, of all its lines (RFC 9110 §5.6.1).
fn members(headers: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().flat_map(|value| list(value.as_bytes()))
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// The bytes that a client has sent already, and its socket.
pub type FirstBytes = (Vec<u8>, TcpStream);

/// The socket of a client that has asked for a CONNECT: it is there once the client has the
/// response.
#[derive(Debug)]
pub enum PendingSocket {
    /// A connection of HTTP/1, from hyper.
    Upgrade(OnUpgrade),
    /// A stream of HTTP/2, from hyper.
    Stream(OnUpgrade),
    /// Sent by the code that serves SOCKS or a transparent listener, after its reply.
    Channel(oneshot::Receiver<FirstBytes>),
}

impl PendingSocket {
    /// For a CONNECT of this version.
    pub fn of(version: Version, upgrade: OnUpgrade) -> Self {
        if version == Version::HTTP_2 { Self::Stream(upgrade) } else { Self::Upgrade(upgrade) }
    }

    /// Whether it is a stream of a connection that goes on.
    pub const fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// The bytes that the client sent right after its CONNECT, and its socket. `None`: the
    /// connection has ended.
    pub async fn socket(self) -> Option<(Vec<u8>, ClientSocket)> {
        match self {
            Self::Upgrade(upgrade) => into_socket(upgrade.await.ok()?),
            Self::Stream(upgrade) => {
                let stream = TokioIo::new(upgrade.await.ok()?);
                Some((Vec::new(), ClientSocket::Http2(stream)))
            }
            Self::Channel(socket) => {
                let (first, stream) = socket.await.ok()?;
                Some((first, ClientSocket::Tcp(stream)))
            }
        }
    }
}

fn into_socket(upgraded: Upgraded) -> Option<(Vec<u8>, ClientSocket)> {
    let upgraded = match take::<TcpStream>(upgraded) {
        Ok((first, stream)) => return Some((first, ClientSocket::Tcp(stream))),
        Err(upgraded) => upgraded,
    };
    let (first, stream) = take::<SecuredClient>(upgraded).ok()?;
    Some((first, ClientSocket::Tls(stream)))
}

/// The stream of hyper that has served an `S`, behind the bytes that were read of it.
fn take<S: ClientStream + Send + 'static>(upgraded: Upgraded) -> Result<(Vec<u8>, S), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Box<ClientIo<S>>>>()?;
    let (stream, buffer) = parts.io.into_inner().into_parts();
    Ok(([&parts.read_buf[..], &buffer[..]].concat(), stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: (&str, &str) = ("connection", "keep-alive, Upgrade");

    fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name = http::HeaderName::try_from(*name).unwrap();
            map.append(name, HeaderValue::try_from(*value).unwrap());
        }
        map
    }

    #[test]
    fn c4_only_listed_protocols_are_requested() {
        let allowed = [UpgradeProtocol::websocket(), "foo/1".parse().unwrap()];
        for (upgrade, expected) in [
            ("websocket", Some("websocket")),
            ("WebSocket", Some("WebSocket")),
            ("Foo/1", Some("Foo/1")),
            ("h2c, websocket", Some("websocket")),
            (" websocket\t,,foo/1,", Some("websocket, foo/1")),
            ("foo", None),
            ("foo/1.0", None),
            ("websocket/13", None),
            ("websocket foo", None),
            ("\"websocket\"", None),
            ("\"h2c\"", None),
            ("TLS/1.0", None),
            ("h2c-14", None),
            ("HTTP/2.0", None),
            ("", None),
        ] {
            let wanted = wanted_protocol(&fields(&[BOTH, ("upgrade", upgrade)]), &allowed);
            assert_eq!(wanted, expected.map(HeaderValue::from_static), "{upgrade}");
        }
        let lines = fields(&[BOTH, ("upgrade", "TLS/1.0"), ("upgrade", "websocket")]);
        assert_eq!(wanted_protocol(&lines, &allowed).unwrap(), "websocket");
        assert_eq!(wanted_protocol(&lines, &[]), None);
        assert_eq!(
            wanted_protocol(&fields(&[("upgrade", "websocket")]), &allowed),
            None,
            "it is not asked"
        );
    }

    #[test]
    fn d5_a_switch_is_to_a_requested_protocol() {
        let asked = HeaderValue::from_static("websocket, foo/1");
        for (switched, expected) in [
            (&["WebSocket"][..], true),
            (&["foo/1, websocket"], true),
            (&["foo/1", "websocket"], true),
            (&["foo/2"], false),
            (&["websocket", "h2c"], false),
            (&["websocket, TLS/1.2"], false),
            (&[","], false),
            (&[], false),
        ] {
            let switched: Vec<_> = switched.iter().map(|value| ("upgrade", *value)).collect();
            assert_eq!(switches_to_one_of(&asked, &fields(&switched)), expected, "{switched:?}");
        }
    }

    #[test]
    fn protocols_that_carry_http_cannot_be_listed() {
        for protocol in ["websocket", "foo", "IRC/6.9", "tcp"] {
            assert_eq!(
                protocol.parse::<UpgradeProtocol>().unwrap().to_string(),
                protocol.to_ascii_lowercase()
            );
        }
        for carrier in ["h2c", "H2C-14", "HTTP/2.0", "https", "TLS/1.0", "tls", "h3", "SPDY/3"] {
            assert!(
                carrier.parse::<UpgradeProtocol>().unwrap_err().contains("carries HTTP"),
                "{carrier}"
            );
        }
        for none in ["", "/", "foo/", "/1", "a/b/c", "foo bar", "\"foo\"", "foo,bar"] {
            assert!(none.parse::<UpgradeProtocol>().unwrap_err().contains("no protocol"), "{none}");
        }
    }
}
