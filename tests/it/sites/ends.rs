//! Where a response ends. One that did not come whole is none: a robots.txt is then unreachable
//! (RFC 9309 §2.3.1.4), and a page reaches its client visibly cut, in whatever version it asks.

use bytes::Bytes;
use http::Request;
use tokio_rustls::TlsConnector;

use crate::testkit::parties::h2_origin::{
    CANCEL, END_STREAM, INTERNAL_ERROR, NO_ERROR, Script, Step, data, head, head_with, trailers,
    whole,
};
use crate::testkit::parties::{self, AGENT, H2Origin, Origin, Proxy, Received, tls};

/// The first two lines would allow everything but one path.
const BEGUN: &str = "User-agent: *\nDisallow: /elsewhere\n";
const REST: &str = "Disallow: /page\n";

/// Whether the response is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Whole,
    Cut,
    /// All of its Content-Length came, and nothing ended it: to HTTP/1.1 there is nothing to cut.
    Unended,
}
use Is::{Cut, Unended, Whole};

/// What is sent over HTTP/2, and whether that is a whole response. Before the connection ends, what
/// it is to send is held until the client has had it.
fn over_http2(length: usize) -> Vec<(&'static str, Script, Is)> {
    let length = length.to_string();
    let with_length = |length: &str| head_with(200, &[("content-length", length)], 0);
    let (ok, begun, rest) = (|| head(200, 0), || data(BEGUN, 0), || data(REST, 0));
    vec![
        ("END_STREAM with the last data", vec![ok(), begun(), data(REST, END_STREAM)], Whole),
        (
            "END_STREAM with empty data (RFC 9113 §6.1)",
            vec![ok(), begun(), rest(), data("", END_STREAM)],
            Whole,
        ),
        (
            "END_STREAM with trailers (§8.1)",
            vec![ok(), begun(), rest(), trailers(&[("x-sum", "1")])],
            Whole,
        ),
        ("END_STREAM with the head", vec![head(200, END_STREAM)], Whole),
        (
            "NO_ERROR behind END_STREAM (§8.1)",
            vec![ok(), begun(), data(REST, END_STREAM), Step::Reset(NO_ERROR)],
            Whole,
        ),
        (
            "NO_ERROR behind trailers",
            vec![ok(), begun(), rest(), trailers(&[]), Step::Reset(NO_ERROR)],
            Whole,
        ),
        (
            "NO_ERROR behind END_STREAM with the head",
            vec![head(200, END_STREAM), Step::Reset(NO_ERROR)],
            Whole,
        ),
        (
            "GOAWAY behind END_STREAM (§6.8)",
            vec![ok(), begun(), data(REST, END_STREAM), Step::GoAway(NO_ERROR), Step::Close],
            Whole,
        ),
        (
            "GOAWAY, then the rest (§6.8)",
            vec![ok(), begun(), Step::GoAway(NO_ERROR), data(REST, END_STREAM)],
            Whole,
        ),
        (
            "its whole Content-Length",
            vec![with_length(&length), begun(), data(REST, END_STREAM)],
            Whole,
        ),
        ("NO_ERROR instead of END_STREAM", vec![ok(), begun(), Step::Reset(NO_ERROR)], Cut),
        ("NO_ERROR behind the head", vec![ok(), Step::Reset(NO_ERROR)], Cut),
        (
            "NO_ERROR behind all of Content-Length",
            vec![with_length(&length), begun(), rest(), Step::Reset(NO_ERROR)],
            Unended,
        ),
        (
            "NO_ERROR below Content-Length",
            vec![with_length(&length), begun(), Step::Reset(NO_ERROR)],
            Cut,
        ),
        ("CANCEL", vec![ok(), begun(), Step::Reset(CANCEL)], Cut),
        ("INTERNAL_ERROR", vec![ok(), begun(), Step::Reset(INTERNAL_ERROR)], Cut),
        ("the end of the connection", vec![ok(), begun(), Step::Close], Cut),
        (
            "GOAWAY of NO_ERROR, and the end of the connection",
            vec![ok(), begun(), Step::GoAway(NO_ERROR), Step::Close],
            Cut,
        ),
        (
            "END_STREAM below Content-Length (§8.1.1)",
            vec![with_length(&length), data(BEGUN, END_STREAM)],
            Cut,
        ),
        (
            "trailers below Content-Length",
            vec![with_length(&length), begun(), trailers(&[("x-sum", "1")])],
            Cut,
        ),
        ("more than Content-Length", vec![with_length("3"), begun(), data(REST, END_STREAM)], Cut),
    ]
}

#[test]
fn a_robots_txt_of_http_2_is_whole_with_end_stream_only() {
    for (name, script, is) in over_http2(BEGUN.len() + REST.len()) {
        let is_empty = matches!(script[..], [Step::Head(_, _, END_STREAM), ..]);
        let origin = H2Origin::start(vec![script, whole(200, "page")]);
        let proxy = Proxy::before_ports(&[origin.address().port()], |_| {});
        let response = proxy.https(&origin.authority()).get("/page");
        match is {
            Cut | Unended => assert_eq!(response.reason(), "robots_unreachable", "{name}"),
            Whole if is_empty => assert_eq!(response.status(), 200, "{name}"),
            Whole => assert_eq!(response.reason(), "disallow_rule", "{name}"),
        }
    }
}

