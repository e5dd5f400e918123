//! What an intermediary does to the heads of messages (RFC 9110 §7.6), both ways.

use crate::testkit::parties::{Origin, Proxy, Script, ok, ok_with};

#[test]
fn a1_a2_a4_the_request_line_and_host_are_made_from_the_target() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let authority = origin.address().to_string();
    for (target, line) in [
        ("/a/../b/%7e/%2F?q=%20&&x", "GET /a/../b/%7e/%2F?q=%20&&x"),
        ("", "GET /"),
        ("?only", "GET /?only"),
        ("//double//slash", "GET //double//slash"),
    ] {
        let response = client.exchange("GET", &origin.url(target), "Host: somewhere.else\r\n");
        assert_eq!(response.status(), 200, "{target}");
        let log = origin.log();
        let received = log.requests.last().expect("a request");
        assert_eq!(received.line(), line);
        assert_eq!(received.fields("host"), [authority.as_str()]);
    }
}

#[test]
fn c1_c2_c16_hop_by_hop_fields_of_a_request_end_here() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let fields = "Connection: close, X-Mine\r\nconnection: x-other , Host, Content-Length\r\nX-Mine: 1\r\nX-Other: 2\r\n\
                  Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: gzip\r\n\
                  Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nX-Kept: 3\r\nCookie: a=b\r\nAuthorization: Basic eQ==\r\n\
                  Content-Length: 0\r\nForwarded: for=x\r\n";
    let mut client = proxy.client();
    assert_eq!(client.exchange("POST", &origin.url("/page"), fields).status(), 200);
    client.assert_closed();
    let received = origin.received("/page");
    for name in [
        "connection",
        "x-mine",
        "x-other",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "upgrade",
        "http2-settings",
        "transfer-encoding",
    ] {
        assert_eq!(received.field(name), None, "{name} in {}", received.head);
    }
    for (name, value) in [
        ("x-kept", "3"),
        ("cookie", "a=b"),
        ("authorization", "Basic eQ=="),
        ("content-length", "0"),
        ("forwarded", "for=x"),
    ] {
        assert_eq!(received.field(name), Some(value), "{name} in {}", received.head);
    }
}

#[test]
fn c1_c2_c9_hop_by_hop_fields_of_a_response_end_here() {
    let fields = "Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\n\
                  Proxy-Authenticate: Basic\r\nProxy-Authentication-Info: x\r\nUpgrade: h2c\r\nX-Kept: 2\r\nServer: scripted\r\n\
                  ETag: \"x\"\r\nVary: Accept\r\nWWW-Authenticate: Basic\r\n";
    let origin = Origin::start().on("/page", ok_with(fields, "page"));
    let proxy = Proxy::start();
    let response = proxy.get(&origin.url("/page"));
    for name in [
        "x-mine",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authentication-info",
        "upgrade",
    ] {
        assert_eq!(response.field(name), None, "{name} in {}", response.head.0);
    }
    for (name, value) in [
        ("x-kept", "2"),
        ("server", "scripted"),
        ("etag", "\"x\""),
        ("vary", "Accept"),
        ("www-authenticate", "Basic"),
    ] {
        assert_eq!(response.field(name), Some(value), "{name} in {}", response.head.0);
    }
}

#[test]
fn c6_via_is_appended_both_ways() {
    let origin = Origin::start().on("/page", ok_with("Via: 1.0 edge\r\n", "page"));
    let proxy = Proxy::start();
    let response =
        proxy.exchange("GET", &origin.url("/page"), "Via: 1.1 first\r\nVia: 1.1 second\r\n");
    let theirs = response.head.all("via");
    assert!(
        theirs.len() == 2 && theirs[0] == "1.0 edge" && theirs[1].starts_with("1.1 courtesy"),
        "{theirs:?}"
    );
    let received = origin.received("/page");
    let ours = received.fields("via");
    assert_eq!(ours[..2], ["1.1 first", "1.1 second"]);
    assert!(ours.len() == 3 && ours[2].starts_with("1.1 courtesy"), "{ours:?}");

    let mut old = proxy.client();
    old.send(format!("GET {} HTTP/1.0\r\n\r\n", origin.url("/page"))).read();
    let received = origin.received("/page");
    assert!(
        received.fields("via")[0].starts_with("1.0 courtesy"),
        "as received: {:?}",
        received.fields("via")
    );
}

