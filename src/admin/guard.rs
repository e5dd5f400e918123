//! Who may see the pages of the console: a browser with a session, which a code or a token opens, or a request with
//! the operator's token. Another user of this machine may connect, and a web page may name this address; neither may
//! read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{COOKIE, HOST, HeaderMap, HeaderValue};
use http::{Method, Request, Version};
use sha2::{Digest, Sha256};

use super::token::{SecretTag, Token};
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

/// How long a session holds in all: a browser that polls would keep it for ever.
const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Wrong tokens, of all clients together, before none is looked at for a minute. Codes are not limited: 256 random bits
/// are not guessed, and a limit would let another user of this machine shut out who has a link.
const WRONG_TOKENS_MAX: u32 = 20;
const WRONG_TOKENS_TIME: Duration = Duration::from_secs(60);

/// What a visitor may do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees all but what is about persons: clients, users, and the queries of URLs.
    Viewer,
    /// Sees all, and acts.
    Operator,
}

/// Who sends a request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    pub role: Role,
    /// As the log names who acted: `session 3f2a91c0`, `token` or `open`.
    pub name: String,
}

/// Lets requests in that have a session, and others with a code or a token.
#[derive(Debug)]
pub struct Guard {
    address: SocketAddr,
    /// No session is needed.
    is_open: bool,
    /// The names by which browsers come here, beside those of this machine.
    origins: Vec<Origin>,
    operator: Arc<Token>,
    viewer: Arc<Token>,
    keys: Lock<GuardKeys>,
}

/// Codes and sessions, by the digests of what the browser has; the oldest first.
#[derive(Debug, Default)]
struct GuardKeys {
    codes: Vec<(String, Instant)>,
    sessions: Vec<Session>,
    wrong: u32,
    wrong_since: Option<Instant>,
}

/// A browser that was let in.
#[derive(Debug)]
struct Session {
    digest: String,
    role: Role,
    /// The token that let it in; another one ends it.
    token: Option<SecretTag>,
    /// When it ends without being used, and at the latest.
    idle_until: Instant,
    until: Instant,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum GuardRefusal {
    Host(HostError),
    NoSession,
    CrossSite,
}

/// What is wrong with `Host`.
#[derive(Debug, PartialEq, Eq)]
pub enum HostError {
    /// RFC 9112 §3.2.
    Malformed(&'static str),
    /// The name of another, which may be one that an attacker's DNS resolves to this machine.
    Other(String),
}

/// What a browser has to bring to be let in.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// Of a link, once.
    Code(&'a str),
    /// Of a token file.
    Token(&'a str),
}

impl Guard {
    /// Of a console at that address, to which only links lead. Nothing gets in yet.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            is_open: false,
            origins: Vec::new(),
            operator: Arc::default(),
            viewer: Arc::default(),
            keys: Lock::default(),
        }
    }

    /// The same, with tokens that let in, too.
    #[must_use]
    pub fn with_tokens(self, operator: Arc<Token>, viewer: Arc<Token>) -> Self {
        Self { operator, viewer, ..self }
    }

    /// The same, also by the names of `origins`; where it `is_open`, all who can connect are let in.
    #[must_use]
    pub fn at(self, origins: Vec<Origin>, is_open: bool) -> Self {
        Self { origins, is_open, ..self }
    }

    /// A link with a new code, which opens in one browser, once, for ten minutes. `courtesy.localhost` is loopback in
    /// every browser (RFC 6761 §6.3), and has cookies of its own.
    pub fn link(&self) -> String {
        let (ip, port) = (self.address.ip().to_canonical(), self.address.port());
        let is_local = ip.is_loopback() || ip.is_unspecified();
        let host =
            if is_local { format!("courtesy.localhost:{port}") } else { self.address.to_string() };
        format!("http://{host}/login?code={}", self.keys.lock().code(monotonic()))
    }

    /// Whether a token opens a session: there is one.
    pub fn takes_tokens(&self) -> bool {
        self.operator.is_asked() || self.viewer.is_asked()
    }

