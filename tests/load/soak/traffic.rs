//! Who sends what: one thread for each kind, session after session.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use rustls::ClientConfig;

use crate::site::{LARGE_BYTES, PAGE_FAULTS, ROBOTS_FAULTS, Site};
use crate::testkit::parties::{Client, H2, Response, connect, request, tls};

/// A session, the n-th of its kind.
pub type Session = fn(&Field, usize);

pub const TRAFFIC: [Session; 16] = [
    ordinary,
    ordinary,
    ordinary,
    ordinary,
    intercepted,
    intercepted,
    multiplexed,
    uploads,
    robots_faults,
    robots_faults,
    page_faults,
    slow,
    leaving,
    unknown_names,
    half_said,
    no_http,
];

/// Exchanges in a session that goes well.
const EXCHANGES: usize = 100;

/// Origins of each kind.
const ORIGINS: usize = 40;

/// What the traffic goes through and to, and what came of it.
pub struct Field {
    pub plain: Site,
    pub secure: Site,
    proxy: SocketAddr,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    /// The records that denials named.
    denied: Mutex<Vec<String>>,
    answered: AtomicUsize,
    over: AtomicBool,
}

impl Field {
    pub fn new(proxy: SocketAddr, plain: Site, secure: Site, trust: String) -> Self {
        let [http1, http2] = ["http/1.1", "h2"].map(|alpn| tls::trusting_today(&trust, &[alpn]));
        let (denied, answered, over) =
            (Mutex::default(), AtomicUsize::new(0), AtomicBool::new(false));
        Self { plain, secure, proxy, http1, http2, denied, answered, over }
    }

    /// Session after session, until it is over. A panic ends it for all.
    pub fn send(&self, session: Session) {
        struct Bell<'a>(&'a Field);
        impl Drop for Bell<'_> {
            fn drop(&mut self) {
                self.0.finish();
            }
        }
        let bell = Bell(self);
        let mut turn = 0;
        while !self.is_over() {
            session(self, turn);
            turn += 1;
        }
        drop(bell);
    }

    pub fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    pub fn denials(&self) -> usize {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn denied(&self) -> Vec<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn client(&self) -> Client {
        Client::connect(self.proxy)
    }

    /// Lets some time pass, unless it is over.
    fn pause(&self, milliseconds: u64) {
        let end = monotonic() + Duration::from_millis(milliseconds);
        while !self.is_over() {
            let left = end.saturating_duration_since(monotonic());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left.min(Duration::from_millis(100)));
        }
    }

    /// Counts an answer; a denial has a record, and nothing else has one.
    #[track_caller]
    fn note(&self, status: u16, record: Option<&str>) {
        self.answered.fetch_add(1, Ordering::SeqCst);
        assert_eq!(status == 403, record.is_some(), "{status} {record:?}");
        if let Some(record) = record {
            self.denied.lock().unwrap_or_else(PoisonError::into_inner).push(record.to_owned());
        }
    }

    #[track_caller]
    fn expect(&self, response: &Response, status: u16) {
        self.note(response.status(), response.field("courtesy-record"));
        assert_eq!(response.status(), status, "{}{}", response.head.0, response.text());
    }
}

/// What a session asks for in turn, and what it is told.
fn paths() -> impl Iterator<Item = (&'static str, u16)> {
    [("/open", 200), ("/private/a", 403), ("/robots.txt", 200)].into_iter().cycle().take(EXCHANGES)
}

fn host(turn: usize) -> u8 {
    u8::try_from(turn % ORIGINS + 1).expect("a few dozens")
}

fn ordinary(field: &Field, turn: usize) {
    let mut client = field.client();
    for (number, (path, status)) in paths().enumerate() {
        field.expect(&client.get(&field.plain.url(1, host(turn + number), path)), status);
        field.pause(5);
    }
}

fn intercepted(field: &Field, turn: usize) {
    let name = tls::NAMES[turn % tls::NAMES.len()];
    let authority = format!("{name}:{}", field.secure.port());
    let tunnel = field.client().tunnel(&authority);
    let mut client = tunnel.secured(Arc::clone(&field.http1), name).expect("a handshake");
    for (path, status) in paths() {
        field.expect(&client.get(path), status);
        field.pause(5);
    }
    // A page that breaks off.
    client.ask("GET", "/reset-body", "");
    assert!(client.try_read("GET").is_err(), "it looks whole");
}

fn multiplexed(field: &Field, turn: usize) {
    let name = tls::NAMES[turn % tls::NAMES.len()];
    let authority = format!("{name}:{}", field.secure.port());
    let tunnel = field.client().tunnel(&authority).into_tcp();
    let client = H2::start(tunnel, Arc::clone(&field.http2), &authority);
    let under_way: Vec<_> =
        paths().map(|(path, status)| (client.ask(client.request("GET", path)), status)).collect();
    for (stream, status) in under_way {
        let answer = client.answer(stream);
        field.note(answer.status, answer.field("courtesy-record"));
        assert_eq!(answer.status, status);
    }
    field.pause(500);
}

