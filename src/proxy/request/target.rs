//! The target of a request (RFC 9112 §3.2). The request target decides, never the received `Host`; a
//! request that is ambiguous about it is refused, not interpreted.

use std::cell::RefCell;

use http::header::{HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Version, request};

use crate::proxy::outcome::problem::OWN_NAME;
use crate::proxy::outcome::refusal::Refusal;
use crate::types::origin::{Host, Origin, Recent, Scheme, UrlError};

thread_local! {
    /// The origins that this worker has parsed lately.
    static RECENT: RefCell<Recent> = RefCell::default();
}

/// The path of a request for an origin as a whole, not for a resource (RFC 9112 §3.2.4).
const WHOLE: &str = "*";

/// What the requests of a connection may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any origin: each request names its own.
    Proxy,
    /// The origin that the client has connected to by CONNECT (RFC 9110 §9.3.6).
    Within(Origin),
}

/// A resource of an origin: what is decided on and, unchanged, what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub origin: Origin,
    /// As the client sent it (RFC 9110 §7.7), percent-encoded where it had to be; `/` if it sent none.
    pub path: PathAndQuery,
    /// The path and query as sent, if they had to be percent-encoded; for records.
    pub received: Option<Box<str>>,
}

impl Destination {
    /// The scheme of the origin that the request may be forwarded to, if any.
    pub fn scheme(&self) -> Option<Scheme> {
        match self {
            Self::Resource(target) => Some(target.origin.scheme()),
            Self::OwnPage(_) | Self::Proxy | Self::Connect => None,
        }
    }

    /// The same, with path and query as `received` before they were percent-encoded.
    pub fn received_as(mut self, received: Option<Box<str>>) -> Self {
        if let Self::Resource(target) = &mut self {
            target.received = received;
        }
        self
    }
}

impl Target {
    /// An origin as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    fn whole(origin: Origin) -> Self {
        Self { origin, path: PathAndQuery::from_static(WHOLE), received: None }
    }

    /// The path that the rules are matched with. A whole origin is matched as its root: `Disallow: /`
    /// is about everything there.
    pub fn judged_path(&self) -> &str {
        if self.path == WHOLE { "/" } else { self.path.as_str() }
    }

    /// The part of the URL after the origin.
    pub fn path_in_url(&self) -> &str {
        if self.path == WHOLE { "" } else { self.path.as_str() }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.origin, self.path_in_url())
    }
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Resource(Target),
    /// A page of the proxy itself.
    OwnPage(PathAndQuery),
    /// The proxy as a whole: `OPTIONS *` (RFC 9110 §9.3.7).
    Proxy,
    /// A host to connect to; `connect` reads which.
    Connect,
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
) -> Result<Destination, Refusal> {
    check_host(request, scope)?;
    check_agent(request)?;
    if request.method == Method::CONNECT {
        return Ok(Destination::Connect);
    }
    let uri = &request.uri;
    if let Scope::Within(origin) = scope {
        return within(request, origin, is_pathless);
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
    Ok(Destination::Resource(Target { origin, path: with_slash(path)?, received: None }))
}

/// Supplies the path that `http://a?b` lacks (RFC 9112 §3.2.1). Anything else that does not begin with
/// "/", such as the "*" of a method other than OPTIONS, is not corrected (RFC 9112 §3).
fn with_slash(path: PathAndQuery) -> Result<PathAndQuery, Refusal> {
    let invalid = || Refusal::bad_request("the URL has no valid path");
    match path.as_str() {
        text if text.starts_with('/') => Ok(path),
        text if text.starts_with('?') => {
            PathAndQuery::try_from(format!("/{text}")).map_err(|_| invalid())
        }
        _ => Err(invalid()),
    }
}

/// The destination inside a CONNECT, whose origin is known. A request that names another one, in the
/// target (`:authority` in HTTP/2), by its scheme or in `Host`, is refused: it would be decided on as
/// one host and served as another.
fn within(
    request: &request::Parts,
    origin: &Origin,
    is_pathless: bool,
) -> Result<Destination, Refusal> {
    let uri = &request.uri;
    let same = |authority: &str| {
        origin.has_authority(authority.as_bytes())
            || Origin::from_authority(origin.scheme(), authority).as_ref() == Ok(origin)
    };
    let host = request.headers.get(HOST).map(|value| value.to_str().is_ok_and(same));
    let scheme = uri.scheme_str().map(|scheme| Scheme::parse(scheme) == Ok(origin.scheme()));
    let authority = uri.authority().map(|authority| same(authority.as_str()));
    if [host, scheme, authority].contains(&Some(false)) {
        return Err(Refusal::bad_request(format!(
            "this connection is for {origin}, and the request names another host or scheme"
        )));
    }
    if (is_pathless || uri.path() == WHOLE) && request.method == Method::OPTIONS {
        return Ok(Destination::Resource(Target::whole(origin.clone())));
    }
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok(Destination::Resource(Target {
        origin: origin.clone(),
        path: with_slash(path)?,
        received: None,
    }))
}

/// RFC 9112 §3.2: no `Host` in HTTP/1.1, more than one, or an invalid one is answered with 400, even
/// though the request target decides.
fn check_host(request: &request::Parts, scope: &Scope) -> Result<(), Refusal> {
    let mut values = request.headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        // HTTP/2 has `:authority` in its place (RFC 9113 §8.3.1).
        (None, _) if request.version != Version::HTTP_11 => Ok(()),
        (None, _) => {
            Err(Refusal::bad_request("an HTTP/1.1 request must have a Host header (RFC 9112 §3.2)"))
        }
        (Some(_), Some(_)) => {
            Err(Refusal::bad_request("the request has more than one Host header (RFC 9112 §3.2)"))
        }
        (Some(value), None) => {
            let bytes = value.as_bytes();
            // The usual case; what is known to be valid is not parsed again.
            let same = match (scope, request.uri.authority()) {
                (Scope::Within(origin), _) => origin.has_authority(bytes),
                (Scope::Proxy, Some(authority)) => authority.as_str().as_bytes() == bytes,
                (Scope::Proxy, None) => false,
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
                Err(Refusal::bad_request("the Host header is not valid (RFC 9112 §3.2)"))
            }
        }
    }
}

