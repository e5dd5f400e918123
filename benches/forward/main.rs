//! What a request through the proxy takes, in one process: beside the same asked of the origin without
//! a proxy, one at a time. `cargo bench --bench forward`.
//!
//! It tells of changes to our own work: threads wake each other for each request, which costs what the
//! machine likes. What a request costs beside other proxies: `benches/proxy`.

mod origin;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use courtesy::config::{Roots, Settings};
use courtesy::runtime::clock::SystemClock;
use courtesy::server::{Listeners, Server, build};
use criterion::{Criterion, criterion_group, criterion_main};
use tempfile::TempDir;

use origin::{BODY, DENIED, Origin};

fn requests(c: &mut Criterion) {
    let origin = Origin::start();
    let state = TempDir::new().expect("a directory");
    let proxy = proxy(&state);
    let through = proxy.addresses()[0];
    let target = |path: &str| format!("http://{}{path}", origin.address());

    let mut straight = Client::connect(origin.address(), "/page");
    c.bench_function("straight to the origin", |b| b.iter(|| straight.ask(200)));
    let mut forwarded = Client::connect(through, &target("/page"));
    c.bench_function("forwarded", |b| b.iter(|| forwarded.ask(200)));
    let mut denied = Client::connect(through, &target(DENIED));
    c.bench_function("denied, with its record", |b| b.iter(|| denied.ask(403)));
    c.bench_function("forwarded, a new connection each", |b| {
        b.iter(|| Client::connect(through, &target("/page")).ask(200));
    });
    proxy.stop();
}

/// One as it comes, but for loopback, which it may reach, and one worker.
fn proxy(state: &TempDir) -> Server {
    let mut settings =
        Settings { state_dir: state.path().into(), workers: Some(1), ..Settings::default() };
    settings.egress.allow = vec!["127.0.0.0/8".parse().expect("a block")];
    settings.tls.roots = Roots::Bundled;
    let listeners = Listeners::bind(&[(Ipv4Addr::LOCALHOST, 0).into()]).expect("a free port");
    let ca = settings.ca(None);
    let components =
        build(&settings, listeners.addresses(), ca, Arc::new(SystemClock)).expect("sound settings");
    Server::start(listeners, &components).expect("threads")
}

/// A kept connection, and what is asked on it again and again.
struct Client {
    stream: TcpStream,
    request: String,
    answer: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr, target: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("an option");
        let authority = target
            .strip_prefix("http://")
            .map_or("origin", |rest| &rest[..rest.find('/').unwrap_or(0)]);
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: ExampleBot/1.0\r\nAccept: */*\r\n\r\n"
        );
        Self { stream, request, answer: Vec::new() }
    }

    /// Asks, and reads the answer to its end, which must have this status.
    fn ask(&mut self, status: u16) {
        self.stream.write_all(self.request.as_bytes()).expect("it is read");
        self.answer.clear();
        while !is_whole(&self.answer) {
            let mut piece = [0; 16 << 10];
            let count = self.stream.read(&mut piece).expect("an answer");
            assert!(count > 0, "the connection ended within an answer");
            self.answer.extend_from_slice(&piece[..count]);
        }
        let begin = format!("HTTP/1.1 {status} ");
        assert!(self.answer.starts_with(begin.as_bytes()), "{}", self.answer.escape_ascii());
        assert!(status != 200 || self.answer.ends_with(BODY), "another page");
    }
}

/// Whether a head and as much content as it says are there.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|it| it == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|it| it.trim().parse().ok()).expect("a length");
    answer.len() >= end + 4 + length
}

criterion_group!(benches, requests);
criterion_main!(benches);