#[test]
fn a_page_of_http_2_is_whole_with_end_stream_only() {
    for (name, script, is) in over_http2(BEGUN.len() + REST.len()) {
        let of_robots = whole(404, "");
        let origin = H2Origin::start(vec![of_robots, script.clone(), script]);
        let proxy = Proxy::before_ports(&[origin.address().port()], |_| {});
        let mut client = proxy.https(&origin.authority());
        let by_http1 = client.ask("GET", "/page", "").try_read("GET");
        assert_eq!(by_http1.is_ok(), is != Cut, "{name}, to HTTP/1.1: {by_http1:?}");
        let client = proxy.h2(&origin.authority());
        let response = client.ask(client.request("GET", "/page"));
        let by_http2 = client.body(response);
        assert_eq!(by_http2.is_ok(), is == Whole, "{name}, to HTTP/2: {by_http2:?}");
    }
}

/// RFC 9113 §8.1: an origin that has responded may reset the stream without error, because it does
/// without the rest of the request.
#[test]
fn an_early_response_is_whole_although_its_request_is_not() {
    let early = vec![head(413, 0), data("too much", END_STREAM), Step::Reset(NO_ERROR)];
    let origin = H2Origin::start(vec![whole(404, ""), early]);
    let proxy = Proxy::before_ports(&[origin.address().port()], |_| {});
    let client = proxy.h2(&origin.authority());
    let upload = client.send(client.request("POST", "/page"));
    upload.body.as_ref().expect("a body").send(Bytes::from_static(b"begun")).expect("it is read");
    let (status, body) = client.body(upload).expect("a whole response");
    assert_eq!((status, &body[..]), (413, b"too much".as_slice()));
}

/// What a client resets without END_STREAM is no whole request.
#[test]
fn an_upload_that_its_client_resets_is_not_whole() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let tcp = proxy.client().tunnel(&origin.authority()).into_tcp();
    tcp.set_nonblocking(true).expect("an option");
    let config = proxy.trusted(&["h2"]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut upload = runtime.block_on(async {
        let tcp = tokio::net::TcpStream::from_std(tcp).expect("a runtime");
        let name = tls::server_name(tls::host(&origin.authority()));
        let stream = TlsConnector::from(config).connect(name, tcp).await.expect("a handshake");
        let (mut sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let url = format!("https://{}/upload", origin.authority());
        let request = Request::post(url).header("user-agent", AGENT).body(()).expect("a request");
        let (_response, mut upload) = sender.send_request(request, false).expect("it is open");
        upload.send_data(Bytes::from_static(b"begun"), false).expect("it is open");
        upload
    });
    let is_upload = |it: &Received| it.path() == "/upload";
    origin.wait_until("it has the head", |log| log.requests.iter().any(is_upload));
    upload.send_reset(h2::Reason::NO_ERROR);
    origin.wait_until("it has seen the end", |log| log.abandoned == 1);
    assert!(origin.log().requests.iter().all(|it| !is_upload(it) || !it.whole));
}

/// Over HTTP/1.1: Content-Length, the last chunk, or the end of the connection (RFC 9112 §6.3).
#[test]
fn a_response_of_http_1_1_is_whole_with_its_length_or_its_last_chunk() {
    let length = BEGUN.len() + REST.len();
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    let sized = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let cases = [
        ("its length", format!("{sized}{BEGUN}{REST}"), Whole),
        ("the last chunk", chunked.clone() + &chunk(BEGUN) + &chunk(REST) + "0\r\n\r\n", Whole),
        (
            "trailers",
            chunked.clone() + &chunk(BEGUN) + &chunk(REST) + "0\r\nX-Sum: 1\r\n\r\n",
            Whole,
        ),
        ("the end", format!("HTTP/1.1 200 OK\r\n\r\n{BEGUN}{REST}"), Whole),
        ("less than its length", format!("{sized}{BEGUN}"), Cut),
        ("no last chunk", chunked.clone() + &chunk(BEGUN), Cut),
        ("half a chunk", chunked.clone() + &chunk(BEGUN)[..9], Cut),
        ("half of the end", chunked + &chunk(BEGUN) + "0\r\n", Cut),
    ];
    for is_secure in [false, true] {
        for (name, bytes, is) in &cases {
            let script = parties::Script::default().send(bytes).close();
            let origin = if is_secure { Origin::secure() } else { Origin::start() };
            let origin = origin.on("/robots.txt", script.clone());
            let proxy = Proxy::before(&[&origin], |_| {});
            let client =
                || if is_secure { proxy.https(&origin.authority()) } else { proxy.client() };
            let denied = client().get(&origin.url("/page")).reason();
            let expected = if *is == Whole { "disallow_rule" } else { "robots_unreachable" };
            assert_eq!(denied, expected, "{name}, over TLS: {is_secure}");

            let origin = if is_secure { Origin::secure() } else { Origin::start() };
            let origin = origin.on("/page", script);
            let proxy = Proxy::before(&[&origin], |_| {});
            let mut client =
                if is_secure { proxy.https(&origin.authority()) } else { proxy.client() };
            let page = client.ask("GET", &origin.url("/page"), "").try_read("GET");
            assert_eq!(page.is_ok(), *is == Whole, "{name}, over TLS: {is_secure}: {page:?}");
            let Ok(page) = page else { continue };
            assert_eq!(page.text(), format!("{BEGUN}{REST}"), "{name}, over TLS: {is_secure}");
        }
    }
}
