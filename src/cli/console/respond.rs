//! The responses: pages with the policy that permits what is in them, messages, and what strangers wrote, as a file.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::archive::ConsoleArchive;
use super::pages::view::{Frame, Shell};
use crate::admin::guard::GuardRefusal;

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

/// Who may not see persons has asked for more than that.
pub fn operators_only() -> Response {
    let why =
        "This is for operators: it shows, takes away or changes more than the viewers' token may.";
    message(StatusCode::FORBIDDEN, "Not for viewers", why)
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

/// The page after a form: one that is loaded again sends it no second time.
pub fn redirect(location: &str) -> Response {
    let location = HeaderValue::from_str(location).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// The same after a login or a logout, with its cookie.
pub fn redirect_with(location: &str, cookie: &str) -> Response {
    let mut response = redirect(location);
    let cookie = HeaderValue::from_str(cookie).expect("hexadecimal digits and fixed words");
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

/// A page of the console to go to, as an address says it: of no other host.
pub fn next_page(asked: Option<String>) -> String {
    let is_own = |path: &String| {
        path.starts_with('/')
            && !path.starts_with("//")
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    asked.filter(is_own).unwrap_or_else(|| "/".into())
}

/// Lets a request in, or answers it, and adds the fields that every response has.
pub async fn guarded(
    State(archive): State<Arc<ConsoleArchive>>,
    mut request: Request,
    next: Next,
) -> Response {
    let checked = archive.guard.check(&request);
    let visitor = checked.as_ref().ok().cloned().flatten();
    let frame =
        Frame { has_proxy: archive.proxy.is_some(), visitor: visitor.clone(), ..Frame::default() };
    let answered = async {
        match checked {
            Ok(_) => {
                if let Some(visitor) = visitor {
                    request.extensions_mut().insert(visitor);
                }
                next.run(request).await
            }
            Err(GuardRefusal::Host(_)) => {
                let why = "This is courtesy's console: ask for it by the link that `courtesy console` prints, or name this origin in admin.origins.";
                message(StatusCode::MISDIRECTED_REQUEST, "Not this name", why)
            }
            Err(GuardRefusal::NoSession) => {
                login_page(StatusCode::UNAUTHORIZED, &archive, String::new(), request.uri())
            }
            Err(GuardRefusal::CrossSite) => {
                let why = "A form of another site cannot be sent here.";
                message(StatusCode::FORBIDDEN, "Not from there", why)
            }
        }
    };
    with_fields(frame.around(answered).await)
}

fn with_fields(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What is no page, as a redirect or the refusal of a method, may load nothing.
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    response
}

#[derive(Template)]
#[template(path = "console/login.html", config = "src/templates/askama.toml")]
struct Login {
    shell: Shell,
    code: String,
    takes_tokens: bool,
    has_proxy: bool,
    next: String,
}

/// A button, which the script in the page presses: a preview of the link does not spend the code. Where a token opens,
/// too, a field for that.
pub fn login_page(
    status: StatusCode,
    archive: &ConsoleArchive,
    code: String,
    asked: &Uri,
) -> Response {
    let shell = Shell::of("Who are you?", "", String::new());
    let next = match asked.path() {
        "/login" | "/logout" => "/".into(),
        _ => next_page(asked.path_and_query().map(ToString::to_string)),
    };
    let takes_tokens = archive.guard.takes_tokens();
    let has_proxy = archive.proxy.is_some();
    page(status, rendered(&Login { shell, code, takes_tokens, has_proxy, next }))
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
        "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
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
