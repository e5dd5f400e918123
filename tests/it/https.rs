//! HTTPS that is intercepted: what runs inside a tunnel takes the same path as any request, over
//! HTTP/1.1 and HTTP/2 alike.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::testkit::parties::{
    Client, Origin, Proxy, Script, answer, endless, ok, ok_with, request, until,
};

const RULES: &str = "# rules\nUser-agent: *\nDisallow: /private/\n";

#[test]
fn a_denial_is_an_ordinary_answer_inside_the_tunnel() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    assert_eq!(client.get("/open").text(), "this is /open\n");
    let denied = client.get("/private/a?b");
    denied.assert_error(403, "http_request_denied; details=\"robots.txt line 3\"");
    assert_eq!(client.get("/next").status(), 200, "the connection goes on");

    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /open", "GET /next"]);
    let record = proxy.record();
    assert_eq!(record["url"], origin.url("/private/a?b"));
    assert_eq!(record["origin"], origin.url(""));
    assert_eq!(record["path_seen"], true);
    assert_eq!(record["method"], "GET");
    assert_eq!(denied.field("courtesy-record"), record["id"].as_str());
}

#[test]
fn a_denial_is_an_ordinary_answer_over_http_2() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    assert_eq!(client.get("/open").body, "this is /open\n");
    let denied = client.get("/private/a?b");
    denied.assert_error(403, "http_request_denied; details=\"robots.txt line 3\"");
    assert_eq!(client.get("/next").status, 200, "the connection goes on");

    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /open", "GET /next"]);
    let record = proxy.record();
    assert_eq!(
        (&record["url"], &record["path_seen"]),
        (&origin.url("/private/a?b").into(), &true.into())
    );
    assert_eq!(denied.json()["url"], record["url"]);
}

#[test]
fn requests_in_a_row_are_answered_in_order() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    let host = format!("Host: {}\r\n", origin.authority());
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{host}\r\n");
    client.send(get("/1") + &get("/private/2") + &get("/3"));
    assert_eq!(client.read().text(), "this is /1\n");
    assert_eq!(client.read().status(), 403);
    assert_eq!(client.read().text(), "this is /3\n");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /1", "GET /3"]);
    let log = origin.log();
    assert_eq!(
        log.requests[1].connection, log.requests[2].connection,
        "the way out is kept open too"
    );
}

#[test]
fn every_spelling_of_the_host_is_that_of_the_tunnel() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let port = origin.address().port();
    let mut client = proxy.https(&format!("a.localhost:{port}"));
    for host in ["a.localhost", "A.LocalHost", "a.localhost."] {
        let response = client.exchange("GET", "/", &format!("Host: {host}:{port}\r\n"));
        assert_eq!(response.status(), 200, "{host}: {}", response.text());
        assert_eq!(
            origin.received("/").field("host"),
            Some(format!("a.localhost:{port}").as_str())
        );
    }
    assert_eq!(client.get(&format!("https://a.localhost:{port}/absolute")).status(), 200);
}

#[test]
fn bodies_are_passed_on_as_they_come() {
    let streamed = Script::default()
        .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        .hold()
        .send("later");
    let taken = Script::default().read_body().send(answer(200, "", "done"));
    let origin = Origin::secure().on("/down", streamed.clone()).on("/up", taken);
    let proxy = Proxy::before(&[&origin], |_| {});

    let mut client = proxy.https(&origin.authority());
    client.ask("POST", "/up", "Content-Length: 10\r\n").send("first");
    origin.wait_until("the head is there", |log| log.requests.iter().any(|it| it.path() == "/up"));
    assert!(!origin.received("/up").whole);
    client.send("later");
    assert_eq!(client.read().text(), "done");
    assert_eq!(origin.received("/up").body, b"firstlater");

    let h2 = proxy.h2(&origin.authority());
    let mut up = h2.send(h2.request("POST", "/up"));
    let body = up.body.take().expect("a body");
    body.send("first".into()).expect("somebody reads");
    let heads = |path: &'static str, count| {
        move |log: &crate::testkit::parties::Log| {
            log.requests.iter().filter(|it| it.path() == path).count() == count
        }
    };
    origin.wait_until("the head is there", heads("/up", 2));
    assert!(!origin.received("/up").whole);
    body.send("later".into()).expect("somebody reads");
    drop(body);
    assert_eq!(h2.answer(up).body, "done");
    assert_eq!(origin.received("/up").body, b"firstlater");

    client.ask("GET", "/down", "");
    assert_eq!(client.read_head().status(), 200);
    assert_eq!(client.read_bytes(5), b"first");
    let mut down = h2.head(h2.ask(h2.request("GET", "/down")));
    assert_eq!(h2.piece(&mut down).as_deref(), Some(b"first".as_slice()));
    origin.release();
    assert_eq!(client.read_bytes(5), b"later");
    assert_eq!(h2.piece(&mut down).as_deref(), Some(b"later".as_slice()));
    assert_eq!(h2.piece(&mut down), None);
}