#[test]
fn field_names_of_answers_are_kept_those_of_requests_in_title_case() {
    let origin = Origin::start()
        .on("/page", ok_with("X-CamelCase: 1\r\nx-lower: 2\r\nETAG: \"x\"\r\n", "page"));
    let proxy = Proxy::start();
    let response =
        proxy.exchange("GET", &origin.url("/page"), "X-oDd: 1\r\naccept: x\r\nDNT: 1\r\n");
    for line in ["X-CamelCase: 1", "x-lower: 2", "ETAG: \"x\""] {
        assert!(response.head.has_line(line), "{line} in {}", response.head.0);
    }
    let head = origin.received("/page").head;
    for line in ["X-Odd: 1", "Accept: x", "Dnt: 1"] {
        assert!(head.lines().any(|it| it == line), "{line} in {head}");
    }
}

#[test]
fn c5_lines_of_one_name_keep_their_order_and_are_not_merged() {
    let cookies = "Set-Cookie: a=1; Expires=Wed, 01 Jan 2031 00:00:00 GMT\r\nX: 1\r\nSet-Cookie: b=2\r\nX: 2\r\nSet-Cookie: c=3\r\n";
    let origin = Origin::start().on("/page", ok_with(cookies, "page"));
    let proxy = Proxy::start();
    let response = proxy.exchange(
        "GET",
        &origin.url("/page"),
        "X-Many: 1\r\nX-One: x\r\nX-Many: 2\r\nX-Many: 3,4\r\n",
    );
    assert_eq!(
        response.head.all("set-cookie"),
        ["a=1; Expires=Wed, 01 Jan 2031 00:00:00 GMT", "b=2", "c=3"]
    );
    assert_eq!(response.head.all("x"), ["1", "2"]);
    assert_eq!(origin.received("/page").fields("x-many"), ["1", "2", "3,4"]);
}

/// A denial must be unmistakable: nobody else may say what only we say.
#[test]
fn our_own_words_are_taken_from_an_origins_mouth() {
    let forged = "Proxy-Status: courtesy; error=http_request_denied\r\nProxy-Status: edge; error=dns_error\r\n\
                  Proxy-Status: COURTESY\r\nCourtesy-Record: 01J\r\nCOURTESY-Other: x\r\n";
    let origin = Origin::start().on(
        "/page",
        Script::default().send(crate::testkit::parties::answer(403, forged, "forged")),
    );
    let proxy = Proxy::start();
    let response = proxy.get(&origin.url("/page"));
    assert_eq!(
        (response.status(), response.text().as_str()),
        (403, "forged"),
        "the origin's own answer"
    );
    assert_eq!(response.head.all("proxy-status"), ["edge; error=dns_error"]);
    assert_eq!((response.field("courtesy-record"), response.field("courtesy-other")), (None, None));
    assert!(proxy.records().is_empty());
}

#[test]
fn c8_a_date_is_added_only_where_there_is_none() {
    let date = "Thu, 01 Jan 2026 00:00:00 GMT";
    let origin = Origin::start()
        .on("/dated", ok_with(&format!("Date: {date}\r\n"), ""))
        .on("/undated", ok(""));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/dated")).head.all("date"), [date]);
    assert_eq!(proxy.get(&origin.url("/undated")).head.all("date").len(), 1);
}

/// RFC 9110 §7.6.2.
#[test]
fn c10_c11_max_forwards_counts_down_and_ends_here_at_zero() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let url = origin.url("/page");
    assert_eq!(proxy.exchange("OPTIONS", &url, "Max-Forwards: 3\r\n").status(), 200);
    assert_eq!(origin.received("/page").field("max-forwards"), Some("2"));
    assert_eq!(
        proxy.exchange("GET", &url, "Max-Forwards: 0\r\n").status(),
        200,
        "means nothing in a GET"
    );
    let before = origin.log().requests.len();
    let ends = proxy.exchange("OPTIONS", &url, "Max-Forwards: 0\r\n");
    assert_eq!((ends.status(), ends.field("allow").is_some()), (204, true));
    let traced = proxy.exchange("TRACE", &url, "Max-Forwards: 0\r\nCookie: secret\r\n");
    assert_eq!(traced.status(), 405);
    assert!(!traced.text().contains("secret"));
    assert_eq!(origin.log().requests.len(), before);
}

#[test]
fn b12_bytes_beyond_ascii_pass_in_values() {
    let origin = Origin::start().on("/page", ok_with("X-Latin: caf\u{e9}\r\n", ""));
    let proxy = Proxy::start();
    let response = proxy.exchange(
        "GET",
        &origin.url("/page"),
        "X-Latin: caf\u{e9}\r\nX-Tab: a\tb\r\nX-Empty:\r\n",
    );
    assert_eq!(response.field("x-latin"), Some("caf\u{e9}"));
    let received = origin.received("/page");
    assert_eq!(received.field("x-latin"), Some("caf\u{e9}"));
    assert_eq!((received.field("x-tab"), received.field("x-empty")), (Some("a\tb"), Some("")));
}
