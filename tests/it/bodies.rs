//! Bodies and interim responses on their way: streamed, in every framing, and never faster than the
//! other side takes them.

use std::time::Duration;

use socket2::SockRef;

use crate::testkit::parties::{
    Log, Origin, Proxy, Script, answer, endless, ok, ok_with, request, until,
};

/// Of one of these the end is with us, and not yet with the system, when the answer is over.
#[test]
fn an_upload_that_was_answered_early_still_goes_out_whole() {
    let early = Script::default().send(answer(202, "", "later")).hold().read_body();
    let uploads: Vec<_> =
        (1..=24).map(|number| (format!("/jobs/{number}"), vec![b'x'; number << 18])).collect();
    let origin =
        uploads.iter().fold(Origin::start(), |origin, (path, _)| origin.on(path, early.clone()));
    let proxy = Proxy::start();
    let answered = answer(202, "", "later").len() * uploads.len();
    std::thread::scope(|scope| {
        for (number, (path, upload)) in uploads.iter().enumerate() {
            // Each to an origin of its own: over a connection of one whose upload has gone out, the next request
            // would come behind bytes that are not read before all are answered.
            let (mut client, url) = (proxy.client(), origin.named(&format!("job{number}"), path));
            let fields = format!("Content-Length: {}\r\n", upload.len());
            scope.spawn(move || {
                assert_eq!(client.ask("POST", &url, &fields).send(upload).read().text(), "later")
            });
        }
        origin.wait_until("all are answered", |log| {
            let jobs = log.requests.iter().filter(|it| it.path().starts_with("/jobs/"));
            jobs.count() == uploads.len() && log.sent >= answered
        });
        origin.release();
    });
    origin.wait_until("all uploads are there", |log| {
        let is_there = |(path, upload): &(String, Vec<u8>)| {
            log.requests.iter().any(|it| it.path() == *path && it.body.len() == upload.len())
        };
        uploads.iter().all(is_there)
    });
}

#[test]
fn d6_a_response_is_passed_on_as_it_comes() {
    let script = Script::default()
        .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        .hold()
        .send("later");
    let origin = Origin::start().on("/page", script);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(
        client.ask("GET", &origin.url("/page"), "").read_head().field("content-length"),
        Some("10")
    );
    assert_eq!(client.read_bytes(5), b"first");
    origin.release();
    assert_eq!(client.read_bytes(5), b"later");
}

#[test]
fn d6_a_request_body_is_passed_on_as_it_comes() {
    let origin = Origin::start().on(
        "/up",
        Script::default()
            .send("HTTP/1.1 103 Early\r\n\r\n")
            .read_body()
            .send(answer(200, "", "done")),
    );
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/up"), "Content-Length: 10\r\n").send("first");
    origin.wait_until("the head is there", |log| {
        log.requests.iter().any(|it| it.path() == "/up" && !it.whole)
    });
    assert_eq!(client.read_head().status(), 103, "the origin speaks while the body is on its way");
    client.send("later");
    assert_eq!(client.read().text(), "done");
    assert_eq!(origin.received("/up").body, b"firstlater");
}

#[test]
fn d6_a_client_that_does_not_read_stops_the_origin_from_sending() {
    let origin = Origin::start().on("/large", endless());
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/large"), "").read_head();
    origin.wait_until("the origin's writes block", |log| log.stalls >= 2);
    let sent = origin.log().sent;
    assert!(sent < 64 << 20, "{sent} bytes went somewhere");
    // It goes on where it was, and ends with the client.
    let more = client.read_bytes(sent + (4 << 20));
    assert!(more.iter().all(|byte| *byte == b'x'));
    drop(client);
    origin.wait_until("the transfer has ended", |log| log.abandoned == 1);
}