#[test]
fn a_client_that_does_not_read_stops_the_origin_from_sending() {
    let origin = Origin::secure().on("/large", endless());
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    client.ask("GET", "/large", "").read_head();
    origin.wait_until("the origin's writes block", |log| log.stalls >= 2);
    let sent = origin.log().sent;
    assert!(sent < 64 << 20, "{sent} bytes went somewhere");
    let more = client.read_bytes(sent + (1 << 20));
    assert!(more.iter().all(|byte| *byte == b'x'));
    drop(client);
    origin.wait_until("the transfer has ended", |log| log.abandoned == 1);
}

#[test]
fn a_stream_that_is_not_read_stops_its_origin_and_no_other_stream() {
    let origin = Origin::secure().on("/large", endless());
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    let mut large = client.head(client.ask(client.request("GET", "/large")));
    origin.wait_until("the origin's writes block", |log| log.stalls >= 2);
    let sent = origin.log().sent;
    assert!(sent < 64 << 20, "{sent} bytes went somewhere");
    assert_eq!(client.get("/other").status, 200);
    let mut read = 0;
    while read < sent + (1 << 20) {
        read += client.piece(&mut large).expect("more bytes").len();
    }
    drop(large);
    origin.wait_until("the transfer has ended", |log| log.abandoned == 1);
    assert_eq!(client.get("/after").status, 200, "the connection goes on");
}

#[test]
fn an_origin_that_does_not_read_stops_the_client_from_sending() {
    let origin = Origin::secure()
        .on("/up", Script::default().leave_body().hold().read_body().send(answer(200, "", "done")));
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    client.ask("PUT", "/up", "Transfer-Encoding: chunked\r\n");
    let piece = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    let (sent, left) = client.send_until_stalled(&piece);
    assert!(sent < 64 << 20, "{sent} bytes went somewhere");
    origin.release();
    client.send(left).send("0\r\n\r\n");
    assert_eq!(client.read().text(), "done");
    let received = origin.received("/up").body.len();
    assert_eq!(received % (1 << 20), 0, "whole pieces: {received}");
}