fn uploads(field: &Field, turn: usize) {
    let body = "x".repeat(16 << 10);
    for (path, status) in [("/open", 200), ("/private/a", 403)] {
        let url = field.plain.url(1, host(turn), path);
        let head = request("POST", &url, &format!("Content-Length: {}\r\n", body.len()));
        let mut client = field.client();
        // One that is denied need not be read to its end.
        let _ = client.try_send([head, body.clone()].concat());
        field.expect(&client.read_to("POST"), status);
    }
    field.pause(100);
}

fn robots_faults(field: &Field, turn: usize) {
    let (number, turn) = (turn % ROBOTS_FAULTS.len(), turn / ROBOTS_FAULTS.len());
    let network = u8::try_from(2 + number).expect("a few");
    // Behind too many redirects everything is allowed (RFC 9309 §2.3.1.2).
    let is_open = turn.is_multiple_of(2) || ROBOTS_FAULTS[number] == "redirects to itself";
    let path = if is_open { "/open" } else { "/private/a" };
    let response = field.client().get(&field.plain.url(network, host(turn), path));
    // Where there are rules, it may still not have been in time.
    let status = if is_open && number >= 5 && response.status() != 403 { 200 } else { 403 };
    field.expect(&response, status);
    field.pause(50);
}

fn page_faults(field: &Field, turn: usize) {
    let path = PAGE_FAULTS[turn % PAGE_FAULTS.len()];
    let mut client = field.client();
    client.ask("GET", &field.plain.url(1, host(turn), path), "");
    if let Ok(response) = client.try_read("GET") {
        field.expect(&response, 502);
    }
    field.pause(20);
}

fn slow(field: &Field, turn: usize) {
    let mut client = field.client();
    field.expect(&client.get(&field.plain.url(1, host(turn), "/slow")), 200);
    let large = client.get(&field.plain.url(1, host(turn), "/large"));
    field.expect(&large, 200);
    assert_eq!(large.body.len(), LARGE_BYTES);
    field.pause(100);
}

/// Clients that leave while they are being answered, politely or not.
fn leaving(field: &Field, turn: usize) {
    let path = if turn.is_multiple_of(2) { "/slow" } else { "/large" };
    let mut client = field.client();
    client.ask("GET", &field.plain.url(1, host(turn), path), "");
    if turn.is_multiple_of(3) {
        client.read_bytes(100);
    }
    field.pause(20);
    if turn % 4 < 2 {
        client.reset();
    }
}

fn unknown_names(field: &Field, turn: usize) {
    let mut client = field.client();
    let response = client.get(&format!("http://nobody-{}.invalid/open", turn % ORIGINS));
    field.note(response.status(), response.field("courtesy-record"));
    assert!([403, 502, 504].contains(&response.status()), "{}", response.head.0);
    field.pause(300);
}

/// Heads and handshakes that come to no end: some clients wait for what is said of it, others leave.
fn half_said(field: &Field, turn: usize) {
    let url = field.plain.url(1, host(turn), "/open");
    let authority = format!("localhost:{}", field.secure.port());
    let mut client = match turn % 4 {
        0 => field.client(),
        1 => {
            let mut client = field.client();
            client.send(&request("GET", &url, "")[..40]);
            client
        }
        2 => {
            let mut client = field.client();
            client
                .send([request("POST", &url, "Content-Length: 1000\r\n").as_str(), "abc"].concat());
            client
        }
        _ => {
            let mut client = field.client().tunnel(&authority);
            let hello = tls::Handshake::new(Arc::clone(&field.http1), "localhost").hello();
            client.send(&hello[..100]);
            client
        }
    };
    match turn % 3 {
        0 => drop(client),
        1 => client.reset(),
        _ => {
            client.finish_sending();
            client.read_rest();
        }
    }
    field.pause(20);
}

/// What no proxy should be sent.
fn no_http(field: &Field, turn: usize) {
    let bytes = match turn % 5 {
        0 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        1 => b"GET /open HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_vec(),
        2 => (0..=255).cycle().take(4000).collect(),
        3 => connect("nobody:0", "").into_bytes(),
        _ => request("GET", &field.plain.url(1, 1, "/open"), "X : y\r\n").into_bytes(),
    };
    let mut client = field.client();
    // It may have been refused before its end.
    let _ = client.try_send(bytes);
    client.finish_sending();
    let _ = client.try_read("GET");
    field.pause(20);
}
