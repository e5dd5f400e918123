//! Whose fault it is: malformed requests, bounds that are reached, origins that fail. Each has its
//! status, its RFC 9209 error type, and leaves the connection in a state that cannot be misread.

use std::time::Duration;

use courtesy::config::Mode;

use crate::testkit::parties::{Origin, Proxy, Script, answer, endless, refusing, request};

#[test]
fn a7_b8_b9_b10_an_invalid_request_gets_its_reason_and_a_close() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let url = origin.url("/page");
    let get = |fields: &str| format!("GET {url} HTTP/1.1\r\n{fields}\r\n");
    let host = "Host: x\r\n";
    for (sent, status, reason) in [
        ("garbage\r\n\r\n".to_owned(), 400, "is not a method, a target and a version"),
        (
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}\r\n\r\n".to_owned(),
            400,
            "TLS",
        ),
        ("\u{4}\u{1}\u{0}\u{50}\u{7f}\u{0}\u{0}\u{1}\u{0}".to_owned(), 400, "SOCKS"),
        (get("Host : x\r\n"), 400, "blank before the colon"),
        (get(&format!("{host}X: a\r\n folded\r\n")), 400, "folded"),
        (get(&format!("{host}X: a\0b\r\n")), 400, "control character"),
        (get(&format!("{host}X: a\rb\r\n")), 400, "control character"),
        (get(&format!("{host}no colon\r\n")), 400, "has no colon"),
        (get(&format!("{host}: empty name\r\n")), 400, "no token"),
        (get(&format!(" leading: blank\r\n{host}")), 400, ""),
        (get(""), 400, "must have a Host"),
        (get("Host: a\r\nHost: b\r\n"), 400, "Host"),
        (get("Host: a\r\nHost: a\r\n"), 400, "Host"),
        (get("Host: a b\r\n"), 400, "Host"),
        (get("Host: user@a\r\n"), 400, "Host"),
        (format!("GET /page HTTP/1.1\r\nHost: {}\r\n\r\n", origin.address()), 400, "absolute URL"),
        (format!("GET {url} HTTP/2.0\r\n{host}\r\n"), 400, "does not end in HTTP/1.1"),
        (format!("GET {url}\r\n\r\n"), 400, "is not a method, a target and a version"),
        (format!("GET  {url} HTTP/1.1\r\n{host}\r\n"), 400, "one blank between"),
        (format!("G(T {url} HTTP/1.1\r\n{host}\r\n"), 400, "does not begin with a method"),
        ("GET http:///page HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        ("GET http://user:pw@127.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        ("GET http://127.1/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        ("GET http://0x7f000001/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        ("GET http://2130706433/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        ("GET http://127.0.0.1:99999/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        ("GET http://127.0.0.1:0/ HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400, ""),
        (get(&format!("{host}Content-Length: x\r\n")), 400, "digits only"),
        (get(&format!("{host}Content-Length: +4\r\n")), 400, "digits only"),
        (get(&format!("{host}Content-Length: 99999999999999999999\r\n")), 400, ""),
        (get(&format!("{host}Content-Length: 4\r\nContent-Length: 5\r\n")), 400, ""),
        (get(&format!("{host}Transfer-Encoding: gzip\r\n")), 400, ""),
        (get(&format!("{host}Transfer-Encoding: chunked, gzip\r\n")), 400, ""),
    ] {
        let mut client = proxy.client();
        // As bytes of ISO 8859-1, so that a ClientHello is one.
        let bytes: Vec<u8> =
            sent.chars().map(|byte| u8::try_from(u32::from(byte)).expect("a byte")).collect();
        client.send(bytes);
        let response = client.read();
        assert_eq!(response.status(), status, "{sent:?}: {}", response.text());
        response.assert_error(status, "http_request_error");
        assert!(response.text().contains(reason), "{sent:?}: {}", response.text());
        assert_eq!(response.field("connection"), Some("close"), "{sent:?}");
        client.assert_closed();
    }
    assert_eq!(origin.log().connections, 0);
    assert!(proxy.records().is_empty(), "nobody was denied anything");
}

/// Bytes behind a malformed request are never a request (RFC 9112 §11.2).
#[test]
fn b14_what_follows_a_malformed_request_is_not_processed() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let good = request("GET", &origin.url("/good"), "");
    let mut client = proxy.client();
    client.send(format!("{good}GET http://x/ HTTP/1.1\r\nHost : x\r\n\r\n{good}"));
    assert_eq!(client.read().status(), 200);
    assert_eq!(client.read().status(), 400);
    client.assert_closed();
    assert_eq!(origin.count("/good"), 1);
}