#[test]
fn d6_an_origin_that_does_not_read_stops_the_client_from_sending() {
    let origin = Origin::start()
        .on("/up", Script::default().leave_body().hold().read_body().send(answer(200, "", "done")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("PUT", &origin.url("/up"), "Transfer-Encoding: chunked\r\n");
    let piece = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    let (sent, left) = client.send_until_stalled(&piece);
    assert!(sent < 64 << 20, "{sent} bytes went somewhere");
    origin.release();
    client.send(left).send("0\r\n\r\n");
    assert_eq!(client.read().text(), "done");
    let received = origin.received("/up").body.len();
    assert_eq!(received % (1 << 20), 0, "whole pieces: {received}");
    assert!(received >= sent / piece.len() * (1 << 20));
}

#[test]
fn chunked_bodies_pass_both_ways() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=\"a\"\r\nabc\r\n0002\r\nde\r\n0\r\n\r\n";
    let origin = Origin::start().on("/up", Script::default().send(chunked));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/up"), "Transfer-Encoding: chunked\r\n");
    client.send("2\r\nab\r\n3;x\r\ncde\r\n0\r\n\r\n");
    let response = client.read();
    assert_eq!(response.body, b"abcde");
    assert_eq!(response.head.all("transfer-encoding"), ["chunked"]);
    let received = origin.received("/up");
    assert_eq!(
        (received.body.as_slice(), received.fields("transfer-encoding")),
        (b"abcde".as_slice(), vec!["chunked"])
    );
    assert_eq!(received.field("content-length"), None);
    assert_eq!(client.get(&origin.url("/next")).status(), 200, "the connection goes on");
}

#[test]
fn b7_trailers_pass_both_ways() {
    let answer = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n";
    let origin = Origin::start().on("/up", Script::default().send(answer));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask(
        "POST",
        &origin.url("/up"),
        "TE: trailers\r\nConnection: TE\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n",
    );
    client.send("1\r\na\r\n0\r\nX-Sum: 2\r\n\r\n");
    let response = client.read();
    assert_eq!(response.trailers.to_ascii_lowercase(), "x-sum: 1\r\n");
    let received = origin.received("/up");
    assert_eq!(received.trailers.to_ascii_lowercase(), "x-sum: 2\r\n");
    assert_eq!(received.field("te"), Some("trailers"));
}

#[test]
fn c13_early_hints_are_passed_on() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nCourtesy-Record: forged\r\n\r\n";
    let origin = Origin::start().on(
        "/page",
        Script::default().send(hints).send(hints).hold().send(answer(200, "", "page")),
    );
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/page"), "");
    for _ in 0..2 {
        let head = client.read_head();
        assert_eq!((head.status(), head.field("link")), (103, Some("</style.css>; rel=preload")));
        assert_eq!(head.field("courtesy-record"), None);
    }
    origin.release();
    assert_eq!(client.read().text(), "page");
}

#[test]
fn c13_a_flood_of_interim_responses_is_bounded() {
    let flood = "HTTP/1.1 102 Processing\r\n\r\n".repeat(1000);
    let origin =
        Origin::start().on("/page", Script::default().send(flood).send(answer(200, "", "page")));
    let proxy = Proxy::start();
    let response = proxy.get(&origin.url("/page"));
    assert_eq!(response.text(), "page");
    assert!(response.interim.len() <= 16, "{} were passed on", response.interim.len());
    let endless = Script::default().endless("HTTP/1.1 102 Processing\r\n\r\n".repeat(100));
    let origin = Origin::start().on("/page", endless);
    proxy.get(&origin.url("/page")).assert_error(502, "http_protocol_error");
    origin.wait_until("the origin sees the end", |log| log.abandoned == 1);
}