    /// The cookie of a new session, and who has it now. `None`: there is no such code or token, or too many wrong ones
    /// came.
    pub fn log_in(
        &self,
        credential: Credential<'_>,
        headers: &HeaderMap,
    ) -> Option<(String, Visitor)> {
        let now = monotonic();
        let mut keys = self.keys.lock();
        let (role, token) = match credential {
            Credential::Code(code) => {
                keys.spend(code, now).then_some(())?;
                (Role::Operator, None)
            }
            Credential::Token(text) => {
                keys.takes_tokens(now).then_some(())?;
                let of = |token: &Token, role| token.tag_of(text).map(|tag| (role, Some(tag)));
                let found =
                    of(&self.operator, Role::Operator).or_else(|| of(&self.viewer, Role::Viewer));
                if found.is_none() {
                    keys.note_wrong(now);
                }
                found?
            }
        };
        let session = keys.begin(role, token, now);
        let cookie = self.cookie(headers, &session, "");
        Some((cookie, Visitor { role, name: session_name(&session) }))
    }

    /// Ends the session of a request; the field that takes its cookie away.
    pub fn log_out(&self, headers: &HeaderMap) -> String {
        if let Some(session) = self.session(headers) {
            self.keys.lock().end(session);
        }
        self.cookie(headers, "", "; Max-Age=0")
    }

    /// Sessions that hold.
    pub fn session_count(&self) -> usize {
        let now = monotonic();
        self.keys.lock().sessions.iter().filter(|it| it.holds(now)).count()
    }

    /// The field for it. One that came by https is sent by https alone, and to this host alone.
    fn cookie(&self, headers: &HeaderMap, value: &str, more: &str) -> String {
        let name = self.cookie_name(headers);
        let secure = if self.is_https(headers) { "; Secure" } else { "" };
        format!("{name}={value}; HttpOnly; SameSite=Lax; Path=/{secure}{more}")
    }

    /// A cookie is sent to all ports of a host, so its name has the port.
    fn cookie_name(&self, headers: &HeaderMap) -> String {
        let prefix = if self.is_https(headers) { "__Host-" } else { "" };
        format!("{prefix}courtesy-{}", self.address.port())
    }

    /// Whether the browser came by https: what ends TLS before this is named in the settings.
    fn is_https(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|field| field.to_str().ok()).unwrap_or_default();
        self.listed(host).is_some_and(|origin| origin.scheme() == Scheme::Https)
    }

    fn listed(&self, authority: &str) -> Option<&Origin> {
        self.origins.iter().find(|origin| {
            Origin::from_authority(origin.scheme(), authority).is_ok_and(|it| it == **origin)
        })
    }

    fn session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name(headers);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
        let mut pairs = cookies.flat_map(|field| field.split(';'));
        pairs.find_map(|pair| pair.trim().strip_prefix(name.as_str())?.strip_prefix('='))
    }

    /// Who sends a request; `None`: it is one that logs in.
    ///
    /// # Errors
    ///
    /// It is not let in.
    pub fn check<B>(&self, request: &Request<B>) -> Result<Option<Visitor>, GuardRefusal> {
        let headers = request.headers();
        // A request with the token cannot be DNS rebinding, nor a form of another site.
        if let Some(program) = self.by_token(headers) {
            return Ok(Some(program));
        }
        self.check_host(request).map_err(GuardRefusal::Host)?;
        if *request.method() == Method::POST && !self.is_same_site(headers) {
            return Err(GuardRefusal::CrossSite);
        }
        match (self.visitor(headers), request.uri().path()) {
            (Some(visitor), _) => Ok(Some(visitor)),
            (None, "/login") => Ok(None),
            (None, _) => Err(GuardRefusal::NoSession),
        }
    }

    /// Who brings these fields, whatever is asked for; its session is used by that.
    pub fn visitor(&self, headers: &HeaderMap) -> Option<Visitor> {
        let by_session = || {
            let session = self.session(headers)?;
            let role = self.keys.lock().role(session, self, monotonic())?;
            Some(Visitor { role, name: session_name(session) })
        };
        let by_default =
            || self.is_open.then(|| Visitor { role: Role::Operator, name: "open".into() });
        self.by_token(headers).or_else(by_session).or_else(by_default)
    }

    fn by_token(&self, headers: &HeaderMap) -> Option<Visitor> {
        let has_token = self.operator.is_asked() && self.operator.is_in(headers);
        has_token.then(|| Visitor { role: Role::Operator, name: "token".into() })
    }

    /// Accepts a `Host` that is an address, `localhost` or a name below it, or one that is listed. Another name may be
    /// one that an attacker's DNS resolves to this machine. The port may be any: it is another where it is forwarded.
    /// There is one `Host` (RFC 9112 §3.2); HTTP/1.0 has none, and browsers do not speak it.
    ///
    /// # Errors
    ///
    /// It is another, or malformed.
    pub fn check_host<B>(&self, request: &Request<B>) -> Result<(), HostError> {
        let mut fields = request.headers().get_all(HOST).iter();
        let authority = match (request.uri().authority(), fields.next()) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(field)) => field.to_str().map_err(|_| HostError::Malformed("malformed"))?,
            (None, None) if request.version() < Version::HTTP_11 => return Ok(()),
            (None, None) => return Err(HostError::Malformed("missing")),
        };
        if fields.next().is_some() {
            return Err(HostError::Malformed("given twice"));
        }
        if self.listed(authority).is_some() {
            return Ok(());
        }
        let origin = Origin::from_authority(Scheme::Http, authority);
        let origin = origin.map_err(|_| HostError::Malformed("malformed"))?;
        match origin.host() {
            Host::V4(_) | Host::V6(_) => Ok(()),
            Host::Name(name) if **name == *"localhost" || name.ends_with(".localhost") => Ok(()),
            host => Err(HostError::Other(host.to_string())),
        }
    }

    /// A form of this console, or of no page at all (Fetch Metadata, §2.3). A browser without these fields sends
    /// `Origin`.
    fn is_same_site(&self, headers: &HeaderMap) -> bool {
        let text = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
        match (text("sec-fetch-site"), text("origin")) {
            (Some(site), _) => matches!(site, b"same-origin" | b"none"),
            (None, Some(origin)) => {
                let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
                let scheme: &[u8] = if self.is_https(headers) { b"https://" } else { b"http://" };
                origin.strip_prefix(scheme) == Some(host)
            }
            (None, None) => false,
        }
    }
}