/// RFC 9112 §6.3: one of the two lies.
#[test]
fn b1_a_length_beside_chunks_is_never_passed_on() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    ] {
        let mut client = proxy.client();
        client.ask("POST", &origin.url("/up"), fields);
        let _ =
            client.try_send(format!("0\r\n\r\n{}", request("GET", &origin.url("/smuggled"), "")));
        client.read().assert_error(400, "http_request_error");
        client.assert_closed();
    }
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn b3_chunks_in_a_request_of_http_1_0_are_not_passed_on() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client
        .send(format!("POST {} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", origin.url("/up")));
    let _ = client.try_send("0\r\n\r\n");
    assert_eq!(client.read().status(), 400);
    client.assert_closed();
    assert_eq!(origin.count("/up"), 0);
}

#[test]
fn b5_b6_a_body_whose_framing_breaks_is_not_taken_for_whole() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    for body in [
        "zz\r\n",
        "-1\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3 \u{0}\r\nabc\r\n0\r\n\r\n",
    ] {
        let mut client = proxy.client();
        client.ask("POST", &origin.url("/up"), "Transfer-Encoding: chunked\r\n");
        let _ = client.try_send(body);
        client.finish_sending();
        client.read_to("POST").assert_error(400, "http_request_error");
        client.assert_closed();
    }
    assert!(origin.log().requests.iter().filter(|it| it.path() == "/up").all(|it| !it.whole));
}

#[test]
fn a12_what_this_proxy_does_not_serve_is_told_so() {
    let proxy = Proxy::start();
    for (line, told) in [("GET ftp://ftp.example/file", "ftp"), ("GET gopher://x/", "gopher")] {
        let response = proxy.client().send(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n")).read();
        response.assert_error(501, "http_request_error");
        assert!(
            response.json()["detail"].as_str().is_some_and(|detail| detail.contains(told)),
            "{line}"
        );
    }
}

/// The body would reach the origin still coded, with nothing that says so.
#[test]
fn b2_a_transfer_coding_besides_chunked_is_refused() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    for codings in ["gzip, chunked", "chunked, chunked", "gzip\r\nTransfer-Encoding: chunked"] {
        let mut client = proxy.client();
        client.ask("POST", &origin.url("/up"), &format!("Transfer-Encoding: {codings}\r\n"));
        let _ = client.try_send("0\r\n\r\n");
        let refused = client.read();
        refused.assert_error(400, "http_request_error");
        assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains("chunked")));
        client.assert_closed();
    }
    assert_eq!(origin.count("/up"), 0);
}

/// Optimistic bytes behind a refused CONNECT are never run as a request.
#[test]
fn b21_a_refused_connect_closes_the_connection() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let inside = request("GET", &origin.url("/inside"), "");
    client.send(format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n{inside}", origin.address()));
    let refused = client.read();
    refused.assert_error(403, "http_request_denied");
    assert!(
        refused.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("egress.connect_ports"))
    );
    client.assert_closed();
    assert_eq!(origin.count("/inside"), 0);
}

#[test]
fn options_for_the_proxy_itself_end_here() {
    let response = Proxy::start().client().send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").read();
    assert_eq!((response.status(), response.field("allow").is_some()), (204, true));
}