#[test]
fn c13_d10_a_client_of_http_1_0_gets_no_interim_responses_and_no_chunks() {
    let page = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let origin = Origin::start().on("/page", Script::default().send(page));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.send(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/page")));
    let response = client.read();
    assert_eq!(
        (response.status(), response.body.as_slice(), response.interim.len()),
        (200, b"abc".as_slice(), 0)
    );
    assert_eq!(
        (response.field("transfer-encoding"), response.field("content-length")),
        (None, None)
    );
    client.assert_closed();
    assert!(
        origin.received("/page").head.starts_with("GET /page HTTP/1.1\r\n"),
        "we speak our own version"
    );
}

#[test]
fn d10_an_origin_of_http_1_0_is_understood() {
    let origin = Origin::start()
        .on("/page", Script::default().send("HTTP/1.0 200 OK\r\nX: y\r\n\r\nto the end").close());
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let response = client.get(&origin.url("/page"));
    assert_eq!((response.text().as_str(), response.field("x")), ("to the end", Some("y")));
    assert!(response.head.0.starts_with("HTTP/1.1 200"), "{}", response.head.0);
    assert_eq!(client.get(&origin.url("/next")).status(), 200, "the client's connection goes on");
}

#[test]
fn c12_a_body_is_sent_only_after_the_origin_has_asked_for_it() {
    let origin = Origin::start().on(
        "/up",
        Script::default()
            .leave_body()
            .hold()
            .send("HTTP/1.1 100 Continue\r\n\r\n")
            .read_body()
            .send(answer(200, "", "done")),
    );
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("PUT", &origin.url("/up"), "Expect: 100-continue\r\nContent-Length: 4\r\n");
    origin.wait_until("the head is there", |log| log.requests.iter().any(|it| it.path() == "/up"));
    assert_eq!(origin.received("/up").field("expect"), Some("100-continue"));
    origin.release();
    assert_eq!(client.read_head().status(), 100);
    client.send("body");
    assert_eq!(client.read().text(), "done");
    assert_eq!(origin.received("/up").body, b"body");
}

#[test]
fn c12_a_body_that_the_origin_refuses_is_never_asked_for() {
    for fields in ["Connection: close\r\n", ""] {
        let refusing = Script::default().leave_body().send(answer(417, fields, "no"));
        let origin = Origin::start().on("/up", refusing.read_body());
        let proxy = Proxy::start();
        for _ in 0..20 {
            let mut client = proxy.client();
            client.ask("PUT", &origin.url("/up"), "Expect: 100-continue\r\nContent-Length: 4\r\n");
            let response = client.read();
            assert_eq!((response.status(), response.interim.len()), (417, 0), "no 100 before it");
            client.assert_closed();
        }
        assert!(origin.log().requests.iter().all(|request| request.body.is_empty()));
    }
}

#[test]
fn c12_a_body_that_the_policy_refuses_is_never_asked_for() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /\n");
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("PUT", &origin.url("/up"), "Expect: 100-continue\r\nContent-Length: 4\r\n");
    let response = client.read();
    assert_eq!((response.status(), response.interim.len()), (403, 0), "RFC 9110 §10.1.1");
}

/// RFC 9110 §10.1.1: an origin that does not know the expectation waits for the body in silence.
#[test]
fn c12_an_origin_that_never_says_100_gets_the_body_all_the_same() {
    let origin = Origin::start().on("/up", ok("done"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("PUT", &origin.url("/up"), "Expect: 100-continue\r\nContent-Length: 4\r\n");
    assert_eq!(client.read_head().status(), 100);
    client.send("body");
    assert_eq!(client.read().text(), "done");
    assert_eq!(origin.received("/up").body, b"body");
}

#[test]
fn c12_an_unknown_expectation_is_said_so() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    assert_eq!(proxy.exchange("GET", &origin.url("/"), "Expect: tea\r\n").status(), 417);
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn d2_a_truncated_body_stays_visibly_truncated() {
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let length = format!("{head}Content-Length: 10\r\n\r\nhello");
    let origin = Origin::start()
        .on("/chunked/close", Script::default().send(&chunked).close())
        .on("/chunked/reset", Script::default().send(&chunked).reset())
        .on("/chunked/bad", Script::default().send(format!("{chunked}zz\r\n")).close())
        .on("/length/close", Script::default().send(&length).close())
        .on("/length/reset", Script::default().send(&length).reset());
    let proxy = Proxy::start();
    for path in
        ["/chunked/close", "/chunked/reset", "/chunked/bad", "/length/close", "/length/reset"]
    {
        let mut client = proxy.client();
        match client.ask("GET", &origin.url(path), "").try_read("GET") {
            Err(cut) => assert!(b"hello".starts_with(&cut.body), "{path}: {cut:?}"),
            // A reset may overtake the head: then there was no answer at all.
            Ok(response) => assert_eq!(response.status(), 502, "{path}: {}", response.head.0),
        }
    }
}

#[test]
fn f7_a_page_that_breaks_off_at_any_byte_is_never_taken_for_whole() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\npa\r\n2;x=y\r\nge\r\n0\r\nX: y\r\n\r\n";
    let wholes = [("length", answer(200, "X: y\r\n", "page")), ("chunked", chunked.into())];
    let mut origin = Origin::start();
    for (framing, whole) in &wholes {
        for cut in 0..whole.len() {
            let begun = Script::default().send(&whole[..cut]);
            origin = origin.on(&format!("/{framing}/{cut}/close"), begun.clone().close());
            origin = origin.on(&format!("/{framing}/{cut}/reset"), begun.reset());
        }
    }
    let proxy = Proxy::start();
    for (framing, whole) in &wholes {
        let cuts = 0..whole.len();
        for path in
            cuts.flat_map(|cut| ["close", "reset"].map(|end| format!("/{framing}/{cut}/{end}")))
        {
            let mut client = proxy.client();
            match client.ask("GET", &origin.url(&path), "").try_read("GET") {
                Ok(response) => {
                    assert_eq!(response.status(), 502, "{path}");
                    assert_eq!(client.get(&origin.url("/next")).status(), 200, "{path}");
                }
                Err(_) => client.assert_closed(),
            }
        }
    }
}

/// A truncated request must not look complete to the origin (RFC 9112 §8).
#[test]
fn b17_a_truncated_request_stays_visibly_truncated() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    for framing in ["Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut client = proxy.client();
        client.ask("POST", &origin.url("/up"), framing);
        client.send(if framing.starts_with('C') { "hello" } else { "5\r\nhello\r\n" });
        origin.wait_until("the head is there", |log| {
            log.requests.last().is_some_and(|it| it.path() == "/up")
        });
        client.finish_sending();
        let before = origin.log().abandoned;
        origin.wait_until("the origin sees the end", |log| {
            log.abandoned > before || !log.requests.last().expect("one").whole && log.abandoned > 0
        });
        assert!(!origin.received("/up").whole, "{framing}");
    }
}