impl Session {
    fn holds(&self, now: Instant) -> bool {
        now < self.idle_until && now < self.until
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

    /// Whether a token is looked at.
    fn takes_tokens(&mut self, now: Instant) -> bool {
        if self.wrong_since.is_some_and(|since| now.duration_since(since) >= WRONG_TOKENS_TIME) {
            (self.wrong, self.wrong_since) = (0, None);
        }
        self.wrong < WRONG_TOKENS_MAX
    }

    fn note_wrong(&mut self, now: Instant) {
        self.wrong += 1;
        self.wrong_since.get_or_insert(now);
    }

    /// Whether there is that code, which is used by that.
    fn spend(&mut self, code: &str, now: Instant) -> bool {
        let wanted = digest(code);
        let found = self.codes.iter().position(|(code, until)| *code == wanted && now < *until);
        found.map(|at| self.codes.remove(at)).is_some()
    }

    /// A new session.
    fn begin(&mut self, role: Role, token: Option<SecretTag>, now: Instant) -> String {
        let session = secret();
        self.sessions.retain(|it| it.holds(now));
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.remove(0);
        }
        self.sessions.push(Session {
            digest: digest(&session),
            role,
            token,
            idle_until: now + SESSION_IDLE,
            until: now + SESSION_LIFETIME,
        });
        session
    }

    /// What that session may do, which is used by that.
    fn role(&mut self, session: &str, guard: &Guard, now: Instant) -> Option<Role> {
        let wanted = digest(session);
        let known = self.sessions.iter_mut().find(|known| known.digest == wanted)?;
        let is_of_token = |token: &SecretTag| match known.role {
            Role::Operator => guard.operator.has_tag(token),
            Role::Viewer => guard.viewer.has_tag(token),
        };
        if !known.holds(now) || !known.token.as_ref().is_none_or(is_of_token) {
            return None;
        }
        known.idle_until = now + SESSION_IDLE;
        Some(known.role)
    }

    fn end(&mut self, session: &str) {
        let wanted = digest(session);
        self.sessions.retain(|known| known.digest != wanted);
    }
}