#[test]
fn a_large_body_arrives_whole_both_ways() {
    let body: Vec<u8> =
        (0..8_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let origin = Origin::secure().on("/large", ok(&body));
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    client.ask("POST", "/large", &format!("Content-Length: {}\r\n", body.len())).send(&body);
    assert!(client.read().body == body);
    assert!(origin.received("/large").body == body);

    let client = proxy.h2(&origin.authority());
    let mut stream = client.send(client.request("POST", "/large"));
    let up = stream.body.take().expect("a body");
    for piece in body.chunks(100_000) {
        up.send(piece.to_vec().into()).expect("somebody reads");
    }
    drop(up);
    assert!(client.answer(stream).body == body);
    assert!(origin.received("/large").body == body);
}

#[test]
fn trailers_pass_both_ways() {
    let answer = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n";
    let origin = Origin::secure().on("/up", Script::default().send(answer));
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    client.ask(
        "POST",
        "/up",
        "TE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\nTrailer: X-Up\r\n",
    );
    client.send("1\r\nb\r\n0\r\nX-Up: 2\r\n\r\n");
    assert_eq!(client.read().trailers.to_ascii_lowercase(), "x-sum: 1\r\n");
    assert_eq!(origin.received("/up").trailers.to_ascii_lowercase(), "x-up: 2\r\n");

    let client = proxy.h2(&origin.authority());
    let response = client.answer(client.ask(client.request("GET", "/up").header("te", "trailers")));
    assert_eq!(response.trailers.expect("trailers")["x-sum"], "1");
}

#[test]
fn an_upgrade_works_inside_the_tunnel_and_is_judged_there() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let origin = Origin::secure()
        .robots(RULES)
        .on("/socket", Script::default().send(switch).send("hello").echo());
    let proxy = Proxy::before(&[&origin], |_| {});
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut client = proxy.https(&origin.authority());
    assert_eq!(client.exchange("GET", "/private/socket", fields).status(), 403);
    let head = client.ask("GET", "/socket", fields).read_head();
    assert_eq!((head.status(), head.field("upgrade")), (101, Some("websocket")));
    assert_eq!(head.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(client.read_bytes(5), b"hello");
    client.send([0, 255, b'\r', b'\n']);
    assert_eq!(client.read_bytes(4), [0, 255, b'\r', b'\n']);
    client.finish_sending();
    client.assert_closed();
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /socket"]);
}

#[test]
fn a_head_has_the_fields_and_no_body() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.https(&origin.authority());
    let allowed = client.exchange("HEAD", "/open", "");
    assert_eq!((allowed.status(), allowed.field("content-length")), (200, Some("14")));
    let denied = client.exchange("HEAD", "/private/", "");
    assert_eq!(denied.status(), 403);
    assert!(denied.field("content-length").is_some_and(|length| length != "0"));
    assert_eq!(client.get("/next").text(), "this is /next\n", "nothing is left on the connection");

    let client = proxy.h2(&origin.authority());
    for (path, status) in [("/open", 200), ("/private/", 403)] {
        let response = client.answer(client.ask(client.request("HEAD", path)));
        assert_eq!((response.status, response.body.len()), (status, 0), "{path}");
    }
    assert_eq!(client.get("/next").status, 200);
}

/// RFC 9112 §9.3: what is left of a body must never be read as a request.
#[test]
fn the_body_of_a_denied_upload_is_no_request() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let smuggled = request("GET", &origin.url("/smuggled"), "");
    let mut client = proxy.https(&origin.authority());
    let length = smuggled.len() + 1_000_000;
    client.ask("POST", "/private/up", &format!("Content-Length: {length}\r\n")).send(&smuggled);
    assert_eq!(client.read().status(), 403);
    let _ = client.try_send(&smuggled);
    assert!(client.try_read("GET").is_err(), "nothing else is answered");

    let client = proxy.h2(&origin.authority());
    let denied = client.send(client.request("POST", "/private/up"));
    let body = denied.body.as_ref().expect("a body");
    // Nobody reads it where the answer has come already.
    let _ = body.send(smuggled.into());
    assert_eq!(client.answer(denied).status, 403);
    assert_eq!(client.get("/next").status, 200, "only the stream has ended");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /next"]);
    assert_eq!(proxy.records().len(), 2);
}

#[test]
fn the_streams_of_a_connection_are_under_way_together() {
    const COUNT: usize = 30;
    let origin = Origin::secure()
        .robots(RULES)
        .on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let proxy = Proxy::before(&[&origin], |settings| settings.pace.concurrency = 64);
    let client = proxy.h2(&origin.authority());
    let slow: Vec<_> = (0..COUNT).map(|_| client.ask(client.request("GET", "/slow"))).collect();
    let denied: Vec<_> =
        (0..COUNT).map(|_| client.ask(client.request("GET", "/private/"))).collect();
    for stream in denied {
        assert_eq!(client.answer(stream).status, 403);
    }
    let is_slow = |it: &crate::testkit::parties::Received| it.path() == "/slow";
    origin.wait_until("all are there", |log| {
        log.requests.iter().filter(|it| is_slow(it)).count() == COUNT
    });
    origin.release();
    for stream in slow {
        assert_eq!(client.answer(stream).body, "late");
    }
    assert_eq!(origin.count("/robots.txt"), 1);
    assert_eq!(proxy.records().len(), COUNT, "one record for each denial");
}

