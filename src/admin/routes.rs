//! The pages of the admin listener, in one table, and the requests that it rejects: those without
//! the token, if one is set; those of a web page whose name resolves to this machine (DNS
//! rebinding); those for the proxy; and those that came through it.

use bytes::Bytes;
use http::header::{ALLOW, HOST, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, StatusCode, Version};
use serde::Serialize;

use super::parts::MonitoredParts;
use super::response::{AdminRequest, AdminResponse, respond};
use super::{metrics, readiness};
use crate::types::origin::{Host, Origin, Scheme};

struct Route {
    path: &'static str,
    /// Its content, for the list of pages.
    meaning: &'static str,
    /// Whether it responds without a token too: probes have none.
    is_open: bool,
    answer: fn(&MonitoredParts, &AdminRequest<'_>) -> AdminResponse,
}

const ROUTES: [Route; 5] = [
    Route {
        path: "/healthz",
        meaning: "whether the process lives",
        is_open: true,
        answer: |_, _| text(StatusCode::OK, "ok\n"),
    },
    Route {
        path: "/readyz",
        meaning: "whether it should be sent requests; ?verbose lists what was looked at",
        is_open: true,
        answer: readiness::answer,
    },
    Route {
        path: "/metrics",
        meaning: "its numbers, in the text format of Prometheus or OpenMetrics",
        is_open: false,
        answer: metrics::answer,
    },
    Route {
        path: "/version",
        meaning: "which courtesy it is",
        is_open: false,
        answer: |_, _| version(),
    },
    Route {
        path: "/config",
        meaning: "the settings in effect, and where each came from",
        is_open: false,
        answer: |parts, _| json(&parts.reloads.in_effect()),
    },
];

/// Answers a request to the admin listener.
pub(super) fn answer<B>(request: &Request<B>, parts: &MonitoredParts) -> AdminResponse {
    // The proxy connects to none of its own addresses. A parent, or a load balancer before this
    // machine, may have led it here by an address that is not its own.
    if parts.via.is_looping(request.headers()) {
        return text(
            StatusCode::LOOP_DETECTED,
            "The proxy forwards no request to its admin listener.\n",
        );
    }
    let may_look = parts.token.is_in(request.headers());
    // A request with the token cannot be DNS rebinding, so any `Host` is accepted.
    if !(may_look && parts.token.is_asked())
        && let Err((status, message)) = check_host(request)
    {
        return text(status, message);
    }
    let Some(route) = ROUTES.iter().find(|route| route.path == request.uri().path()) else {
        return not_found();
    };
    if !may_look && !route.is_open {
        return unauthorized();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return method_not_allowed();
    }
    (route.answer)(
        parts,
        &AdminRequest { uri: request.uri(), headers: request.headers(), is_authorized: may_look },
    )
}

/// Accepts a `Host` that is an address or `localhost`, with nothing around it but a port: another name may be one that an attacker's
/// DNS resolves to this machine. There is one `Host` (RFC 9112 §3.2); HTTP/1.0 has none, and
/// browsers do not speak it. Without CORS headers no web page can read the responses.
fn check_host<B>(request: &Request<B>) -> Result<(), (StatusCode, String)> {
    let bad = |what| (StatusCode::BAD_REQUEST, format!("Host is {what} (RFC 9112, 3.2).\n"));
    let mut headers = request.headers().get_all(HOST).iter();
    let authority = match (request.uri().authority(), headers.next()) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(field)) => field.to_str().map_err(|_| bad("malformed"))?,
        (None, None) if request.version() < Version::HTTP_11 => return Ok(()),
        (None, None) => return Err(bad("missing")),
    };
    if headers.next().is_some() {
        return Err(bad("given twice"));
    }
    let origin = Origin::from_authority(Scheme::Http, authority).map_err(|_| bad("malformed"))?;
    let host = match origin.host() {
        Host::V4(_) | Host::V6(_) => return Ok(()),
        Host::Name(name) if **name == *"localhost" => return Ok(()),
        host => host,
    };
    let message = format!(
        "This is courtesy's admin listener, not {host}: ask for it by its address. \
         The proxy is at another port (listen.proxy).\n"
    );
    Err((StatusCode::MISDIRECTED_REQUEST, message))
}

fn not_found() -> AdminResponse {
    let table: String =
        ROUTES.iter().map(|route| format!("{:<10}{}\n", route.path, route.meaning)).collect();
    text(StatusCode::NOT_FOUND, format!("There is no such page. There are:\n{table}"))
}

fn unauthorized() -> AdminResponse {
    let message = "This asks for the token of admin.token_file: Authorization: Bearer TOKEN.\n";
    let mut answer = text(StatusCode::UNAUTHORIZED, message);
    answer
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"courtesy\""));
    answer
}

fn method_not_allowed() -> AdminResponse {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "This can only be read: GET or HEAD.\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> AdminResponse {
    respond(status, "text/plain; charset=utf-8", body)
}

fn version() -> AdminResponse {
    json(&serde_json::json!({ "name": "courtesy", "version": env!("CARGO_PKG_VERSION") }))
}

fn json(content: &impl Serialize) -> AdminResponse {
    let json = serde_json::to_string_pretty(content).expect("plain values");
    respond(StatusCode::OK, "application/json", json + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn status(target: &str, version: Version, hosts: &[&str]) -> Option<u16> {
        let mut request = Request::builder().uri(target).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        check_host(&request.body(()).unwrap()).err().map(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_who_asks_for_an_address_or_localhost_is_answered() {
        for host in ["127.0.0.1:3129", "[::1]:3129", "192.0.2.7", "localhost", "LOCALHOST:3129"] {
            assert_eq!(status("/metrics", Version::HTTP_11, &[host]), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:3129",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ] {
            assert_eq!(status("/metrics", Version::HTTP_11, &[host]), Some(421), "{host}");
        }
    }

    /// RFC 9112 §3.2: `uri-host [ ":" port ]`, and nothing else.
    #[test]
    fn a_host_that_is_not_in_the_grammar_is_malformed() {
        for host in [
            "",
            "[::1]x",
            "[::1]evil.example",
            "[::1]]",
            "[[::1]]",
            "[::1",
            "::1",
            "::1]",
            "[127.0.0.1]",
            "[localhost]",
            "[evil.example]",
            "[]",
            "[::1%25eth0]",
            "127.0.0.1]",
            "a@127.0.0.1",
            "@127.0.0.1",
            "a:b@localhost",
            "evil.example@[::1]:3129",
            "127.0.0.1:x",
            "127.0.0.1:99999",
            "127.0.0.1:1:1",
            "127.0.0.1/",
            "127.0.0.1?a",
            "127.0.0.1#a",
            "127.0.0.1\\",
            "127.0.0.1,evil.example",
            "127.0.0.1 evil.example",
            "127.0.0.01",
            "2130706433",
            "0x7f.1",
            "localhost%00",
        ] {
            assert_eq!(status("/metrics", Version::HTTP_11, &[host]), Some(400), "{host}");
        }
    }

    #[test]
    fn there_is_one_host_and_an_absolute_target_goes_before_it() {
        assert_eq!(status("/metrics", Version::HTTP_11, &[]), Some(400));
        assert_eq!(status("/metrics", Version::HTTP_10, &[]), None);
        assert_eq!(status("/metrics", Version::HTTP_11, &["127.0.0.1", "127.0.0.1"]), Some(400));
        assert_eq!(status("/metrics", Version::HTTP_11, &["a b"]), Some(400));
        assert_eq!(status("http://evil.example/", Version::HTTP_11, &["127.0.0.1"]), Some(421));
    }
}