/// A session as the log names it: the log must not open anything.
fn session_name(session: &str) -> String {
    format!("session {}", &digest(session)[..8])
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
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::token::Secret;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4000);

    fn request(method: Method, target: &str, fields: &[(&'static str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        request(Method::GET, "/", fields).headers().clone()
    }

    fn secret_of(text: &str) -> Option<Secret> {
        Some(Secret::of(text))
    }

    /// A listener with both tokens, which browsers also reach as https://courtesy.example.
    fn guard() -> Guard {
        let [operator, viewer] = [Token::default(), Token::default()].map(Arc::new);
        operator.change(secret_of("operators-secret"));
        viewer.change(secret_of("viewers-secret-1"));
        let origin = Origin::from_authority(Scheme::Https, "courtesy.example").unwrap();
        Guard::new(ADDRESS).with_tokens(operator, viewer).at(vec![origin], false)
    }

    fn role(guard: &Guard, session: &str, now: Instant) -> Option<Role> {
        guard.keys.lock().role(session, guard, now)
    }

    #[test]
    fn a_code_opens_one_session_within_its_time() {
        let (mut keys, now) = (GuardKeys::default(), monotonic());
        let code = keys.code(now);
        assert!(keys.spend(&code, now + CODE_LIFETIME - SECOND));
        assert!(!keys.spend(&code, now), "it was used");
        let late = keys.code(now);
        assert!(!keys.spend(&late, now + CODE_LIFETIME));
    }

    #[test]
    fn a_code_more_takes_the_place_of_the_oldest() {
        let (mut keys, now) = (GuardKeys::default(), monotonic());
        let codes: Vec<_> = (0..=CODES_MAX).map(|_| keys.code(now)).collect();
        let opens: Vec<_> = codes.iter().map(|code| keys.spend(code, now)).collect();
        assert!(!opens[0] && opens[1..].iter().all(|opens| *opens), "{opens:?}");
    }

    #[test]
    fn a_session_more_takes_the_place_of_the_oldest() {
        let (guard, now) = (guard(), monotonic());
        let session = || guard.keys.lock().begin(Role::Operator, None, now);
        let sessions: Vec<_> = (0..=SESSIONS_MAX).map(|_| session()).collect();
        let holds: Vec<_> = sessions.iter().map(|it| role(&guard, it, now).is_some()).collect();
        assert!(!holds[0] && holds[1..].iter().all(|holds| *holds), "{holds:?}");
    }

    #[test]
    fn a_session_holds_while_it_is_used_for_a_day_and_until_it_is_ended() {
        let (guard, start) = (guard(), monotonic());
        let begin = || guard.keys.lock().begin(Role::Operator, None, start);
        let (used, idle, ended) = (begin(), begin(), begin());
        guard.keys.lock().end(&ended);
        assert_eq!(role(&guard, &ended, start), None);
        assert_eq!(role(&guard, "", start), None);
        for _ in 0..2 {
            assert_eq!(
                role(&guard, &idle, start + SESSION_IDLE),
                None,
                "asking does not revive it"
            );
        }
        let mut now = start;
        while now + SESSION_IDLE - SECOND < start + SESSION_LIFETIME {
            now += SESSION_IDLE - SECOND;
            assert_eq!(role(&guard, &used, now), Some(Role::Operator));
        }
        assert_eq!(role(&guard, &used, start + SESSION_LIFETIME), None);
    }

    #[test]
    fn each_token_opens_a_session_of_its_role_until_it_is_changed() {
        let (guard, none) = (guard(), headers(&[]));
        for (text, expected, other) in [
            ("operators-secret", Role::Operator, &guard.operator),
            (" viewers-secret-1\n", Role::Viewer, &guard.viewer),
        ] {
            let (cookie, visitor) = guard.log_in(Credential::Token(text), &none).unwrap();
            let session = cookie.strip_prefix("courtesy-4000=").unwrap().split(';').next().unwrap();
            assert_eq!(visitor.role, expected);
            assert!(!session.contains(visitor.name.strip_prefix("session ").unwrap()));
            assert_eq!(role(&guard, session, monotonic()), Some(expected));
            other.change(secret_of("another-secret-of-16"));
            assert_eq!(role(&guard, session, monotonic()), None);
        }
        assert_eq!(guard.log_in(Credential::Token(""), &none), None);
    }

    #[test]
    fn wrong_tokens_are_limited_for_a_time_and_shut_out_no_code() {
        let (guard, none) = (guard(), headers(&[]));
        for _ in 0..WRONG_TOKENS_MAX {
            assert_eq!(guard.log_in(Credential::Token("wrong-secret-of-16"), &none), None);
        }
        assert_eq!(guard.log_in(Credential::Token("operators-secret"), &none), None);
        let link = guard.link();
        let code = link.strip_prefix("http://courtesy.localhost:4000/login?code=").unwrap();
        assert!(guard.log_in(Credential::Code(code), &none).is_some());
        let mut keys = guard.keys.lock();
        let now = monotonic();
        assert!(!keys.takes_tokens(now) && keys.takes_tokens(now + WRONG_TOKENS_TIME));
    }

    #[test]
    fn only_addresses_names_of_this_machine_and_listed_ones_are_its_hosts() {
        let other = |name: &str| Err(HostError::Other(name.into()));
        for (host, expected) in [
            ("courtesy.localhost:4000", Ok(())),
            ("localhost:4001", Ok(())),
            ("LOCALHOST", Ok(())),
            ("127.0.0.1:4000", Ok(())),
            ("[::1]:4000", Ok(())),
            ("courtesy.example", Ok(())),
            ("courtesy.example:443", Ok(())),
            ("courtesy.example:80", other("courtesy.example")),
            ("localhost.evil.example:4000", other("localhost.evil.example")),
            ("evillocalhost:4000", other("evillocalhost")),
            ("127.0.0.1.evil.example:4000", other("127.0.0.1.evil.example")),
        ] {
            let asked = request(Method::GET, "/", &[("host", host)]);
            assert_eq!(guard().check_host(&asked), expected, "{host}");
        }
        let own = ("host", "localhost:4000");
        let check =
            |target: &str, fields: &[_]| guard().check_host(&request(Method::GET, target, fields));
        assert_eq!(check("http://localhost:4000/", &[own]), Ok(()));
        assert_eq!(check("http://evil.example/", &[own]), other("evil.example"));
        assert_eq!(check("/", &[own, own]), Err(HostError::Malformed("given twice")));
        assert_eq!(check("/", &[]), Err(HostError::Malformed("missing")));
        let mut of_http_10 = request(Method::GET, "/", &[]);
        *of_http_10.version_mut() = Version::HTTP_10;
        assert_eq!(guard().check_host(&of_http_10), Ok(()));
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
            let asked = request(Method::GET, "/metrics", &[("host", host)]);
            assert_eq!(
                guard().check_host(&asked),
                Err(HostError::Malformed("malformed")),
                "{host:?}"
            );
        }
    }

    #[test]
    fn a_form_is_taken_from_the_console_alone() {
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
            let host = [("host", "localhost:4000")];
            let fields: Vec<_> = fields.iter().chain(&host).copied().collect();
            assert_eq!(guard().is_same_site(&headers(&fields)), is_same, "{fields:?}");
        }
        let host = ("host", "courtesy.example");
        for (origin, is_same) in
            [("https://courtesy.example", true), ("http://courtesy.example", false)]
        {
            assert_eq!(guard().is_same_site(&headers(&[host, ("origin", origin)])), is_same);
        }
    }

    #[test]
    fn a_request_is_let_in_by_its_session_or_by_the_operators_token() {
        let guard = guard();
        let own = ("host", "localhost:4000");
        let get = |fields: &[_]| guard.check(&request(Method::GET, "/records", fields));
        assert_eq!(get(&[own]), Err(GuardRefusal::NoSession));
        assert_eq!(get(&[own, ("cookie", "courtesy-4000=ab")]), Err(GuardRefusal::NoSession));
        let (cookie, visitor) =
            guard.log_in(Credential::Token("viewers-secret-1"), &headers(&[own])).unwrap();
        let cookie = cookie.split(';').next().unwrap();
        assert_eq!(get(&[own, ("cookie", cookie)]), Ok(Some(visitor)));
        let post = request(Method::POST, "/logout", &[own, ("cookie", cookie)]);
        assert_eq!(guard.check(&post), Err(GuardRefusal::CrossSite));
        let bearer = ("authorization", "Bearer operators-secret");
        let by_token = Ok(Some(Visitor { role: Role::Operator, name: "token".into() }));
        assert_eq!(get(&[("host", "evil.example"), bearer]), by_token);
        assert_eq!(
            get(&[own, ("authorization", "Bearer viewers-secret-1")]),
            Err(GuardRefusal::NoSession)
        );
        assert_eq!(guard.check(&request(Method::GET, "/login", &[own])), Ok(None));
        let open = Guard::new(ADDRESS).at(Vec::new(), true);
        let anyone = open.check(&request(Method::GET, "/", &[own])).unwrap().unwrap();
        assert_eq!((anyone.role, &*anyone.name), (Role::Operator, "open"));
    }

    #[test]
    fn a_cookie_is_found_among_others_and_is_of_https_where_that_is_listed() {
        let guard = guard();
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
        let by_https = headers(&[("host", "courtesy.example")]);
        let (cookie, _) = guard.log_in(Credential::Token("viewers-secret-1"), &by_https).unwrap();
        assert!(cookie.starts_with("__Host-courtesy-4000=") && cookie.contains("; Path=/; Secure"));
    }
}