#[test]
fn h2_a_cancelled_stream_ends_its_own_transfer_and_no_other() {
    let begun = Script::default()
        .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        .hold()
        .send("later");
    let origin = Origin::secure().on("/cancelled", begun.clone()).on("/kept", begun);
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    let mut kept = client.head(client.ask(client.request("GET", "/kept")));
    let mut cancelled = client.head(client.ask(client.request("GET", "/cancelled")));
    assert_eq!(client.piece(&mut kept).as_deref(), Some(b"first".as_slice()));
    assert_eq!(client.piece(&mut cancelled).as_deref(), Some(b"first".as_slice()));
    drop(cancelled);
    origin.wait_until("its transfer has ended", |log| log.abandoned == 1);
    origin.release();
    assert_eq!(client.piece(&mut kept).as_deref(), Some(b"later".as_slice()));
    assert_eq!(client.get("/next").status, 200);
    assert_eq!(origin.log().abandoned, 1);
}

/// A window that the client never opens holds an origin's connection no longer than a socket that
/// it never reads from.
#[test]
fn h2_a_response_that_a_client_does_not_take_is_given_up() {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let origin = Origin::secure()
        .on("/endless", Script::default().send(head).endless("bytes ".repeat(10_000)));
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.limits.body_idle_timeout = Duration::from_millis(300);
    });
    let client = proxy.h2(&origin.authority());
    let untaken = client.head(client.ask(client.request("GET", "/endless")));
    // Meanwhile the client goes on to speak, and answers what it is asked: only this stream is stuck.
    let (over, ended) = oneshot::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            origin.wait_until("its transfer has ended", |log| log.abandoned == 1);
            let _ = over.send(());
        });
        client.wait(ended).expect("it has ended");
    });
    drop(untaken);
}

/// RFC 9113 §8.2.3, RFC 9110 §7.6.3.
#[test]
fn h2_a_request_by_http_2_becomes_one_of_http_1() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    let asked = client.request("GET", "/page").header("cookie", "a=1").header("cookie", "b=2; c=3");
    let response = client.answer(client.ask(asked.header("cookie", "d=4").header("x-kept", "1")));
    assert_eq!(response.status, 200);
    assert!(
        response.field("via").is_some_and(|via| via.starts_with("1.1 courtesy")),
        "{response:?}"
    );
    let received = origin.received("/page");
    assert!(received.head.starts_with("GET /page HTTP/1.1\r\n"), "{}", received.head);
    assert_eq!(received.fields("cookie"), ["a=1; b=2; c=3; d=4"]);
    assert_eq!(received.fields("host"), [origin.authority()]);
    assert_eq!(received.field("x-kept"), Some("1"));
    assert!(
        received.field("via").is_some_and(|via| via.starts_with("2 courtesy")),
        "{}",
        received.head
    );

    proxy.https(&origin.authority()).get("/other");
    let received = origin.received("/other");
    assert!(
        received.field("via").is_some_and(|via| via.starts_with("1.1 courtesy")),
        "{}",
        received.head
    );
}

#[test]
fn the_robots_txt_itself_comes_from_the_copy_that_decides() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    assert_eq!(proxy.https(&origin.authority()).get("/robots.txt").text(), RULES);
    let client = proxy.h2(&origin.authority());
    assert_eq!(client.get("/robots.txt").body, RULES);
    assert_eq!(proxy.get(&origin.url("/robots.txt")).text(), RULES);
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn an_https_url_may_be_asked_for_without_a_tunnel() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |settings| settings.egress.connect_ports.clear());
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/open")).text(), "this is /open\n");
    client.get(&origin.url("/private/")).assert_error(403, "http_request_denied");
    assert_eq!(proxy.record()["url"], origin.url("/private/"));
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /open"]);
}

#[test]
fn an_origin_that_cannot_prove_who_it_is_gets_nothing() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |settings| settings.tls.extra_roots.clear());
    let mut client = proxy.https(&origin.authority());
    let denied = client.get("/page");
    denied.assert_error(403, "http_request_denied");
    assert_eq!(denied.reason(), "robots_unreachable");
    assert!(denied.text().contains("no known issuer vouches for it"), "{}", denied.text());
    assert_eq!(origin.log().requests.len(), 0);
}

/// RFC 9112 §9.8: as a client we end TLS before the connection. Ones of HTTP/1.0 are not kept.
#[test]
fn a_connection_that_is_not_kept_is_ended_with_its_tls() {
    let old = Script::default()
        .send("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nold");
    let origin = Origin::secure().on("/old", old);
    let proxy = Proxy::before(&[&origin], |_| {});
    assert_eq!(proxy.https(&origin.authority()).get("/old").text(), "old");
    let connection = origin.received("/old").connection;
    origin.wait_until("TLS is ended", |log| log.ended.contains(&connection));
}

