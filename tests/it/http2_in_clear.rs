//! HTTP/2 in clear on the proxy's port, with prior knowledge: absolute URLs, and CONNECT on a stream.

use std::time::Duration;

use courtesy::config::HttpsMode;
use http::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::testkit::parties::{AGENT, H2, Origin, Proxy, tls};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

fn asked(method: Method, url: &str) -> http::request::Builder {
    Request::builder().method(method).uri(url).header("user-agent", AGENT)
}

fn client(proxy: &Proxy) -> H2 {
    H2::in_clear(proxy.client().into_tcp())
}

/// Sends `bytes` by the stream of a CONNECT, and reads to the end of a page, or to the end.
async fn ask(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), bytes: String) -> String {
    stream.write_all(bytes.as_bytes()).await.expect("a stream");
    stream.flush().await.expect("a stream");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") {
        match stream.read_buf(&mut answer).await {
            Ok(1..) => {}
            // A TLS peer may end without a close_notify.
            Ok(0) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(origin: &Origin, path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {AGENT}\r\nConnection: close\r\n\r\n",
        origin.authority()
    )
}

#[test]
fn requests_are_judged_as_those_of_http_1() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = client(&proxy);
    for _ in 0..3 {
        let answer = client.answer(client.ask(asked(Method::GET, &origin.url("/open"))));
        assert_eq!(answer.status, 200);
    }
    let denied = client.answer(client.ask(asked(Method::GET, &origin.url("/private/a"))));
    denied.assert_error(403, "http_request_denied");
    assert_eq!(proxy.record()["url"], origin.url("/private/a"));
    let own = client.answer(client.ask(asked(Method::GET, "http://courtesy.internal/")));
    assert_eq!(own.status, 200);
}

#[test]
fn a_stream_of_connect_is_intercepted() {
    let plain = Origin::with_robots(RULES);
    let secure = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&plain, &secure], |_| {});
    let client = client(&proxy);
    let open = |origin: &Origin| {
        let stream = client.ask(asked(Method::CONNECT, &origin.authority()));
        let response = client.head(stream);
        assert_eq!(response.status(), 200);
        TokioIo::new(client.wait(hyper::upgrade::on(response)).expect("a stream"))
    };
    // Two at once, beside an ordinary request.
    let (mut first, second) = (open(&plain), open(&secure));
    let page = client.answer(client.ask(asked(Method::GET, &plain.url("/beside"))));
    assert_eq!(page.status, 200);
    let answer = client.wait(ask(&mut first, get(&plain, "/open")));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("this is /open\n"), "{answer}");
    let authority = secure.authority();
    let name = tls::server_name(tls::host(&authority));
    let connector = TlsConnector::from(proxy.trusted(&["http/1.1"]));
    let mut second = client.wait(connector.connect(name, second)).expect("a handshake");
    let answer = client.wait(ask(&mut second, get(&secure, "/private/a")));
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(proxy.record()["url"], secure.url("/private/a"));
}

#[test]
fn a_stream_of_connect_is_a_tunnel_for_the_host_of_its_connect() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |settings| settings.https.mode = HttpsMode::Classify);
    let client = client(&proxy);
    let authority = format!("localhost:{}", origin.address().port());
    for (name, is_served) in [("localhost", true), ("a.localhost", false)] {
        let stream = client.ask(asked(Method::CONNECT, &authority));
        let response = client.head(stream);
        assert_eq!(response.status(), 200);
        let stream = TokioIo::new(client.wait(hyper::upgrade::on(response)).expect("a stream"));
        let connector = TlsConnector::from(tls::trusting(tls::origins_ca(), &["http/1.1"]));
        let secured = client.wait(connector.connect(tls::server_name(name), stream));
        assert_eq!(secured.is_ok(), is_served, "{name}");
        if let Ok(mut stream) = secured {
            let answer = client.wait(ask(&mut stream, get(&origin, "/page")));
            assert!(answer.ends_with("this is /page\n"), "{answer}");
        }
    }
    assert_eq!(proxy.record()["reason"], "sni_mismatch");
}

#[test]
fn a_refused_connect_leaves_the_connection() {
    let origin = Origin::start();
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = client(&proxy);
    let refused = client.answer(client.ask(asked(Method::CONNECT, "127.0.0.1:25")));
    refused.assert_error(403, "http_request_denied");
    let page = client.answer(client.ask(asked(Method::GET, &origin.url("/open"))));
    assert_eq!(page.status, 200);
}

#[test]
fn an_open_stream_keeps_its_connection_and_not_the_proxy() {
    let origin = Origin::start();
    let mut proxy = Proxy::before(&[&origin], |settings| {
        settings.limits.idle_timeout = Duration::from_millis(50);
        settings.limits.handshake_timeout = Duration::from_mins(1);
    });
    let mut client = client(&proxy);
    let stream = client.ask(asked(Method::CONNECT, &origin.authority()));
    let response = client.head(stream);
    let mut stream = TokioIo::new(client.wait(hyper::upgrade::on(response)).expect("a stream"));
    client.wait(async { tokio::time::sleep(Duration::from_millis(200)).await });
    let answer = client.wait(ask(&mut stream, get(&origin, "/open")));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    proxy.stop();
    let _ = client.ended();
}