#[test]
fn the_proxys_own_page_says_what_it_is() {
    let proxy = Proxy::start();
    let page = proxy.get("http://courtesy.internal/");
    assert_eq!(
        (page.status(), page.field("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    assert_eq!(proxy.get("http://courtesy.internal/problems/disallowed").status(), 200);
    assert_eq!(proxy.get("http://courtesy.internal/nothing").status(), 404);
}

#[test]
fn b13_empty_lines_before_a_request_are_passed_over() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.send("\r\n".to_owned() + &request("GET", &origin.url("/page"), ""));
    assert_eq!(client.read().status(), 200);
}

#[test]
fn a8_b19_a_head_that_is_too_large_is_told_so() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let long = format!("X-Long: {}\r\n", "x".repeat(80 * 1024));
    let many = "X-Many: y\r\n".repeat(150);
    for fields in [long, many] {
        let mut client = proxy.client();
        client.ask("GET", &origin.url("/page"), &fields);
        client.read().assert_error(431, "http_request_error");
        client.assert_closed();
    }
    let mut client = proxy.client();
    let _ = client.try_send(request("GET", &origin.url(&format!("/{}", "x".repeat(100_000))), ""));
    let status = client.read().status();
    assert!(matches!(status, 414 | 431), "{status}");
    client.assert_closed();
    assert_eq!(origin.log().connections, 0);
    let long_but_fair = origin.url(&format!("/{}", "x".repeat(8000)));
    assert_eq!(proxy.get(&long_but_fair).status(), 200, "RFC 9112 §3: at least 8000 bytes");
}

#[test]
fn slowloris_a_head_that_comes_too_slowly_is_told_so() {
    let proxy = Proxy::with(|settings| settings.limits.header_timeout = Duration::from_millis(200));
    let mut client = proxy.client();
    client.send("GET http://x/ HTTP/1.1\r\nHost: ");
    client.read().assert_error(408, "http_request_error");
    client.assert_closed();
}

#[test]
fn a_body_that_stalls_ends_the_exchange() {
    let origin = Origin::start();
    let proxy =
        Proxy::with(|settings| settings.limits.body_idle_timeout = Duration::from_millis(200));
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/up"), "Content-Length: 10\r\n").send("begin");
    origin.wait_until("the origin sees the end", |log| log.abandoned == 1);
    client.read_to("POST").assert_error(408, "http_request_error");
    client.assert_closed();
    assert!(!origin.received("/up").whole);
}

#[test]
fn an_answer_that_stalls_ends_visibly() {
    let stalls =
        Script::default().send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegin").hold();
    let origin = Origin::start().on("/page", stalls);
    let proxy =
        Proxy::with(|settings| settings.limits.body_idle_timeout = Duration::from_millis(200));
    let cut =
        proxy.client().ask("GET", &origin.url("/page"), "").try_read("GET").expect_err("not whole");
    assert_eq!(cut.body, b"begin");
    assert_ne!(cut.error.kind(), std::io::ErrorKind::WouldBlock, "the connection was left open");
    origin.wait_until("the origin sees the end", |log| log.abandoned == 1);
}

/// It goes on to hold its end. One that reads slowly is not cut off (`l8_…` of the load plan).
#[test]
fn a_client_that_reads_nothing_of_an_answer_is_cut_off() {
    for is_secure in [false, true] {
        let origin =
            if is_secure { Origin::secure() } else { Origin::start() }.on("/large", endless());
        let proxy = Proxy::before(&[&origin], |settings| {
            settings.limits.body_idle_timeout = Duration::from_millis(200);
        });
        let mut client = if is_secure { proxy.https(&origin.authority()) } else { proxy.client() };
        let target = if is_secure { "/large".to_owned() } else { origin.url("/large") };
        client.ask("GET", &target, "");
        origin.wait_until("the transfer has ended", |log| log.abandoned == 1);
        drop(client);
    }
}

/// Seen in observe mode: enforced, an origin whose robots.txt cannot be had gets no request at all.
#[test]
fn c17_an_origin_that_cannot_be_reached_is_named_with_its_failure() {
    let (_held, address) = refusing();
    let proxy = Proxy::with(|settings| settings.robots.mode = Mode::Observe);
    proxy.get(&format!("http://{address}/")).assert_error(502, "connection_refused");
    proxy.get("http://no-such-name.invalid/").assert_error(502, "dns_error");
    assert_eq!(proxy.records().len(), 2, "both would be denied");
}

#[test]
fn c17_an_origin_that_goes_away_is_named_with_its_failure() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /no\n");
    let url = origin.url("/page");
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&url).status(), 200);
    drop(origin);
    proxy.get(&url).assert_error(502, "connection_refused");
}

#[test]
fn c17_an_origin_that_does_not_answer_in_time_is_named_with_its_failure() {
    let origin = Origin::start().on("/slow", Script::default().hold());
    let proxy =
        Proxy::with(|settings| settings.egress.response_timeout = Duration::from_millis(200));
    proxy.get(&origin.url("/slow")).assert_error(504, "http_response_timeout");
    origin.wait_until("the origin sees the end", |log| log.abandoned == 1);
    assert_eq!(origin.count("/slow"), 1);
}

