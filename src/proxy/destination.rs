//! Reads the destination of a request (RFC 9112 §3.2). The request target decides, never the
//! received `Host`; a request that is ambiguous about it is refused, not interpreted.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Version, request};

use super::rejection::Rejection;
use crate::types::origin::{Host, Origin, Recent, Scheme, UrlError};
use crate::types::problem::OWN_NAME;

thread_local! {
    /// The origins that this worker has parsed lately.
    static RECENT: RefCell<Recent> = RefCell::default();
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Resource(Target),
    /// A page of the proxy itself.
    OwnPage(PathAndQuery),
    /// The proxy as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    ProxyItself,
    /// A host to connect to; `connect` reads which.
    Connect,
}

impl Destination {
    /// The scheme of the origin that the request may be forwarded to, if any.
    pub fn scheme(&self) -> Option<Scheme> {
        match self {
            Self::Resource(target) => Some(target.origin.scheme()),
            Self::OwnPage(_) | Self::ProxyItself | Self::Connect => None,
        }
    }

    /// The same, with `path`, which is path and query before they were percent-encoded.
    pub fn with_path_as_received(mut self, path: Option<Box<str>>) -> Self {
        if let Self::Resource(target) = &mut self {
            target.path_as_received = path;
        }
        self
    }
}

/// Reads the destination of `request`, which came on a connection of `scope`; `is_pathless`: the
/// target was an absolute URL without a path, which the URI type does not show.
///
/// # Errors
/// For a target, `Host` or `User-Agent` that is invalid, ambiguous or not supported.
pub fn destination(
    request: &request::Parts,
    scope: &Scope,
    is_pathless: bool,
) -> Result<Destination, Rejection> {
    check_host(request, scope)?;
    check_agent(request)?;
    if request.method == Method::CONNECT {
        return Ok(Destination::Connect);
    }
    let uri = &request.uri;
    match scope {
        Scope::Origin(origin) => return inside_connect(request, origin, is_pathless),
        Scope::Address(address) => return at_address(request, *address, is_pathless),
        Scope::AnyOrigin => {}
    }
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return without_authority(request);
    };
    let scheme = Scheme::parse(scheme).map_err(|error| refuse_url(&error))?;
    if scheme == Scheme::Ftp {
        return Err(refuse_url(&UrlError::Scheme("ftp".into())));
    }
    let origin = RECENT.with_borrow_mut(|recent| recent.origin(scheme, authority.as_str()));
    let origin = origin.map_err(|error| refuse_url(&error))?;
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if matches!(origin.host(), Host::Name(name) if **name == *OWN_NAME) {
        return Ok(Destination::OwnPage(path));
    }
    if is_pathless && request.method == Method::OPTIONS {
        return Ok(Destination::Resource(Target::whole(origin)));
    }
    Ok(Destination::Resource(Target { origin, path: with_slash(path)?, path_as_received: None }))
}

/// Supplies the path that `http://a?b` lacks (RFC 9112 §3.2.1). Anything else that does not begin
/// with "/", such as the "*" of a method other than OPTIONS, is not corrected (RFC 9112 §3).
fn with_slash(path: PathAndQuery) -> Result<PathAndQuery, Rejection> {
    let invalid = || Rejection::bad_request("the URL has no valid path");
    match path.as_str() {
        text if text.starts_with('/') => Ok(path),
        text if text.starts_with('?') => {
            PathAndQuery::try_from(format!("/{text}")).map_err(|_| invalid())
        }
        _ => Err(invalid()),
    }
}

/// The destination inside a CONNECT, whose origin is known. A request that names another one, in
/// the target (`:authority` in HTTP/2), by its scheme or in `Host`, is refused: it would be decided
/// on as one host and served as another. The status is 400: 421 is an origin's, and a proxy must
/// not generate it (RFC 9110 §15.5.20).
fn inside_connect(
    request: &request::Parts,
    origin: &Origin,
    is_pathless: bool,
) -> Result<Destination, Rejection> {
    let uri = &request.uri;
    let same = |authority: &str| {
        origin.has_authority(authority.as_bytes())
            || Origin::from_authority(origin.scheme(), authority).as_ref() == Ok(origin)
    };
    let host = request.headers.get(HOST).map(|value| value.to_str().is_ok_and(same));
    let scheme = uri.scheme_str().map(|scheme| Scheme::parse(scheme) == Ok(origin.scheme()));
    let authority = uri.authority().map(|authority| same(authority.as_str()));
    if [host, scheme, authority].contains(&Some(false)) {
        return Err(Rejection::bad_request(format!(
            "this connection is for {origin}, and the request names another host or scheme"
        )));
    }
    resource(request, origin.clone(), is_pathless)
}