/// RFC 9112 §9.5. A reset is seen at once; an end is probed, for it may be that of one side only (§9.6).
#[test]
fn d7_a_client_that_leaves_before_the_answer_frees_the_origin() {
    let origin = Origin::start().on("/slow", Script::default().hold());
    let proxy = Proxy::start();
    for (number, reset) in [true, false].into_iter().enumerate() {
        let mut client = proxy.client();
        client.ask("GET", &origin.url("/slow"), "");
        let slow = |log: &Log| log.requests.iter().filter(|it| it.path() == "/slow").count();
        origin.wait_until("the request is there", |log| slow(log) == number + 1);
        let stream = client.into_tcp();
        if reset {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("an option");
        }
        drop(stream);
        origin.wait_until("the origin sees the end", |log| log.abandoned == number + 1);
    }
}

/// A client that is still there is probed too, and gets its answer behind the probes.
#[test]
fn d8_a_client_that_waits_longer_than_it_is_probed_gets_its_answer() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "").finish_sending();
    assert_eq!(client.read_head().status(), 100, "RFC 9110 §15.2.1: may be discarded");
    origin.release();
    assert_eq!(client.read().text(), "late");
    client.assert_closed();
}

/// The time of an upload is the client's; the origin's begins when it has all that there is.
#[test]
fn an_upload_may_take_longer_than_the_answer_to_it() {
    let origin = Origin::start().on("/up", ok("done"));
    let limit = Duration::from_millis(300);
    let proxy = Proxy::with(|settings| settings.egress.response_timeout = limit);
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/up"), "Content-Length: 6\r\n");
    for byte in ["u", "p", "l", "o", "a", "d"] {
        client.send(byte);
        std::thread::park_timeout(limit / 2);
    }
    assert_eq!(client.read().text(), "done");
    assert_eq!(origin.received("/up").body, b"upload");
}

/// Half-closing says "no more requests", not "no more answers" (RFC 9112 §9.6).
#[test]
fn d8_a_client_that_has_finished_sending_still_gets_its_answer() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "").finish_sending();
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
    origin.release();
    assert_eq!(client.read().text(), "late");
    client.assert_closed();
}

#[test]
fn d6_an_early_answer_passes_while_the_upload_runs() {
    let origin = Origin::start().on(
        "/up",
        Script::default()
            .leave_body()
            .send(answer(413, "Connection: close\r\n", "too large"))
            .hold(),
    );
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/up"), "Content-Length: 1000000\r\n").send("begin");
    let response = client.read();
    assert_eq!((response.status(), response.text().as_str()), (413, "too large"));
    assert_eq!(response.field("connection"), Some("close"), "nobody reads the rest");
}