#[test]
fn d1_d4_an_answer_that_is_no_http_is_not_passed_on() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let mut origin = Origin::start();
    let cases = [
        ("garbage\r\n\r\n".to_owned(), "http_protocol_error"),
        ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), "http_protocol_error"),
        ("HTTP/1.1 2000 OK\r\n\r\n".to_owned(), "http_protocol_error"),
        ("HTTP/1.1 099 OK\r\n\r\n".to_owned(), "http_protocol_error"),
        ("HTTP/2.0 200 OK\r\n\r\n".to_owned(), "http_protocol_error"),
        (format!("{ok}Content-Length: x\r\n\r\n"), "http_protocol_error"),
        (format!("{ok}Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody"), "http_protocol_error"),
        (format!("{ok}Content-Length: -4\r\n\r\nbody"), "http_protocol_error"),
        (format!("{ok}X: a\0b\r\n\r\n"), "http_protocol_error"),
        (
            format!("{ok}X-Long: {}\r\n\r\n", "x".repeat(200_000)),
            "http_response_header_section_size",
        ),
        (String::new(), "connection_terminated"),
        (ok.to_owned(), ""),
    ];
    for (number, (bytes, _)) in cases.iter().enumerate() {
        origin = origin.on(&format!("/{number}"), Script::default().send(bytes).close());
    }
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for (number, (bytes, error)) in cases.iter().enumerate() {
        let response = client.get(&origin.url(&format!("/{number}")));
        assert_eq!(response.status(), 502, "{:.80}: {}", bytes.escape_debug(), response.text());
        response.assert_error(502, error);
        assert!(
            response.json()["type"].as_str().is_some_and(|uri| uri.ends_with("/origin-failed"))
        );
    }
}

#[test]
fn algorithm_1_loopback_is_refused_by_every_name_unless_it_is_allowed() {
    let origin = Origin::start();
    let proxy = Proxy::with(|settings| settings.egress.allow = Vec::new());
    let port = origin.address().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "x.localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "169.254.169.254",
        "10.1.2.3",
    ] {
        let response = proxy.get(&format!("http://{host}:{port}/page"));
        response.assert_error(403, "destination_ip_prohibited");
        assert_eq!(response.reason(), "origin_refused", "{host}");
        assert!(
            response.json()["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains("egress.allow"))
        );
        let records = proxy.records();
        let record = records.last().expect("a record");
        assert_eq!(
            (&record["reason"], record["id"].as_str()),
            (&"origin_refused".into(), response.field("courtesy-record"))
        );
    }
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn algorithm_6_what_is_denied_to_the_way_out_wins_over_what_is_allowed() {
    let origin = Origin::start();
    let proxy = Proxy::with(|settings| {
        settings.egress.deny = vec!["127.0.0.1/32".parse().expect("a block")]
    });
    proxy.get(&origin.url("/page")).assert_error(403, "destination_ip_prohibited");
    assert_eq!(origin.log().connections, 0);
}

/// What two readers could take for different bodies is passed on to neither (RFC 9112 §6.3). Of a
/// robots.txt nothing else is passed on, and it is read where all readers find the same file.
#[test]
fn d1_an_answer_whose_end_is_ambiguous_is_not_passed_on() {
    let chunks = "\r\n5\r\nhello\r\n0\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\n";
    let cases = [
        (format!("{ok}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n{chunks}"), true),
        (format!("{ok}Transfer-Encoding: chunked\r\nContent-Length: 15\r\n{chunks}"), true),
        (format!("{ok}Transfer-Encoding: chunked, chunked\r\n{chunks}"), true),
        (format!("{ok}Transfer-Encoding: gzip, chunked\r\n{chunks}"), false),
        (format!("{ok}Transfer-Encoding: gzip\r\n{chunks}"), false),
        (format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n{chunks}"), false),
        (format!("{ok}Content-Length: 2, 2\r\n\r\nhi"), true),
        (format!("{ok}X: a\r\n folded\r\nContent-Length: 0\r\n\r\n"), true),
        (format!("{ok}X: a\rContent-Length: 9\r\nContent-Length: 0\r\n\r\n"), true),
    ];
    let mut origin = Origin::start();
    for (number, (bytes, _)) in cases.iter().enumerate() {
        let script = Script::default().send(bytes).close();
        origin = origin
            .on(&format!("/{number}"), script.clone())
            .on(&format!("o{number}/robots.txt"), script);
    }
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for (number, (bytes, is_read)) in cases.iter().enumerate() {
        let response = client.get(&origin.url(&format!("/{number}")));
        assert_eq!(response.status(), 502, "{bytes:?}: {}", response.text());
        response.assert_error(502, "http_protocol_error");
        let page = client.get(&origin.named(&format!("o{number}"), "/page"));
        if *is_read {
            assert_eq!(page.status(), 200, "{bytes:?}: {}", page.text());
        } else {
            assert_eq!(page.reason(), "robots_unreachable", "{bytes:?}");
        }
    }
}

/// The wrong answers of one origin are no other origin's business.
#[test]
fn a_broken_origin_leaves_the_clients_connection_in_order() {
    let origin = Origin::start()
        .on("/broken", Script::default().send("garbage").close())
        .on("/fine", Script::default().send(answer(200, "", "fine")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for _ in 0..3 {
        assert_eq!(client.get(&origin.url("/broken")).status(), 502);
        assert_eq!(client.get(&origin.url("/fine")).text(), "fine");
    }
}
