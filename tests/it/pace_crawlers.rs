//! Eight crawlers at one origin, of both HTTP versions and on kept and new connections: when their
//! requests reach it, by its own clock.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use courtesy::runtime::clock::monotonic;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::pace::relay;
use crate::testkit::parties::{Origin, Proxy, Script, answer, tls};
use crate::testkit::spacing::assert_spaced;

const DELAY: Duration = Duration::from_millis(500);
const ROBOTS: &str = "User-agent: *\nCrawl-delay: 0.5\n";
/// The share of what the delay allows that a lane with waiting requests uses, on a machine that does
/// other work, too; `pace_hour` asserts it to a start, in virtual time.
const USE_MIN: f64 = 0.9;
/// One round of so many is little disturbed by other work.
const ROUNDS: usize = 3;

/// How a crawler connects.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Http1Kept,
    Http1New,
    Http2Kept,
    Http2New,
}

const CRAWLERS: [Kind; 8] = [
    Kind::Http1Kept,
    Kind::Http1New,
    Kind::Http2Kept,
    Kind::Http2New,
    Kind::Http1Kept,
    Kind::Http1New,
    Kind::Http2Kept,
    Kind::Http2New,
];

/// Gets so many pages.
fn crawl(proxy: &Proxy, authority: &str, kind: Kind, pages: usize) {
    let url = |page: usize| format!("https://{authority}/{page}");
    match kind {
        Kind::Http1Kept => {
            let mut client = proxy.https(authority);
            (0..pages).for_each(|page| assert_eq!(client.get(&url(page)).status(), 200));
        }
        Kind::Http1New => (0..pages).for_each(|page| {
            assert_eq!(proxy.https(authority).get(&url(page)).status(), 200);
        }),
        Kind::Http2Kept => {
            let client = proxy.h2(authority);
            let ask = |page| client.ask(client.request("GET", &format!("/{page}")));
            let streams: Vec<_> = (0..pages).map(ask).collect();
            streams.into_iter().for_each(|stream| assert_eq!(client.answer(stream).status, 200));
        }
        Kind::Http2New => (0..pages).for_each(|page| {
            assert_eq!(proxy.h2(authority).get(&format!("/{page}")).status, 200);
        }),
    }
}

fn crawl_all(proxy: &Proxy, authority: &str, pages: usize) {
    thread::scope(|scope| {
        for kind in CRAWLERS {
            scope.spawn(move || crawl(proxy, authority, kind, pages));
        }
    });
}

/// Asserts that so many arrivals since `begin` are a delay apart; the share of it that was used.
#[track_caller]
fn share_used(begin: Instant, arrivals: &[Instant], count: usize) -> f64 {
    assert_eq!(arrivals.len(), count);
    assert_spaced(begin, arrivals, DELAY);
    let length = arrivals[count - 1] - arrivals[0];
    (DELAY * (count - 1) as u32).as_secs_f64() / length.as_secs_f64()
}

/// An origin that closes a connection after each other response, with a word or without.
fn closing() -> Origin {
    let told = Script::default().send(answer(200, "Connection: close\r\n", "")).close();
    let untold = Script::default().send(answer(200, "", "")).close();
    Origin::secure().robots(ROBOTS).on("/0", told).on("/1", untold)
}

#[test]
fn crawlers_of_every_kind_start_a_delay_apart_whatever_handshakes_take() {
    let (origin, end) = (closing(), AtomicBool::new(false));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        relay(scope, &listener, origin.address(), &end);
        let proxy = Proxy::before(&[&origin], |settings| {
            settings.egress.connect_ports.push(address.port());
        });
        crawl_all(&proxy, &address.to_string(), 2);
        end.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(address));
    });
    let begin = origin.log().requests[0].at;
    share_used(begin, &origin.arrivals(), 16);
}

#[test]
fn crawlers_of_every_kind_use_what_the_delay_allows() {
    let shares = (0..ROUNDS).map(|_| {
        let told = Script::default().send(answer(200, "Connection: close\r\n", "")).close();
        let origin = Origin::secure().robots(ROBOTS).on("/0", told);
        let proxy = Proxy::before(&[&origin], |_| {});
        let begin = monotonic();
        crawl_all(&proxy, &origin.authority(), 2);
        share_used(begin, &origin.arrivals(), 16)
    });
    assert_used(shares);
}

#[test]
fn an_origin_of_http_2_is_asked_a_delay_apart_and_as_often_as_it_allows() {
    let shares = (0..ROUNDS).map(|_| {
        let site = Http2Site::start();
        let proxy = Proxy::before(&[], |settings| {
            settings.egress.connect_ports.push(site.address.port());
            let file = settings.state_dir.join("origins.pem");
            std::fs::write(&file, tls::origins_ca()).expect("a directory");
        });
        let begin = monotonic();
        crawl_all(&proxy, &site.address.to_string(), 2);
        let arrivals = site.arrivals.lock().unwrap().clone();
        share_used(begin, &arrivals, 16)
    });
    assert_used(shares);
}

#[track_caller]
fn assert_used(mut shares: impl Iterator<Item = f64>) {
    let mut seen = Vec::new();
    let is_used = shares.any(|share| {
        seen.push(share);
        share >= USE_MIN
    });
    println!("shares of what the delay allows: {seen:?}");
    assert!(is_used, "{seen:?}");
}

/// An origin that speaks HTTP/2 alone, and notes when pages are requested.
struct Http2Site {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    /// Ends with it.
    _runtime: Runtime,
}

impl Http2Site {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let arrivals = Arc::<Mutex<Vec<Instant>>>::default();
        let mut config = (*tls::origin_config()).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (acceptor, noted) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(&arrivals));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request: http::Request<_>| {
                        let body = answered(request.uri().path(), &noted);
                        async move { Ok::<_, Infallible>(Response::new(body)) }
                    });
                    let server = http2::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, arrivals, _runtime: runtime }
    }
}

fn answered(path: &str, arrivals: &Mutex<Vec<Instant>>) -> Full<Bytes> {
    if path == "/robots.txt" {
        return ROBOTS.into();
    }
    arrivals.lock().expect("no panic").push(monotonic());
    Full::default()
}
