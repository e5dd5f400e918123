//! The agent that is judged is the one that the origin sees, whatever a client does with its fields.

use serde_json::Value;

use crate::testkit::parties::{Origin, Proxy, answer, connect, request};

/// For one crawler nothing is allowed, for others everything.
const RULES: &str = "User-agent: ShutBot\nDisallow: /\n\nUser-agent: *\nDisallow:\n";
const OPEN: &str = "User-Agent: OpenBot/1.0\r\n";
const SHUT: &str = "User-Agent: ShutBot/1.0\r\n";

/// What tries to be judged as one agent, and to be seen as another.
fn two_agents() -> Vec<String> {
    vec![
        format!("{OPEN}{SHUT}"),
        format!("{SHUT}{OPEN}"),
        format!("{SHUT}{SHUT}"),
        format!("User-Agent:\r\n{SHUT}"),
        format!("user-agent: OpenBot\r\nX-Between: 1\r\nUSER-AGENT: ShutBot\r\n"),
        format!("{OPEN}{OPEN}{SHUT}"),
    ]
}

#[test]
fn a3_of_two_agents_none_is_judged_and_none_is_sent() {
    let (plain, secure) = (Origin::start().robots(RULES), Origin::secure().robots(RULES));
    let proxy = Proxy::before(&[&plain, &secure], |_| {});
    for fields in two_agents() {
        let head = |target: &str, host: &str| {
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
        };
        let next = request("GET", &plain.url("/smuggled"), "");
        let to_proxy = head(&plain.url("/page"), &plain.authority()) + &next;
        let inside = head("/page", &secure.authority()) + &next;
        let in_clear = head("/page", &plain.authority()) + &next;
        for (mut client, bytes) in [
            (proxy.client(), to_proxy),
            (proxy.client().tunnel(&plain.authority()), in_clear),
            (proxy.https(&secure.authority()), inside),
            (proxy.client(), connect(&secure.authority(), &fields)),
        ] {
            client.send(bytes);
            client.read().assert_error(400, "http_request_error");
            client.assert_closed();
        }
    }
    let client = proxy.h2(&secure.authority());
    for second in ["ShutBot/1.0", "", "OpenBot/1.0"] {
        let asked = client.request("GET", "/page").header("user-agent", second);
        client.answer(client.ask(asked)).assert_error(400, "http_request_error");
    }
    assert_eq!(client.get("/page").status, 200, "the other streams go on");
    assert_eq!(plain.request_lines(), Vec::<String>::new());
    assert_eq!(secure.request_lines(), ["GET /robots.txt", "GET /page"]);
    assert_eq!(proxy.records(), Vec::<Value>::new());
}

/// RFC 9110 §7.6.1: what `Connection` names is for one hop, but what a message is judged by is not.
#[test]
fn c3_connection_strips_nothing_that_is_judged() {
    let origin = Origin::start()
        .robots(RULES)
        .on("/page", crate::testkit::parties::Script::default().send(answer(200, "", "")));
    let proxy = Proxy::start();
    for (number, options) in [
        "user-agent",
        "User-Agent, close",
        "X-One,\tUSER-AGENT ,X-Two",
        "keep-alive\r\nConnection: user-agent",
        "user-agent, via, host, content-length, expect, max-forwards",
    ]
    .into_iter()
    .enumerate()
    {
        let fields = format!("Via: 1.1 before\r\nX-One: 1\r\nConnection: {options}\r\n");
        let head = |agent: &str| {
            let url = origin.url("/page");
            format!("GET {url} HTTP/1.1\r\nHost: {}\r\n{agent}{fields}\r\n", origin.authority())
        };
        assert_eq!(proxy.client().send(head(OPEN)).read().status(), 200, "{options}");
        let received = origin.log().requests.last().expect("a request").clone();
        assert_eq!(received.field("user-agent"), Some("OpenBot/1.0"), "{options}");
        assert!(
            received.field("via").is_some_and(|via| via.starts_with("1.1 before")),
            "{options}"
        );
        assert_eq!(proxy.client().send(head(SHUT)).read().status(), 403, "{options}");
        assert_eq!(origin.count("/page"), number + 1, "{options}");
    }
}

/// A trailer that some server merges into the head would be another agent there (RFC 9110 §6.5.1).
#[test]
fn b7_no_trailer_names_another_agent() {
    let origin = Origin::start().robots(RULES);
    let proxy = Proxy::start();
    let chunked = "0\r\nUser-Agent: ShutBot/1.0\r\nX-Kept: 1\r\n\r\n";
    let fields = format!("{OPEN}Transfer-Encoding: chunked\r\nTrailer: User-Agent, X-Kept\r\n");
    let url = origin.url("/page");
    let mut client = proxy.client();
    client.send(format!(
        "POST {url} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n{chunked}",
        origin.authority()
    ));
    assert_eq!(client.read_to("POST").status(), 200);
    let received = origin.received("/page");
    assert_eq!(received.field("user-agent"), Some("OpenBot/1.0"));
    assert_eq!(received.trailers.to_ascii_lowercase(), "x-kept: 1\r\n");
}
