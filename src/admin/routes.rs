//! The pages of the admin listener, in one table, and the requests that it rejects: those without
//! the token, if one is set; those of a web page whose name resolves to this machine (DNS
//! rebinding); those for the proxy; and those that came through it.

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, StatusCode};
use serde::Serialize;

use super::guard::{Guard, HostError};
use super::parts::MonitoredParts;
use super::response::{AdminRequest, AdminResponse, respond};
use super::{metrics, readiness};

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

/// Answers a request to the admin listener that is for no page of the console.
pub(super) fn answer<B>(
    request: &Request<B>,
    parts: &MonitoredParts,
    guard: &Guard,
) -> AdminResponse {
    let may_look = parts.token.is_in(request.headers());
    // A request with the token cannot be DNS rebinding, so any `Host` is accepted.
    if !(may_look && parts.token.is_asked())
        && let Err(error) = guard.check_host(request)
    {
        let (status, message) = host_message(error);
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

/// What came through the proxy. It connects to none of its own addresses; a parent, or a load balancer before this
/// machine, may have led it here by an address that is not its own.
pub(super) fn looping() -> AdminResponse {
    text(StatusCode::LOOP_DETECTED, "The proxy forwards no request to its admin listener.\n")
}

/// Without CORS headers no web page can read the responses.
fn host_message(error: HostError) -> (StatusCode, String) {
    match error {
        HostError::Malformed(what) => {
            (StatusCode::BAD_REQUEST, format!("Host is {what} (RFC 9112, 3.2).\n"))
        }
        HostError::Other(host) => {
            let message = format!(
                "This is courtesy's admin listener, not {host}: ask for it by its address. \
                 The proxy is at another port (listen.proxy).\n"
            );
            (StatusCode::MISDIRECTED_REQUEST, message)
        }
    }
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
