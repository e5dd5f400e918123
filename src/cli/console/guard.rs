//! Who gets in: a code that a link has, once, and then a session that the browser keeps. Another user of this machine
//! may connect, and a web page may name this address; neither may read.

use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use std::sync::Arc;

use super::respond::message;
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::origin::{Host, Origin, Scheme};
use crate::types::sanitize::hex;

/// How long a link opens the pages.
const CODE_LIFETIME: Duration = Duration::from_secs(600);

/// Links that hold at one time; another takes the place of the oldest.
const CODES_MAX: usize = 8;

/// Sessions; another takes the place of the oldest.
const SESSIONS_MAX: usize = 64;

/// How long a session holds without being used.
const SESSION_IDLE: Duration = Duration::from_secs(8 * 60 * 60);

/// Wrong codes, of all clients together, before none is looked at for a minute: 128 bits are not guessed.
const WRONG_CODES_MAX: u32 = 20;
const WRONG_CODES_TIME: Duration = Duration::from_secs(60);

/// Codes and sessions, by the digests of what the browser has.
pub struct Guard {
    port: u16,
    state: Lock<Admitted>,
}

#[derive(Default)]
struct Admitted {
    codes: Vec<(String, Instant)>,
    sessions: Vec<(String, Instant)>,
    wrong: u32,
    wrong_since: Option<Instant>,
}

/// Why a request is refused.
enum GuardRefusal {
    Host,
    NoSession,
    CrossSite,
}

impl Guard {
    /// Of a console on that port of loopback. Nothing gets in yet.
    pub fn new(port: u16) -> Self {
        Self { port, state: Lock::new(Admitted::default()) }
    }

    /// A link with a new code. `courtesy.localhost` is loopback in every browser (RFC 6761 §6.3), and has cookies of
    /// its own.
    pub fn link(&self) -> String {
        let code = secret();
        let mut state = self.state.lock();
        let now = monotonic();
        state.codes.retain(|(_, until)| now < *until);
        if state.codes.len() >= CODES_MAX {
            state.codes.remove(0);
        }
        state.codes.push((digest(&code), now + CODE_LIFETIME));
        format!("http://courtesy.localhost:{}/login?code={code}", self.port)
    }

    /// A session for a code, which is spent by that. `None`: there is no such code.
    pub fn redeem(&self, code: &str) -> Option<String> {
        let mut state = self.state.lock();
        let now = monotonic();
        if state.wrong_since.is_some_and(|since| now.duration_since(since) >= WRONG_CODES_TIME) {
            (state.wrong, state.wrong_since) = (0, None);
        }
        if state.wrong >= WRONG_CODES_MAX {
            return None;
        }
        let wanted = digest(code);
        let found = state.codes.iter().position(|(code, until)| *code == wanted && now < *until);
        let Some(at) = found else {
            state.wrong += 1;
            state.wrong_since.get_or_insert(now);
            return None;
        };
        state.codes.remove(at);
        let session = secret();
        state.sessions.retain(|(_, until)| now < *until);
        if state.sessions.len() >= SESSIONS_MAX {
            state.sessions.remove(0);
        }
        state.sessions.push((digest(&session), now + SESSION_IDLE));
        Some(format!("{}={session}; HttpOnly; SameSite=Lax; Path=/", self.cookie_name()))
    }

    /// Ends the session of a request.
    pub fn log_out(&self, headers: &HeaderMap) -> String {
        if let Some(session) = self.session(headers) {
            let wanted = digest(session);
            self.state.lock().sessions.retain(|(known, _)| *known != wanted);
        }
        format!("{}=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0", self.cookie_name())
    }

    /// A cookie is sent to all ports of a host, so its name has the port.
    fn cookie_name(&self) -> String {
        format!("courtesy-{}", self.port)
    }

    fn session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
        let mut pairs = cookies.flat_map(|field| field.split(';'));
        pairs.find_map(|pair| pair.trim().strip_prefix(name.as_str())?.strip_prefix('='))
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let Some(session) = self.session(headers) else { return false };
        let (wanted, now) = (digest(session), monotonic());
        let mut state = self.state.lock();
        let known = state.sessions.iter_mut().find(|(known, _)| *known == wanted);
        let Some((_, until)) = known.filter(|(_, until)| now < *until) else { return false };
        *until = now + SESSION_IDLE;
        true
    }

    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        if !is_own_host(headers, self.port) {
            return Err(GuardRefusal::Host);
        }
        if *method == Method::POST && !is_same_site(headers) {
            return Err(GuardRefusal::CrossSite);
        }
        match uri.path() {
            "/login" => Ok(()),
            _ if self.has_session(headers) => Ok(()),
            _ => Err(GuardRefusal::NoSession),
        }
    }
}

/// Lets a request in, or answers it, and adds the fields that every response has.
pub async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let checked = guard.check(request.method(), request.uri(), request.headers());
    let response = match checked {
        Ok(()) => next.run(request).await,
        Err(GuardRefusal::Host) => {
            let why =
                "This is courtesy's console: ask for it by the link that the terminal prints.";
            message(StatusCode::MISDIRECTED_REQUEST, "Not this name", why)
        }
        Err(GuardRefusal::NoSession) => {
            let why = "Open the link that the terminal prints. It lets one browser in, once; Enter in the terminal prints another.";
            message(StatusCode::UNAUTHORIZED, "Who are you?", why)
        }
        Err(GuardRefusal::CrossSite) => {
            let why = "A form of another site cannot be sent here.";
            message(StatusCode::FORBIDDEN, "Not from there", why)
        }
    };
    with_fields(response)
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
    response
}

/// One `Host`, which is an address, `localhost` or a name below it: another name may be one that an attacker's DNS
/// resolves to this machine. No proxy stands before this, so the port is ours, too.
fn is_own_host(headers: &HeaderMap, port: u16) -> bool {
    let mut fields = headers.get_all(HOST).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return false };
    let origin = field.to_str().ok().and_then(|it| Origin::from_authority(Scheme::Http, it).ok());
    origin.is_some_and(|origin| {
        let is_local = match origin.host() {
            Host::V4(_) | Host::V6(_) => true,
            Host::Name(name) => **name == *"localhost" || name.ends_with(".localhost"),
        };
        is_local && origin.port() == port
    })
}

/// A form of this console, or of no page at all (Fetch Metadata, §2.3). A browser without these fields sends `Origin`.
fn is_same_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, b"same-origin" | b"none"),
        (None, Some(origin)) => {
            let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
            origin.strip_prefix(b"http://") == Some(host)
        }
        (None, None) => false,
    }
}

/// 256 random bits in hexadecimal.
fn secret() -> String {
    let mut bits = [0; 32];
    aws_lc_rs::rand::fill(&mut bits).expect("the operating system has random bits");
    hex(&bits)
}

fn digest(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}
