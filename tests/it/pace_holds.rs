//! What makes an origin held, over HTTP/1.1 and HTTP/2: each row of the table in the book
//! (`docs/reference/pace.md`, "Holds"), by what a request right after it is told.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use courtesy::config::{ProfileName, Settings};
use h2::Reason;
use http::{Response, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::testkit::parties::{Client, H2, Origin, Proxy, Script, answer, tls, until};

/// Beyond every hold, and every memory of failures.
const LATER: Duration = Duration::from_secs(3 * 60 * 60);
const DATE: (&str, &str) = ("date", "Thu, 01 Jan 2026 00:00:00 GMT");

/// A response, whose habit it is or where it stands, and the hold that it asks for in seconds.
type Row = (&'static str, u16, &'static [(&'static str, &'static str)], Option<u64>);

const ROWS: &[Row] = &[
    ("Retry-After of a 429 (RFC 6585 §4)", 429, &[("retry-after", "30")], Some(30)),
    ("Retry-After of a 503 (RFC 9110 §15.6.4)", 503, &[("retry-after", "30")], Some(30)),
    ("a date", 503, &[DATE, ("retry-after", "Thu, 01 Jan 2026 00:01:00 GMT")], Some(60)),
    ("a firewall", 403, &[("retry-after", "30")], Some(30)),
    ("too large for now (RFC 9110 §15.5.14)", 413, &[("retry-after", "30")], Some(30)),
    ("Twitter of old", 420, &[("retry-after", "30")], Some(30)),
    ("Apache, out of bandwidth", 509, &[("retry-after", "30")], Some(30)),
    ("Qualys, overloaded", 529, &[("retry-after", "30")], Some(30)),
    ("Cloudflare, frozen", 530, &[("retry-after", "30")], Some(30)),
    ("a gateway", 502, &[("retry-after", "30")], Some(30)),
    ("a gateway", 504, &[("retry-after", "30")], Some(30)),
    ("a redirection (RFC 9110 §10.2.3)", 302, &[("retry-after", "30")], Some(30)),
    ("a page that has moved", 301, &[("retry-after", "30")], Some(30)),
    ("a page that is the same", 304, &[("retry-after", "30")], Some(30)),
    ("a redirection after a second", 307, &[("retry-after", "1")], None),
    ("noise", 200, &[("retry-after", "30")], None),
    ("noise", 202, &[("retry-after", "30")], None),
    ("noise", 401, &[("retry-after", "30")], None),
    ("noise", 404, &[("retry-after", "30")], None),
    ("noise", 410, &[("retry-after", "30")], None),
    ("noise", 500, &[("retry-after", "30")], None),
    ("a year", 429, &[("retry-after", "31536000")], Some(3600)),
    ("no time", 429, &[], Some(100)),
    ("no time", 503, &[], Some(10)),
    ("draft 11", 200, &[("ratelimit", "\"a\";r=0;t=30")], Some(30)),
    ("draft 11, a fraction", 200, &[("ratelimit", "\"a\";r=0;t=29.5")], Some(30)),
    (
        "draft 7, its window",
        200,
        &[("ratelimit", "limit=9, remaining=0"), ("ratelimit-policy", "9;w=30")],
        Some(30),
    ),
    ("draft 7", 200, &[("ratelimit", "limit=9, remaining=0, reset=30")], Some(30)),
    ("draft 6", 200, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "30")], Some(30)),
    ("some left", 200, &[("ratelimit-remaining", "70"), ("ratelimit-reset", "30")], None),
    ("seconds", 200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")], Some(30)),
    ("a fraction", 200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "29.5")], Some(30)),
    (
        "an epoch",
        200,
        &[DATE, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225630")],
        Some(30),
    ),
    (
        "Twitter",
        200,
        &[DATE, ("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1767225630")],
        Some(30),
    ),
    (
        "an epoch in milliseconds",
        200,
        &[DATE, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225630000")],
        Some(30),
    ),
    (
        "a date",
        200,
        &[
            DATE,
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "Thu, 01 Jan 2026 00:00:30 GMT"),
        ],
        Some(30),
    ),
    ("of a denial", 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")], Some(30)),
    (
        "a far epoch",
        200,
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9999999999")],
        Some(3600),
    ),
];

/// What is told to a request that does not wait.
#[derive(Debug)]
struct Told {
    status: u16,
    retry_after: Option<u64>,
}

/// Asserts that a row holds; `ask` requests a path without patience.
#[track_caller]
fn assert_row((whose, status, fields, hold): &Row, path: &str, ask: impl Fn(&str) -> Told) {
    assert_eq!(ask(path).status, *status, "{whose} {status}");
    let told = ask("/after");
    match hold {
        None => assert_eq!(told.status, 200, "{whose} {status} {fields:?}"),
        Some(hold) => {
            let held = if *status < 500 { 429 } else { 503 };
            assert_eq!(told.status, held, "{whose} {status} {fields:?}");
            let after = told.retry_after.expect("a time");
            assert_hold(after, *hold, whose);
        }
    }
}

/// A back-off has a random tenth, and some of the time is over.
#[track_caller]
fn assert_hold(after: u64, hold: u64, what: &str) {
    assert!((hold / 2..=hold + hold / 10 + 1).contains(&after), "{what}: {after} of {hold}");
}

/// Holds that are longer than a slow machine takes for a request.
fn with_long_holds(settings: &mut Settings) {
    settings.pace.backoff_min = Duration::from_secs(100);
}

fn impatient(proxy: &Proxy, url: &str) -> Told {
    told(&mut proxy.client(), url)
}

fn told(client: &mut Client, url: &str) -> Told {
    let response = client.exchange("GET", url, "Prefer: wait=0\r\n");
    let retry_after = response.field("retry-after").and_then(|time| time.parse().ok());
    Told { status: response.status(), retry_after }
}

#[test]
fn each_row_holds_over_http1() {
    let mut origin = Origin::start();
    for (number, (_, status, fields, _)) in ROWS.iter().enumerate() {
        let fields: String =
            fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let script = Script::default().send(answer(*status, &fields, ""));
        origin = origin.on(&format!("/{number}"), script);
    }
    let proxy = Proxy::with(with_long_holds);
    for (number, row) in ROWS.iter().enumerate() {
        assert_row(row, &format!("/{number}"), |path| impatient(&proxy, &origin.url(path)));
        proxy.clock.advance(LATER);
    }
}

#[test]
fn each_row_holds_over_http2() {
    let site = Http2Site::start();
    let proxy = site.proxy();
    let authority = site.address.to_string();
    for (number, row) in ROWS.iter().enumerate() {
        assert_row(row, &format!("/{number}"), |path| over_http2(&proxy, &authority, path));
        proxy.clock.advance(LATER);
    }
}

fn over_http2(proxy: &Proxy, authority: &str, path: &str) -> Told {
    let client: H2 = proxy.h2(authority);
    let request = client.request("GET", path).header("prefer", "wait=0");
    let response = client.head(client.ask(request));
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.and_then(|time| time.to_str().ok()?.parse().ok());
    Told { status: response.status().as_u16(), retry_after }
}

/// By RST_STREAM, also after a part of the response.
#[test]
fn an_origin_that_wants_calm_is_not_asked_again_and_is_held() {
    let site = Http2Site::start();
    let proxy = site.proxy();
    let authority = site.address.to_string();
    for (path, status) in [("/calm/stream", 502), ("/calm/late", 200)] {
        // Known, and on a kept connection.
        assert_eq!(over_http2(&proxy, &authority, "/").status, 200);
        let client = proxy.h2(&authority);
        let response = client.head(client.ask(client.request("GET", path)));
        assert_eq!(response.status().as_u16(), status, "{path}");
        until("the origin is held", || over_http2(&proxy, &authority, "/after").status == 429);
        let after = over_http2(&proxy, &authority, "/after").retry_after.expect("a time");
        assert_hold(after, 100, path);
        assert_eq!(site.count(path), 1, "{path}");
        proxy.clock.advance(LATER);
    }
}

/// By GOAWAY, of which the first stream is the last that the origin has seen.
#[test]
fn an_origin_that_ends_a_connection_for_calm_is_not_asked_again() {
    let site = Http2Site::start();
    let proxy = site.proxy();
    let authority = site.address.to_string();
    assert_eq!(over_http2(&proxy, &authority, "/").status, 200);
    assert_eq!(over_http2(&proxy, &authority, "/calm/connection").status, 502);
    assert_eq!(site.count("/calm/connection"), 1);
    let told = over_http2(&proxy, &authority, "/");
    assert_eq!(told.status, 429);
    assert_hold(told.retry_after.expect("a time"), 100, "GOAWAY");
}

/// By GOAWAY, of which the origin has seen no stream.
#[test]
fn an_origin_that_wants_calm_on_a_connection_is_left_alone() {
    let site = Http2Site::that_leaves();
    let proxy = site.proxy();
    let authority = site.address.to_string();
    let told = over_http2(&proxy, &authority, "/");
    assert_eq!((told.status, site.count("connections")), (502, 2), "one was for its robots.txt");
    let told = over_http2(&proxy, &authority, "/");
    assert_eq!((told.status, site.count("connections")), (429, 2));
    assert_hold(told.retry_after.expect("a time"), 100, "GOAWAY");
}

#[test]
fn eight_lost_connections_in_a_row_are_a_hold_and_five_failures() {
    let origin = Origin::start()
        .on("/reset", Script::default().reset())
        .on("/fail", Script::default().send(answer(500, "", "")));
    let site = Http2Site::start();
    let proxy = site.proxy();
    let authority = site.address.to_string();
    let over_http1 = |path: &str| impatient(&proxy, &origin.url(path));
    let over_http2 = |path: &str| over_http2(&proxy, &authority, path);
    // The certificate that the proxy shows is of now, which the client takes for its time.
    let asks: [&dyn Fn(&str) -> Told; 2] = [&over_http2, &over_http1];
    for ask in asks {
        for (path, status, count) in [("/reset", 502, 8), ("/fail", 500, 5)] {
            assert_eq!(ask("/").status, 200);
            for number in 1..=count {
                assert_eq!(ask(path).status, status, "{path} {number}");
            }
            let held = ask("/");
            assert_eq!(held.status, 503, "{path}");
            assert_hold(held.retry_after.expect("a time"), 10, path);
            proxy.clock.advance(LATER);
        }
    }
}

#[test]
fn refused_connections_in_a_row_are_a_hold() {
    let origin = Origin::start();
    let proxy = Proxy::with(with_long_holds);
    let url = origin.url("/");
    assert_eq!(impatient(&proxy, &url).status, 200);
    drop(origin);
    let statuses: Vec<_> = (0..9).map(|_| impatient(&proxy, &url).status).collect();
    assert_eq!(statuses, [[502; 8].as_slice(), &[503]].concat());
}

#[test]
fn p2_failures_of_one_client_keep_no_other_out_until_that_sees_one_too() {
    let failing = Script::default().send(answer(500, "", ""));
    let origin = Origin::start().on("/fail", failing);
    let proxy = Proxy::with(with_long_holds);
    let ask = |client: u8, path: &str| {
        let from = Ipv4Addr::new(127, 0, 0, client);
        told(&mut Client::connect_from(from, proxy.address()), &origin.url(path)).status
    };
    let failed: Vec<_> = (0..10).map(|_| ask(2, "/fail")).collect();
    assert_eq!(failed, [[500; 5], [503; 5]].concat());
    for client in [3, 4] {
        assert_eq!(ask(client, "/"), 200);
    }
    assert_eq!(ask(2, "/"), 503);
    assert_eq!(ask(3, "/fail"), 500);
    assert_eq!([2, 3, 4].map(|client| ask(client, "/")), [503; 3]);
    proxy.clock.advance(LATER);
    assert_eq!([2, 3, 4].map(|client| ask(client, "/")), [200; 3]);
}

/// An origin of HTTP/2 alone.
struct Http2Site {
    address: SocketAddr,
    counts: Arc<Mutex<HashMap<String, usize>>>,
    /// Ends with it.
    _runtime: Runtime,
}

impl Http2Site {
    fn start() -> Self {
        Self::serving(false)
    }

    /// One that says on each connection that it gets too much (RFC 9113 §6.8).
    fn that_leaves() -> Self {
        Self::serving(true)
    }

    fn serving(leaves: bool) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut config = (*tls::origin_config()).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let counts = Arc::<Mutex<HashMap<String, usize>>>::default();
        let counted = Arc::clone(&counts);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, counts) = (acceptor.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    if leaves {
                        *counts
                            .lock()
                            .expect("no panic")
                            .entry("connections".into())
                            .or_default() += 1;
                        return leave(stream).await;
                    }
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let path = request.uri().path().to_owned();
                        *counts.lock().expect("no panic").entry(path.clone()).or_default() += 1;
                        match &*path {
                            "/reset" => return,
                            "/calm/connection" => {
                                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                            }
                            path => respond_to(path, respond),
                        }
                    }
                });
            }
        });
        Self { address, counts, _runtime: runtime }
    }

    /// A proxy that reaches it.
    fn proxy(&self) -> Proxy {
        let port = self.address.port();
        Proxy::with(|settings| {
            with_long_holds(settings);
            // A site whose robots.txt cannot be had allows its pages.
            settings.robots.profile = ProfileName::Archival;
            settings.egress.connect_ports.push(port);
            let file = settings.state_dir.join("origins.pem");
            std::fs::write(&file, tls::origins_ca()).expect("a directory that can be written to");
            settings.tls.extra_roots.push(file);
        })
    }

    fn count(&self, path: &str) -> usize {
        self.counts.lock().expect("no panic").get(path).copied().unwrap_or_default()
    }
}