/// RFC 9112 §9.8: without its closing alert TLS has been cut, and with it the body.
#[test]
fn a_body_that_ends_without_the_end_of_tls_is_incomplete() {
    let begun = || Script::default().send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole?");
    let origin = Origin::secure().on("/whole", begun().close()).on("/cut", begun().cut());
    let proxy = Proxy::before(&[&origin], |_| {});
    assert_eq!(proxy.https(&origin.authority()).get("/whole").text(), "whole?");
    let mut client = proxy.https(&origin.authority());
    let cut = client.ask("GET", "/cut", "").try_read("GET").expect_err("a body that is cut");
    assert_eq!(cut.body, b"whole?");
}

#[test]
fn requests_under_way_in_a_tunnel_may_end_when_the_proxy_stops() {
    let origin =
        Origin::secure().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let mut proxy = Proxy::before(&[&origin], |settings| {
        settings.limits.drain_timeout = std::time::Duration::from_secs(20);
    });
    let mut idle = proxy.https(&origin.authority());
    idle.get("/");
    let mut client = proxy.https(&origin.authority());
    client.ask("GET", "/slow", "");
    let mut idle_h2 = proxy.h2(&origin.authority());
    let mut h2 = proxy.h2(&origin.authority());
    let stream = h2.ask(h2.request("GET", "/slow"));
    origin.wait_until("the requests are there", |log| {
        log.requests.iter().filter(|it| it.path() == "/slow").count() == 2
    });
    let address = proxy.address();
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| proxy.stop());
        idle.assert_closed();
        idle_h2.ended().expect("it was told");
        until("nobody listens", || std::net::TcpStream::connect(address).is_err());
        origin.release();
        assert_eq!(client.read().text(), "late");
        client.assert_closed();
        assert_eq!(h2.answer(stream).body, "late");
        h2.ended().expect("it was told");
        stopping.join().expect("it stops");
    });
}

#[test]
fn forged_words_of_ours_do_not_pass() {
    let forged = "Proxy-Status: courtesy; error=http_request_denied\r\n\
                  Proxy-Status: \"court\\esy\"; error=http_request_denied\r\n\
                  Proxy-Status: edge;details=\"a, b\", \"Courtesy\"\r\n\
                  proxy-status: edge; received-status=200\r\n\
                  Courtesy-Record: 01J\r\nCourtesy_Record: 01J\r\nCOURTESY.RECORD: 01J\r\n";
    let origin = Origin::secure().on("/forged", ok_with(forged, "x"));
    let proxy = Proxy::before(&[&origin], |_| {});
    let response = proxy.h2(&origin.authority()).get("/forged");
    assert_eq!(
        response.fields.get_all("proxy-status").iter().collect::<Vec<_>>(),
        ["edge; received-status=200"]
    );
    assert!(
        response.fields.keys().all(|name| !name.as_str().starts_with("courtesy")),
        "{:?}",
        response.fields
    );
    let response = proxy.https(&origin.authority()).get("/forged");
    assert_eq!(response.head.all("proxy-status"), ["edge; received-status=200"]);
    assert!(!response.head.0.to_ascii_lowercase().contains("01j"), "{}", response.head.0);
}

/// A field as HPACK writes it without any table (RFC 7541 §6.2.2).
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).expect("a short text");
    [&[0, length(name)], name, &[length(value)], value].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&[0, length[0], length[1], kind, flags, 0, 0, 0, stream], payload].concat()
}

/// What becomes of one request, field by field and byte by byte: its status, if it has an answer.
fn outcome(client: &mut Client, fields: &[(&[u8], &[u8])], data: &[u8]) -> Option<u16> {
    let end = if data.is_empty() { END_STREAM } else { 0 };
    let mut frames = vec![frame(HEADERS, END_HEADERS | end, 1, &block(fields))];
    if !data.is_empty() {
        frames.push(frame(DATA, END_STREAM, 1, data));
    }
    exchange(client, &frames)
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| literal(name, value)).collect()
}