/// The destination on a connection that the client has made to `address`: the host that the target
/// or else `Host` names, at that port. Without a name it is the address (HTTP/1.0). The request
/// goes to where the name resolves to, never to `address` under another name.
fn at_address(
    request: &request::Parts,
    address: SocketAddr,
    is_pathless: bool,
) -> Result<Destination, Rejection> {
    let uri = &request.uri;
    if uri.scheme_str().is_some_and(|scheme| Scheme::parse(scheme) != Ok(Scheme::Http)) {
        let detail = "this connection is plain HTTP, and the request names another scheme";
        return Err(Rejection::bad_request(detail));
    }
    let host = request.headers.get(HOST).and_then(|value| value.to_str().ok());
    let named = uri.authority().map(Authority::as_str).or(host).filter(|text| !text.is_empty());
    let Some(named) = named else {
        let host = host_of(address.ip());
        return resource(request, Origin::new(Scheme::Http, host, address.port()), is_pathless);
    };
    let read = |text: &str| RECENT.with_borrow_mut(|recent| recent.origin(Scheme::Http, text));
    let origin = read(named).map_err(|error| refuse_url(&error))?;
    let has_port = Authority::try_from(named).is_ok_and(|named| named.port().is_some());
    let is_other_port = has_port && origin.port() != address.port();
    let is_other_host =
        host.is_some_and(|host| !host.is_empty() && read(host) != Ok(origin.clone()));
    if is_other_port || is_other_host {
        return Err(Rejection::bad_request(format!(
            "this connection is for port {}, and the request names another host or port",
            address.port()
        )));
    }
    let origin = Origin::new(Scheme::Http, origin.host().clone(), address.port());
    resource(request, origin, is_pathless)
}

/// The host that an address is.
pub fn host_of(address: IpAddr) -> Host {
    match address.to_canonical() {
        IpAddr::V4(address) => Host::V4(address),
        IpAddr::V6(address) => Host::V6(address),
    }
}

/// The resource of `origin` that the target names.
fn resource(
    request: &request::Parts,
    origin: Origin,
    is_pathless: bool,
) -> Result<Destination, Rejection> {
    let uri = &request.uri;
    if (is_pathless || uri.path() == WHOLE) && request.method == Method::OPTIONS {
        return Ok(Destination::Resource(Target::whole(origin)));
    }
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok(Destination::Resource(Target { origin, path: with_slash(path)?, path_as_received: None }))
}

fn without_authority(request: &request::Parts) -> Result<Destination, Rejection> {
    if request.uri.path() == WHOLE && request.method == Method::OPTIONS {
        return Ok(Destination::ProxyItself);
    }
    if request.uri.path() == "/" && request.method == Method::GET && names_this_machine(request) {
        // The proxy's address, opened in a browser.
        return Ok(Destination::OwnPage(PathAndQuery::from_static("/")));
    }
    Err(Rejection::bad_request(
        "this is a proxy: the request line must have an absolute URL, as in \"GET http://example.com/ HTTP/1.1\". \
         Set the client's HTTP_PROXY to this address instead of requesting from it",
    ))
}

/// Whether `Host` is an address or `localhost`, as a listener is named, and not the name of a site.
fn names_this_machine(request: &request::Parts) -> bool {
    let host = request.headers.get(HOST).and_then(|value| value.to_str().ok());
    match host.map(|host| Origin::from_authority(Scheme::Http, host)) {
        Some(Ok(origin)) => match origin.host() {
            Host::Name(name) => **name == *"localhost",
            Host::V4(_) | Host::V6(_) => true,
        },
        _ => false,
    }
}

