//! Who gets in: a code that a link has, once, and then a session that the browser keeps. Another user of this machine
//! may connect, and a web page may name this address; neither may read.

use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
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

/// Lets requests in that have a session, and others with a code.
pub struct Guard {
    port: u16,
    keys: Lock<GuardKeys>,
}

/// Codes and sessions, by the digests of what the browser has, each with the moment it ends; the oldest first.
#[derive(Default)]
struct GuardKeys {
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
        Self { port, keys: Lock::new(GuardKeys::default()) }
    }

    /// A link with a new code. `courtesy.localhost` is loopback in every browser (RFC 6761 §6.3), and has cookies of
    /// its own.
    pub fn link(&self) -> String {
        let code = self.keys.lock().code(monotonic());
        format!("http://courtesy.localhost:{}/login?code={code}", self.port)
    }

    /// The cookie of a new session for a code, which is spent by that. `None`: there is no such code.
    pub fn redeem(&self, code: &str) -> Option<String> {
        let session = self.keys.lock().redeem(code, monotonic())?;
        Some(format!("{}={session}; HttpOnly; SameSite=Lax; Path=/", self.cookie_name()))
    }

    /// Ends the session of a request; the field that takes its cookie away.
    pub fn log_out(&self, headers: &HeaderMap) -> String {
        if let Some(session) = self.session(headers) {
            self.keys.lock().end(session);
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
        let session = self.session(headers);
        session.is_some_and(|session| self.keys.lock().holds(session, monotonic()))
    }

    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        if !is_own_host(uri, headers, self.port) {
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

impl GuardKeys {
    fn code(&mut self, now: Instant) -> String {
        let code = secret();
        self.codes.retain(|(_, until)| now < *until);
        if self.codes.len() >= CODES_MAX {
            self.codes.remove(0);
        }
        self.codes.push((digest(&code), now + CODE_LIFETIME));
        code
    }

    /// A session for a code.
    fn redeem(&mut self, code: &str, now: Instant) -> Option<String> {
        if self.wrong_since.is_some_and(|since| now.duration_since(since) >= WRONG_CODES_TIME) {
            (self.wrong, self.wrong_since) = (0, None);
        }
        if self.wrong >= WRONG_CODES_MAX {
            return None;
        }
        let wanted = digest(code);
        let found = self.codes.iter().position(|(code, until)| *code == wanted && now < *until);
        let Some(at) = found else {
            self.wrong += 1;
            self.wrong_since.get_or_insert(now);
            return None;
        };
        self.codes.remove(at);
        let session = secret();
        self.sessions.retain(|(_, until)| now < *until);
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.remove(0);
        }
        self.sessions.push((digest(&session), now + SESSION_IDLE));
        Some(session)
    }

    /// Whether there is that session, which is used by that.
    fn holds(&mut self, session: &str, now: Instant) -> bool {
        let wanted = digest(session);
        let known = self.sessions.iter_mut().find(|(known, _)| *known == wanted);
        let Some((_, until)) = known.filter(|(_, until)| now < *until) else { return false };
        *until = now + SESSION_IDLE;
        true
    }

    fn end(&mut self, session: &str) {
        let wanted = digest(session);
        self.sessions.retain(|(known, _)| *known != wanted);
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
    // What is no page, as a redirect or the refusal of a method, may load nothing.
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    response
}

/// One `Host`, which is an address, `localhost` or a name below it: another name may be one that an attacker's DNS
/// resolves to this machine. No proxy stands before this, so the port is ours, too.
fn is_own_host(uri: &Uri, headers: &HeaderMap, port: u16) -> bool {
    let mut fields = headers.get_all(HOST).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return false };
    if uri.authority().is_some_and(|authority| authority.as_str().as_bytes() != field.as_bytes()) {
        return false;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_code_opens_one_session_within_its_time() {
        let (mut keys, now) = (GuardKeys::default(), monotonic());
        let code = keys.code(now);
        let session = keys.redeem(&code, now + CODE_LIFETIME - SECOND).unwrap();
        assert_ne!(session, code);
        assert_eq!(keys.redeem(&code, now), None, "it was used");
        let late = keys.code(now);
        assert_eq!(keys.redeem(&late, now + CODE_LIFETIME), None);
    }

    #[test]
    fn a_code_more_takes_the_place_of_the_oldest() {
        let (mut keys, now) = (GuardKeys::default(), monotonic());
        let codes: Vec<_> = (0..=CODES_MAX).map(|_| keys.code(now)).collect();
        let opens: Vec<_> = codes.iter().map(|code| keys.redeem(code, now).is_some()).collect();
        assert!(!opens[0] && opens[1..].iter().all(|opens| *opens), "{opens:?}");
    }

    #[test]
    fn a_session_more_takes_the_place_of_the_oldest() {
        let (mut keys, now) = (GuardKeys::default(), monotonic());
        let mut session = || {
            let code = keys.code(now);
            keys.redeem(&code, now).unwrap()
        };
        let sessions: Vec<_> = (0..=SESSIONS_MAX).map(|_| session()).collect();
        let holds: Vec<_> = sessions.iter().map(|session| keys.holds(session, now)).collect();
        assert!(!holds[0] && holds[1..].iter().all(|holds| *holds), "{holds:?}");
    }

    #[test]
    fn a_session_holds_while_it_is_used_and_until_it_is_ended() {
        let (mut keys, mut now) = (GuardKeys::default(), monotonic());
        let code = keys.code(now);
        let session = keys.redeem(&code, now).unwrap();
        for _ in 0..3 {
            now += SESSION_IDLE - SECOND;
            assert!(keys.holds(&session, now));
        }
        assert!(!keys.holds("", now) && !keys.holds(&code, now));
        assert!(!keys.holds(&session, now + SESSION_IDLE));
        assert!(keys.holds(&session, now));
        keys.end(&session);
        assert!(!keys.holds(&session, now));
    }

    #[test]
    fn wrong_codes_are_limited_for_a_time() {
        let (mut keys, now) = (GuardKeys::default(), monotonic());
        let code = keys.code(now);
        for _ in 0..WRONG_CODES_MAX {
            assert_eq!(keys.redeem("00", now), None);
        }
        assert_eq!(keys.redeem(&code, now + WRONG_CODES_TIME - SECOND), None);
        assert!(keys.redeem(&code, now + WRONG_CODES_TIME).is_some());
    }

    #[test]
    fn only_names_of_loopback_and_addresses_are_its_hosts() {
        for (host, is_own) in [
            ("courtesy.localhost:4000", true),
            ("localhost:4000", true),
            ("LOCALHOST:4000", true),
            ("127.0.0.1:4000", true),
            ("[::1]:4000", true),
            ("localhost", false),
            ("localhost:4001", false),
            ("localhost.evil.example:4000", false),
            ("evillocalhost:4000", false),
            ("127.0.0.1.evil.example:4000", false),
            ("[::1%25lo]:4000", false),
            ("user@localhost:4000", false),
            ("localhost:4000/", false),
            ("", false),
        ] {
            let found = is_own_host(&Uri::from_static("/"), &headers(&[("host", host)]), 4000);
            assert_eq!(found, is_own, "{host}");
        }
        let own = ("host", "localhost:4000");
        let is_own = |uri: &'static str, fields: &[_]| {
            is_own_host(&Uri::from_static(uri), &headers(fields), 4000)
        };
        assert!(is_own("http://localhost:4000/", &[own]));
        assert!(!is_own("http://evil.example:4000/", &[own]));
        assert!(!is_own("/", &[own, own]) && !is_own("/", &[]));
    }

    #[test]
    fn a_form_is_taken_from_the_console_alone() {
        let own = ("host", "localhost:4000");
        for (fields, is_same) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://localhost:4000")], false),
            (&[("origin", "http://localhost:4000")], true),
            (&[("origin", "http://localhost:4001")], false),
            (&[("origin", "https://localhost:4000")], false),
            (&[("origin", "http://evil.example")], false),
            (&[("origin", "null")], false),
            (&[], false),
        ] {
            let fields: Vec<_> = fields.iter().copied().chain([own]).collect();
            assert_eq!(is_same_site(&headers(&fields)), is_same, "{fields:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let guard = Guard::new(4000);
        for (fields, expected) in [
            (&["courtesy-4000=ab"][..], Some("ab")),
            (&["a=b; courtesy-4000=ab; c=d"], Some("ab")),
            (&["a=b", "courtesy-4000=ab"], Some("ab")),
            (&["courtesy-40001=ab"], None),
            (&["xcourtesy-4000=ab"], None),
            (&["courtesy-4000"], None),
            (&[], None),
        ] {
            let fields: Vec<_> = fields.iter().map(|value| ("cookie", *value)).collect();
            assert_eq!(guard.session(&headers(&fields)), expected, "{fields:?}");
        }
    }
}