#[test]
fn d3_responses_that_have_no_body_have_none_whatever_their_fields_say() {
    let origin = Origin::start()
        .on("/204", Script::default().send("HTTP/1.1 204 No Content\r\n\r\n"))
        .on(
            "/304",
            Script::default()
                .send("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nETag: \"x\"\r\n\r\n"),
        )
        .on("/head", Script::default().send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/204")).status(), 204);
    assert_eq!(client.get(&origin.url("/304")).field("etag"), Some("\"x\""));
    assert_eq!(
        client.exchange("HEAD", &origin.url("/head"), "").field("content-length"),
        Some("100")
    );
    assert_eq!(client.get(&origin.url("/next")).text(), "this is /next\n");
}

/// Bytes behind an answer must never become the next one (I2).
#[test]
fn d3_bytes_behind_an_answer_are_no_answer() {
    let poisoned = [answer(200, "", "first"), answer(200, "", "poison")].concat();
    let origin = Origin::start().on("/first", Script::default().send(poisoned));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/first")).text(), "first");
    assert_eq!(client.get(&origin.url("/second")).text(), "this is /second\n");
    assert_eq!(client.get(&origin.url("/third")).text(), "this is /third\n");
}

/// The same, when they come late: the connection has gone back to the others by then.
#[test]
fn d3_bytes_that_an_idle_connection_brings_are_no_answer() {
    // Longer than the first, so that it is not taken for that when the bytes are counted.
    let poison = answer(200, "", "poison".repeat(9));
    let late = Script::default().send(answer(200, "", "first")).hold().send(&poison);
    let origin = Origin::start().on("/first", late);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/first")).text(), "first");
    let sent = origin.log().sent;
    origin.release();
    origin.wait_until("the bytes are sent", |log| log.sent >= sent + poison.len());
    assert_eq!(client.get(&origin.url("/second")).text(), "this is /second\n");
    assert_eq!(client.get(&origin.url("/third")).text(), "this is /third\n");
}

/// Bytes of a body that nobody read must never become a request (I1).
#[test]
fn b16_the_body_of_a_request_that_was_answered_early_is_no_request() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /no\n").on(
        "/refused",
        Script::default().leave_body().send(answer(413, "Connection: close\r\n", "")).close(),
    );
    let proxy = Proxy::start();
    let smuggled = request("GET", &origin.url("/smuggled"), "");
    for path in ["/no", "/refused"] {
        for expect in ["", "Expect: 100-continue\r\n"] {
            for framing in [
                format!("Content-Length: {}\r\n", smuggled.len()),
                "Transfer-Encoding: chunked\r\n".into(),
            ] {
                let mut client = proxy.client();
                // At once, as a client does that does not wait to be asked.
                let head = request("POST", &origin.url(path), &format!("{expect}{framing}"));
                client.send(format!("{head}{smuggled}"));
                let status = client.read().status();
                assert!(status >= 400, "{status}");
                // The connection may go on or be closed, but only with what is a request.
                let _ = client.try_send(request("GET", &origin.url("/next"), ""));
                if let Ok(response) = client.try_read("GET") {
                    assert!(
                        response.status() == 400 || response.text() == "this is /next\n",
                        "{}",
                        response.text()
                    );
                }
            }
        }
    }
    assert_eq!(origin.count("/smuggled"), 0);
}

#[test]
fn d11_pipelined_requests_are_answered_in_order() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /2\n")
        .on("/1", Script::default().drip(answer(200, "", "one"), Duration::ZERO));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let all: String = ["/1", "/2", "/3", "/robots.txt", "/5"]
        .map(|path| request("GET", &origin.url(path), ""))
        .concat();
    client.send(all);
    assert_eq!(client.read().text(), "one");
    assert_eq!(client.read().status(), 403);
    assert_eq!(client.read().text(), "this is /3\n");
    assert_eq!(client.read().text(), "User-agent: *\nDisallow: /2\n");
    assert_eq!(client.read().text(), "this is /5\n");
    until("all is counted", || origin.log().requests.len() == 4);
}

#[test]
fn a_large_body_arrives_byte_for_byte() {
    let body: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let origin = Origin::start().on("/up", ok_with("X: y\r\n", &body));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client
        .ask("PUT", &origin.url("/up"), &format!("Content-Length: {}\r\n", body.len()))
        .send(&body);
    assert!(client.read().body == body, "the answer");
    assert!(origin.received("/up").body == body, "the upload");
}