/// The agent that is decided on must be the one that the origin sees. `User-Agent` is no list (RFC
/// 9110 §5.3, §10.1.5): of two, this proxy and an origin may each use a different one.
fn check_agent(request: &request::Parts) -> Result<(), Refusal> {
    match request.headers.get_all(USER_AGENT).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Refusal::bad_request(
            "the request has more than one User-Agent header (RFC 9110 §5.3)",
        )),
    }
}

/// An empty port is valid (RFC 3986 §3.2.3).
fn has_valid_port(authority: &Authority) -> bool {
    let host = authority.host().len();
    matches!(&authority.as_str()[host..], "" | ":") || authority.port_u16().is_some()
}

fn without_authority(request: &request::Parts) -> Result<Destination, Refusal> {
    if request.uri.path() == WHOLE && request.method == Method::OPTIONS {
        return Ok(Destination::Proxy);
    }
    if request.uri.path() == "/" && request.method == Method::GET && names_this_machine(request) {
        // The proxy's address, opened in a browser.
        return Ok(Destination::OwnPage(PathAndQuery::from_static("/")));
    }
    Err(Refusal::bad_request(
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

fn refuse_url(error: &UrlError) -> Refusal {
    match error {
        UrlError::Scheme(_) => Refusal::not_served(error.to_string()),
        _ => Refusal::bad_request(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn of(method: &str, uri: &str, hosts: &[&str]) -> Result<String, u16> {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        match destination(&parts, &Scope::Proxy, false) {
            Ok(Destination::Resource(target)) => Ok(target.to_string()),
            Ok(other) => Ok(format!("{other:?}")),
            Err(refusal) => Err(refusal.status().as_u16()),
        }
    }

    #[test]
    fn the_target_counts_and_the_path_stays_as_written() {
        let ok = |uri: &str, expected: &str| {
            assert_eq!(of("GET", uri, &["other"]).as_deref(), Ok(expected))
        };
        ok("http://Example.com/a/../%7e?x", "http://example.com/a/../%7e?x");
        ok("http://example.com:80", "http://example.com/");
        ok("http://example.com?q", "http://example.com/?q");
        ok("https://example.com:8443/", "https://example.com:8443/");
    }

    #[test]
    fn a10_a12_what_is_no_proxy_request_is_refused() {
        assert_eq!(of("GET", "/metrics", &["127.0.0.1:3128"]), Err(400));
        assert_eq!(of("GET", "/", &["example.com"]), Err(400));
        assert!(of("GET", "/", &["127.0.0.1:3128"]).unwrap().starts_with("OwnPage"));
        assert_eq!(of("GET", "ftp://example.com/", &["a"]), Err(501));
        assert_eq!(of("GET", "http://user@example.com/", &["a"]), Err(400));
        assert_eq!(of("GET", "http://127.1/", &["a"]), Err(400));
        assert_eq!(
            of("CONNECT", "example.com:443", &["example.com:443"]).as_deref(),
            Ok("Connect")
        );
        assert_eq!(of("OPTIONS", "*", &["a"]).as_deref(), Ok("Proxy"));
        assert!(of("GET", "http://courtesy.internal/", &["x"]).unwrap().starts_with("OwnPage"));
    }

    #[test]
    fn inside_a_connect_nothing_names_another_host() {
        let scope = Scope::Within(Origin::from_authority(Scheme::Https, "example.com").unwrap());
        let of = |uri: &str, host: Option<&str>, version| {
            let mut request = Request::builder().uri(uri).version(version);
            if let Some(host) = host {
                request = request.header(HOST, host);
            }
            let parts = request.body(()).unwrap().into_parts().0;
            match destination(&parts, &scope, false) {
                Ok(Destination::Resource(target)) => Ok(target.to_string()),
                Ok(other) => panic!("{other:?}"),
                Err(refusal) => Err(refusal.status().as_u16()),
            }
        };
        let (h1, h2) = (Version::HTTP_11, Version::HTTP_2);
        let x = || Ok("https://example.com/x".to_owned());
        assert_eq!(of("/x", Some("Example.com"), h1), x());
        assert_eq!(of("/x", Some("example.com:443"), h1), x());
        assert_eq!(of("https://example.com/x", None, h2), x());
        assert_eq!(of("https://example.com/x", Some("example.com"), h1), x());
        for (uri, host, version) in [
            ("/x", Some("other.example"), h1),
            ("/x", Some("example.com:8443"), h1),
            ("*", Some("example.com"), h1),
            ("http://example.com/x", Some("example.com"), h1),
            ("https://other.example/x", Some("example.com"), h1),
            ("https://other.example/x", None, h2),
            ("https://example.com/x", Some("other.example"), h2),
        ] {
            assert_eq!(of(uri, host, version), Err(400), "{uri} {host:?}");
        }
    }

    #[test]
    fn two_user_agents_are_refused() {
        let of = |method: &str, uri: &str, agents: &[&str]| {
            let mut request = Request::builder().method(method).uri(uri).header(HOST, "a");
            for agent in agents {
                request = request.header(USER_AGENT, *agent);
            }
            let parts = request.body(()).unwrap().into_parts().0;
            destination(&parts, &Scope::Proxy, false)
                .map(drop)
                .map_err(|refusal| refusal.status().as_u16())
        };
        for (method, uri) in [("GET", "http://a/"), ("CONNECT", "a:443"), ("OPTIONS", "*")] {
            assert_eq!(of(method, uri, &[]), Ok(()), "{method}");
            assert_eq!(of(method, uri, &["OneBot"]), Ok(()), "{method}");
            for two in [
                &["OneBot", "TwoBot"][..],
                &["OneBot", "OneBot"],
                &["", "OneBot"],
                &["a", "b", "c"],
            ] {
                assert_eq!(of(method, uri, two), Err(400), "{method} {two:?}");
            }
        }
    }

    #[test]
    fn a3_host_must_be_there_once_and_valid() {
        assert_eq!(of("GET", "http://a/", &[]), Err(400));
        assert_eq!(of("GET", "http://a/", &["a", "a"]), Err(400));
        assert_eq!(of("GET", "http://a/", &["a b"]), Err(400));
        for host in ["u@a", "a:b", "a:99999", ":80"] {
            assert_eq!(of("GET", "http://a/", &[host]), Err(400), "{host}");
        }
        for host in ["", "b", "b:80", "b:", "[::1]:80"] {
            assert!(of("GET", "http://a/", &[host]).is_ok(), "{host}");
        }
    }
}