/// What becomes of the first stream of these frames: its status, if it has an answer.
fn exchange(client: &mut Client, frames: &[Vec<u8>]) -> Option<u16> {
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(frame(4, 0, 0, b""));
    for frame in frames {
        // It may be answered before the last one.
        let _ = client.try_send(frame);
    }
    loop {
        let head = client.try_read_bytes(9)?;
        let payload = client.try_read_bytes(usize::from(u16::from_be_bytes([head[1], head[2]])))?;
        match (head[3], head[8]) {
            // RFC 7541 Appendix A: the statuses with a place in the table.
            (1, 1) if payload[0] == 0x88 => return Some(200),
            (1, 1) if payload[0] == 0x8c => return Some(400),
            (1, 1) => panic!("another answer: {}", payload.escape_ascii()),
            (3, 1) | (7, _) => return None,
            _ => {}
        }
    }
}

/// RFC 9113 §8.1.1, §8.2, §8.3, §10.3: what is malformed is never made HTTP/1.1 of.
#[test]
fn h2_a_malformed_request_by_http_2_does_not_pass() {
    type Field<'a> = (&'a [u8], &'a [u8]);
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let method: Field = (b":method", b"GET");
    let scheme: Field = (b":scheme", b"https");
    let path: Field = (b":path", b"/page");
    let host: Field = (b":authority", authority.as_bytes());
    let forged = format!("user@{authority}");
    let of = |fields: &[Field], data: &[u8]| {
        let tunnel = proxy.client().tunnel(&authority);
        let mut client = tunnel.secured(proxy.trusted(&["h2"]), "127.0.0.1").expect("a handshake");
        outcome(&mut client, fields, data)
    };
    let with = |more: Field| of(&[method, scheme, path, host, more], b"");
    assert_eq!(of(&[method, scheme, path, host], b""), Some(200));
    assert_eq!(of(&[method, scheme, path], b""), Some(200), "the tunnel has told the host");
    assert_eq!(with((b"content-length", b"0")), Some(200));
    let raw: Field = (b":path", b"/page\xc3\xa9?\xc3\xa9");
    assert_eq!(of(&[method, scheme, raw, host], b""), Some(200));
    assert_eq!(origin.request_lines().last().map(String::as_str), Some("GET /page%C3%A9?%C3%A9"));
    let reached = origin.request_lines().len();
    for more in [
        (b"connection".as_slice(), b"close".as_slice()),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"websocket"),
        (b"X-Upper", b"1"),
        (b"x y", b"1"),
        (b"", b"1"),
        (b"x-a", b"1\r\nGET /private/ HTTP/1.1"),
        (b"x-a", b"1\n"),
        (b"x-a", b"\0"),
        (b"host", b"other.example"),
        (b"content-length", b"5"),
        (b"content-length", b"x"),
        (b":path", b"/private/"),
        (b":authority", b"other.example"),
        (b":unknown", b"1"),
        (b"user-agent", b" ExampleBot"),
        (b"user-agent", b"ExampleBot\t"),
    ] {
        let outcome = with(more);
        assert!(matches!(outcome, None | Some(400)), "{outcome:?}: {}", more.0.escape_ascii());
    }
    for fields in [
        vec![scheme, path, host],
        vec![method, path, host],
        vec![method, scheme, host],
        vec![method, scheme, (b":path".as_slice(), b"".as_slice()), host],
        vec![method, scheme, (b":path", b"/a b\r\nX: y"), host],
        vec![method, scheme, path, (b":authority", forged.as_bytes())],
        vec![method, (b":scheme", b"http"), path, host],
        vec![(b"x-a", b"1"), method, scheme, path, host],
        vec![method, scheme, (b":path", b"/page\xe9"), host],
        vec![method, scheme, (b":path", b"/page<"), host],
        vec![method, scheme, (b":path", b"/page?\""), host],
        vec![method, scheme, (b":path", b"/page\xc3\xa9\x7f"), host],
        vec![method, scheme, (b":path", b"page"), host],
        vec![method, scheme, path, host, (b"content-length", b"0"), (b"content-length", b"0")],
        vec![method, scheme, path, host, (b"user-agent", b"OneBot"), (b"user-agent", b"TwoBot")],
    ] {
        let outcome = of(&fields, b"");
        assert!(matches!(outcome, None | Some(400)), "{outcome:?}: {fields:?}");
    }
    assert_eq!(origin.request_lines().len(), reached, "{:?}", origin.request_lines());

    // A body of another length than told may begin, but never looks complete.
    let post: Field = (b":method", b"POST");
    for data in [b"123".as_slice(), b"1234567"] {
        let outcome = of(&[post, scheme, path, host, (b"content-length", b"5")], data);
        assert!(matches!(outcome, None | Some(400)), "{outcome:?}");
    }
    assert!(origin.log().requests.iter().all(|it| it.line() != "POST /page" || !it.whole));
}