fn refuse_url(error: &UrlError) -> Rejection {
    match error {
        UrlError::Scheme(_) => Rejection::not_served(error.to_string()),
        _ => Rejection::bad_request(error.to_string()),
    }
}

/// The path of a request for an origin as a whole, not for a resource (RFC 9112 §3.2.4).
pub(super) const WHOLE: &str = "*";

/// The origins that the requests of a connection may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any origin, which each request names: the client uses the proxy as a proxy.
    AnyOrigin,
    /// One origin: the connection is inside a CONNECT to it (RFC 9110 §9.3.6).
    Origin(Origin),
    /// Any host by plain HTTP at the port of this address, which the client has connected to by a
    /// transparent listener. Each request names its host, or is for the address.
    Address(SocketAddr),
}

/// A resource of an origin: what is decided on and, unchanged, what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub origin: Origin,
    /// Path and query as the client sent them (RFC 9110 §7.7), percent-encoded where it had to be;
    /// `/` if it sent none.
    pub path: PathAndQuery,
    /// The path and query as sent, if they had to be percent-encoded; for records.
    pub path_as_received: Option<Box<str>>,
}

impl Target {
    /// An origin as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    pub(super) fn whole(origin: Origin) -> Self {
        Self { origin, path: PathAndQuery::from_static(WHOLE), path_as_received: None }
    }

    /// The path that the rules of a robots.txt are matched with. A whole origin is matched as its
    /// root: `Disallow: /` is about everything there.
    pub fn path_for_rules(&self) -> &str {
        if self.path == WHOLE { "/" } else { self.path.as_str() }
    }

    /// The part of the URL after the origin.
    pub fn path_in_url(&self) -> &str {
        if self.path == WHOLE { "" } else { self.path.as_str() }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path_in_url())
    }
}

// Headers of a request that must be unambiguous before its destination and its agent are read:
// `Host` and `User-Agent`.

/// RFC 9112 §3.2: no `Host` in HTTP/1.1, more than one, or an invalid one is answered with 400,
/// even though the request target decides.
pub(super) fn check_host(request: &request::Parts, scope: &Scope) -> Result<(), Rejection> {
    let mut values = request.headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        // HTTP/2 has `:authority` in its place (RFC 9113 §8.3.1).
        (None, _) if request.version != Version::HTTP_11 => Ok(()),
        (None, _) => Err(Rejection::bad_request(
            "an HTTP/1.1 request must have a Host header (RFC 9112 §3.2)",
        )),
        (Some(_), Some(_)) => {
            Err(Rejection::bad_request("the request has more than one Host header (RFC 9112 §3.2)"))
        }
        (Some(value), None) => {
            let bytes = value.as_bytes();
            // The usual case; what is known to be valid is not parsed again.
            let same = match (scope, request.uri.authority()) {
                (Scope::Origin(origin), _) => origin.has_authority(bytes),
                (Scope::AnyOrigin, Some(authority)) => authority.as_str().as_bytes() == bytes,
                (Scope::AnyOrigin, None) | (Scope::Address(_), _) => false,
            };
            let valid = || {
                let named = |authority: Authority| {
                    !authority.host().is_empty() && has_valid_port(&authority)
                };
                bytes.is_empty()
                    || !bytes.contains(&b'@') && Authority::try_from(bytes).is_ok_and(named)
            };
            if same || valid() {
                Ok(())
            } else {
                Err(Rejection::bad_request("the Host header is not valid (RFC 9112 §3.2)"))
            }
        }
    }
}

/// The agent that is decided on must be the one that the origin sees. `User-Agent` is no list (RFC
/// 9110 §5.3, §10.1.5): of two, this proxy and an origin may each use a different one.
pub(super) fn check_agent(request: &request::Parts) -> Result<(), Rejection> {
    match request.headers.get_all(USER_AGENT).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Rejection::bad_request(
            "the request has more than one User-Agent header (RFC 9110 §5.3)",
        )),
    }
}

/// An empty port is valid (RFC 3986 §3.2.3).
fn has_valid_port(authority: &Authority) -> bool {
    let host = authority.host().len();
    matches!(&authority.as_str()[host..], "" | ":") || authority.port_u16().is_some()
}
