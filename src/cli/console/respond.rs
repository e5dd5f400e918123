//! The responses: pages with the policy that permits what is in them, messages, and what strangers wrote, as a file.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, SET_COOKIE,
};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::pages::view::Shell;

#[derive(Template)]
#[template(path = "console/message.html", config = "src/templates/askama.toml")]
struct MessagePage {
    shell: Shell,
    text: String,
    /// The page asks again by itself.
    refreshes: bool,
}

/// A page that says one thing.
pub fn message(status: StatusCode, title: &str, text: &str) -> Response {
    let shell = Shell::of(title, "", String::new());
    page(status, rendered(&MessagePage { shell, text: text.to_owned(), refreshes: false }))
}

fn rendered(page: &impl Template) -> String {
    page.render().expect("a text can be written to")
}

/// A page that is what was asked for.
pub fn shown(view: &impl Template) -> Response {
    page(StatusCode::OK, rendered(view))
}

/// What is wrong with the request.
pub fn bad(why: &str) -> Response {
    message(StatusCode::BAD_REQUEST, "That cannot be asked", why)
}

/// Too many wait.
pub fn busy() -> Response {
    let why = "Others are being read. Ask again in a moment.";
    message(StatusCode::SERVICE_UNAVAILABLE, "Too much at once", why)
}

/// A page that asks again by itself until what it waits for is there.
pub fn reading(percent: u64) -> Response {
    let shell = Shell::of("Reading the log", "", String::new());
    let text =
        format!("{percent} % of its bytes are read and verified. This page asks again by itself.");
    page(StatusCode::OK, rendered(&MessagePage { shell, text, refreshes: true }))
}

/// The address after a login or a logout, with its cookie.
pub fn redirect(location: &'static str, cookie: &str) -> Response {
    let cookie = HeaderValue::from_str(cookie).expect("hexadecimal digits and fixed words");
    let fields = [(LOCATION, HeaderValue::from_static(location)), (SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, fields).into_response()
}

/// A page, with a policy that permits the style and the script in it and nothing else.
pub fn page(status: StatusCode, html: String) -> Response {
    let hash = |open: &str, close: &str| {
        let inner = html.split_once(open)?.1.split_once(close)?.0;
        Some(format!("'sha256-{}'", base64(&Sha256::digest(inner.as_bytes()))))
    };
    let style = hash("<style>", "</style>").unwrap_or_else(|| "'none'".into());
    let script = hash("<script>", "</script>").unwrap_or_else(|| "'none'".into());
    let policy = format!(
        "default-src 'none'; style-src {style}; script-src {script}; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    let policy = HeaderValue::from_str(&policy).expect("base64 and fixed words");
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)], html).into_response()
}

/// What strangers wrote, never as a page: plain text, or a file to keep.
pub fn plain(body: impl Into<axum::body::Body>, file: Option<&str>) -> Response {
    let policy = HeaderValue::from_static("sandbox; default-src 'none'");
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    let mut response = (StatusCode::OK, fields, body.into()).into_response();
    if let Some(name) = file {
        let disposition = HeaderName::from_static("content-disposition");
        let value = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
        response.headers_mut().extend(value.ok().map(|value| (disposition, value)));
    }
    response
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