/// The engine drops a fragment and the pseudo-fields of trailers; what it drops is neither judged nor sent.
#[test]
fn h2_what_the_engine_drops_is_neither_judged_nor_sent() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let sent = |method: &[u8], path: &[u8], trailers: &[u8]| {
        let tunnel = proxy.client().tunnel(&authority);
        let mut client = tunnel.secured(proxy.trusted(&["h2"]), "127.0.0.1").expect("a handshake");
        let head: [(&[u8], &[u8]); 4] = [
            (b":method", method),
            (b":scheme", b"https"),
            (b":path", path),
            (b":authority", authority.as_bytes()),
        ];
        let end = if trailers.is_empty() { END_STREAM } else { 0 };
        let mut frames = vec![frame(HEADERS, END_HEADERS | end, 1, &block(&head))];
        if !trailers.is_empty() {
            frames.push(frame(DATA, 0, 1, b"data"));
            frames.push(frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers));
        }
        exchange(&mut client, &frames)
    };
    assert_eq!(sent(b"GET", b"/page#/../private/", b""), Some(200));
    let forged =
        block(&[(b":path", b"/private/"), (b":authority", b"other.example"), (b"x-sum", b"1")]);
    assert_eq!(sent(b"POST", b"/up", &forged), Some(200));
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /page", "POST /up"]);
    let received = origin.received("/up");
    assert_eq!((received.field("host"), received.whole), (Some(authority.as_str()), true));
    assert!(!received.trailers.contains("private") && !received.trailers.contains("other.example"));
}

#[test]
fn h2_a_head_has_as_many_fields_as_one_of_http_1() {
    let origin = Origin::secure().robots("");
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    let asked = |path: &str, count| {
        let fields = (1..count).map(|number| (format!("x-{}", number % 7), "1"));
        client.ask(fields.fold(client.request("GET", path), |request, (name, value)| {
            request.header(name, value)
        }))
    };
    assert_eq!(client.answer(asked("/most", 100)).status, 200);
    for count in [101, 200, 1000] {
        let refused = client.answer(asked("/more", count));
        refused.assert_error(431, "http_request_error");
    }
    assert_eq!(client.get("/next").status, 200, "the other streams go on");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /most", "GET /next"]);
}

/// RFC 9113 §10.5: what costs the sender nothing is bounded, and ends the connection.
#[test]
fn h2_floods_end_the_connection_and_no_other() {
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const CONTINUATION: u8 = 9;
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let mut other = proxy.https(&authority);
    let head: Vec<u8> = [
        (b":method".as_slice(), b"GET".as_slice()),
        (b":scheme", b"https"),
        (b":path", b"/page"),
        (b":authority", authority.as_bytes()),
    ]
    .iter()
    .flat_map(|(name, value)| literal(name, value))
    .collect();
    let resets: Vec<u8> = (1..=127_u8)
        .step_by(2)
        .flat_map(|stream| {
            let begun = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
            [begun, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
        })
        .collect();
    let without_end = frame(CONTINUATION, 0, 1, &vec![0; 16_000]);
    let continued = [frame(HEADERS, 0, 1, &head), without_end.repeat(100)].concat();
    for flood in [resets, continued] {
        let tunnel = proxy.client().tunnel(&authority);
        let mut client = tunnel.secured(proxy.trusted(&["h2"]), "127.0.0.1").expect("a handshake");
        client.send(
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(SETTINGS, 0, 0, b"")].concat(),
        );
        // The proxy may well not read it to the end.
        let _ = client.try_send(flood);
        while client.try_read_bytes(1).is_some() {}
        assert_eq!(other.get("/page").status(), 200, "another connection goes on");
    }
}
