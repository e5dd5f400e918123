//! When origins end connections: idle ones with 408, those that they said they would end, and what
//! ends none.

use crate::testkit::parties::h2_origin::{END_STREAM, Step, data, head, whole};
use crate::testkit::parties::{H2Origin, Origin, Proxy, Script, answer, ok};

/// RFC 9110 §15.5.9: the origin gave up an idle connection while a request was on its way.
#[test]
fn a_408_on_a_reused_connection_is_asked_again_where_that_is_safe() {
    let timeout = || Script::default().send(answer(408, "Connection: close\r\n", "")).close();
    for (method, is_repeated) in [("GET", true), ("HEAD", true), ("DELETE", true), ("POST", false)]
    {
        for is_secure in [false, true] {
            let origin = if is_secure { Origin::secure() } else { Origin::start() };
            let page = ok(if method == "HEAD" { "" } else { "page" });
            let origin =
                origin.on("/first", ok("first")).on("/page", timeout()).then("/page", page);
            let proxy = Proxy::before(&[&origin], |settings| settings.workers = Some(1));
            let mut client =
                if is_secure { proxy.https(&origin.authority()) } else { proxy.client() };
            assert_eq!(client.get(&origin.url("/first")).text(), "first");
            let response = client.exchange(method, &origin.url("/page"), "");
            let expected = if is_repeated { 200 } else { 408 };
            assert_eq!(response.status(), expected, "{method}, over TLS: {is_secure}");
            let sent = format!("{method} /page");
            let count = origin.request_lines().iter().filter(|line| **line == sent).count();
            assert_eq!(count, if is_repeated { 2 } else { 1 }, "{method}, over TLS: {is_secure}");
        }
    }
}

/// One to a request by a new connection, or to both, is the origin's word.
#[test]
fn a_408_on_a_new_connection_is_passed_on() {
    let timeout = || Script::default().send(answer(408, "", "slow"));
    let origin = Origin::start().on("/first", ok("first")).on("/page", timeout());
    let proxy = Proxy::with(|settings| settings.workers = Some(1));
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/page")).text(), "slow");
    assert_eq!(client.get(&origin.url("/first")).text(), "first");
    assert_eq!(client.get(&origin.url("/page")).status(), 408);
    let count = origin.request_lines().iter().filter(|line| *line == "GET /page").count();
    assert_eq!(count, 3, "one, and twice by the kept connection");
}

/// RFC 2068 §19.7.1.1, and what Apache, Node.js and others send.
#[test]
fn a_connection_is_kept_as_long_as_its_origin_says() {
    for (fields, connections) in [
        ("Keep-Alive: timeout=0\r\n", 3),
        ("Keep-Alive: timeout=60, max=99\r\n", 1),
        ("Keep-Alive: max=99\r\n", 1),
        ("", 1),
    ] {
        let page = Script::default().send(answer(200, fields, "page"));
        let origin = Origin::secure().on("/robots.txt", page.clone()).on("/page", page);
        let proxy = Proxy::before(&[&origin], |settings| settings.workers = Some(1));
        let mut client = proxy.https(&origin.authority());
        for _ in 0..2 {
            assert_eq!(client.get("/page").text(), "page");
        }
        assert_eq!(origin.log().connections, connections, "{fields:?}");
    }
}

/// Some origins send an empty DATA frame with each flush.
#[test]
fn empty_data_frames_end_no_connection() {
    let mut page = vec![head(200, 0)];
    for _ in 0..300 {
        page.extend([data("", 0), data("x", 0)]);
    }
    page.extend(std::iter::repeat_n(data("", 0), 300));
    page.extend([Step::Padding(0), data("end", END_STREAM)]);
    let origin = H2Origin::start(vec![whole(404, ""), page]);
    let proxy = Proxy::before_ports(&[origin.address().port()], |settings| {
        settings.workers = Some(1);
    });
    let mut client = proxy.https(&origin.authority());
    for _ in 0..3 {
        let response = client.get("/page");
        assert_eq!((response.status(), response.text()), (200, "x".repeat(300) + "end"));
    }
    let log = origin.log();
    assert_eq!((log.connections, log.go_aways.as_slice()), (1, &[][..]), "{log:?}");
}

/// A flood of them, without anything else, ends it.
#[test]
fn a_flood_of_empty_data_frames_ends_its_connection() {
    let mut flood = vec![head(200, 0)];
    flood.extend(std::iter::repeat_n(data("", 0), 3000));
    flood.push(Step::Hold);
    let origin = H2Origin::start(vec![whole(404, ""), flood]);
    let proxy = Proxy::before_ports(&[origin.address().port()], |_| {});
    let mut client = proxy.https(&origin.authority());
    assert!(client.ask("GET", "/page", "").try_read("GET").is_err());
}
