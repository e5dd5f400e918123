//! HTTPS that is intercepted: what runs inside a tunnel takes the same path as any request, over
//! HTTP/1.1 and HTTP/2 alike.

use crate::support::{Origin, Proxy, Script, answer, ok, ok_with, request, until};

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
    assert_eq!((&record["url"], &record["path_seen"]), (&origin.url("/private/a?b").into(), &true.into()));
    assert_eq!(denied.json()["url"], record["url"]);
}