/// Ends the first stream, and those after it, unseen: GOAWAY of ENHANCE_YOUR_CALM with 0 as the last.
async fn leave(mut stream: TlsStream<TcpStream>) {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
    let mut bytes = [0; 4096];
    let _ = stream.read(&mut bytes).await;
    let _ = stream.write_all(&[&SETTINGS[..], &GOAWAY].concat()).await;
    while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
}

fn respond_to(path: &str, mut respond: h2::server::SendResponse<bytes::Bytes>) {
    let mut response = Response::new(());
    match path {
        "/robots.txt" => *response.status_mut() = StatusCode::NOT_FOUND,
        "/calm/stream" => {
            respond.send_reset(Reason::ENHANCE_YOUR_CALM);
            return;
        }
        "/calm/late" => {
            let mut body = respond.send_response(response, false).expect("a head");
            tokio::spawn(async move {
                // After the head has gone out.
                tokio::time::sleep(Duration::from_millis(50)).await;
                body.send_reset(Reason::ENHANCE_YOUR_CALM);
            });
            return;
        }
        "/fail" => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        path => {
            let row = path[1..].parse::<usize>().ok().and_then(|number| ROWS.get(number));
            if let Some((_, status, fields, _)) = row {
                *response.status_mut() = StatusCode::from_u16(*status).expect("a status");
                for (name, value) in *fields {
                    let value = value.parse().expect("a value");
                    response.headers_mut().insert(*name, value);
                }
            }
        }
    }
    respond.send_response(response, true).expect("a head");
}
