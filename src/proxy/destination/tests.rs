//! Targets and headers of requests, and the destination that each is read as.

use http::header::USER_AGENT;
use http::{Request, Version};

use super::*;

fn of(method: &str, uri: &str, hosts: &[&str]) -> Result<String, u16> {
    let mut request = Request::builder().method(method).uri(uri);
    for host in hosts {
        request = request.header(HOST, *host);
    }
    let parts = request.body(()).unwrap().into_parts().0;
    match destination(&parts, &Scope::AnyOrigin, false) {
        Ok(Destination::Resource(target)) => Ok(target.to_string()),
        Ok(other) => Ok(format!("{other:?}")),
        Err(rejection) => Err(rejection.status().as_u16()),
    }
}

#[test]
fn the_target_counts_and_the_path_stays_as_written() {
    let ok =
        |uri: &str, expected: &str| assert_eq!(of("GET", uri, &["other"]).as_deref(), Ok(expected));
    ok("http://Example.com/a/../%7e?x", "http://example.com/a/../%7e?x");
    ok("http://example.com:80", "http://example.com/");
    ok("http://example.com?q", "http://example.com/?q");
    ok("https://example.com:8443/", "https://example.com:8443/");
}

#[test]
fn a10_a12_what_is_no_proxy_request_is_refused() {
    assert_eq!(of("GET", "/metrics", &["127.0.0.1:3128"]), Err(400));
    assert_eq!(of("GET", "/", &["example.com"]), Err(400));
    assert!(of("GET", "/", &["127.0.0.1:3128"]).unwrap().starts_with("OwnPage"));
    assert_eq!(of("GET", "ftp://example.com/", &["a"]), Err(501));
    assert_eq!(of("GET", "http://user@example.com/", &["a"]), Err(400));
    assert_eq!(of("GET", "http://127.1/", &["a"]), Err(400));
    assert_eq!(of("CONNECT", "example.com:443", &["example.com:443"]).as_deref(), Ok("Connect"));
    assert_eq!(of("OPTIONS", "*", &["a"]).as_deref(), Ok("ProxyItself"));
    assert!(of("GET", "http://courtesy.internal/", &["x"]).unwrap().starts_with("OwnPage"));
}

#[test]
fn inside_a_connect_nothing_names_another_host() {
    let scope = Scope::Origin(Origin::from_authority(Scheme::Https, "example.com").unwrap());
    let of = |uri: &str, host: Option<&str>, version| {
        let mut request = Request::builder().uri(uri).version(version);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        match destination(&parts, &scope, false) {
            Ok(Destination::Resource(target)) => Ok(target.to_string()),
            Ok(other) => panic!("{other:?}"),
            Err(rejection) => Err(rejection.status().as_u16()),
        }
    };
    let (h1, h2) = (Version::HTTP_11, Version::HTTP_2);
    let x = || Ok("https://example.com/x".to_owned());
    assert_eq!(of("/x", Some("Example.com"), h1), x());
    assert_eq!(of("/x", Some("example.com:443"), h1), x());
    assert_eq!(of("https://example.com/x", None, h2), x());
    assert_eq!(of("https://example.com/x", Some("example.com"), h1), x());
    for (uri, host, version) in [
        ("/x", Some("other.example"), h1),
        ("/x", Some("example.com:8443"), h1),
        ("*", Some("example.com"), h1),
        ("http://example.com/x", Some("example.com"), h1),
        ("https://other.example/x", Some("example.com"), h1),
        ("https://other.example/x", None, h2),
        ("https://example.com/x", Some("other.example"), h2),
    ] {
        assert_eq!(of(uri, host, version), Err(400), "{uri} {host:?}");
    }
}

#[test]
fn two_user_agents_are_refused() {
    let of = |method: &str, uri: &str, agents: &[&str]| {
        let mut request = Request::builder().method(method).uri(uri).header(HOST, "a");
        for agent in agents {
            request = request.header(USER_AGENT, *agent);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        destination(&parts, &Scope::AnyOrigin, false)
            .map(drop)
            .map_err(|rejection| rejection.status().as_u16())
    };
    for (method, uri) in [("GET", "http://a/"), ("CONNECT", "a:443"), ("OPTIONS", "*")] {
        assert_eq!(of(method, uri, &[]), Ok(()), "{method}");
        assert_eq!(of(method, uri, &["OneBot"]), Ok(()), "{method}");
        for two in
            [&["OneBot", "TwoBot"][..], &["OneBot", "OneBot"], &["", "OneBot"], &["a", "b", "c"]]
        {
            assert_eq!(of(method, uri, two), Err(400), "{method} {two:?}");
        }
    }
}

#[test]
fn a3_host_must_be_there_once_and_valid() {
    assert_eq!(of("GET", "http://a/", &[]), Err(400));
    assert_eq!(of("GET", "http://a/", &["a", "a"]), Err(400));
    assert_eq!(of("GET", "http://a/", &["a b"]), Err(400));
    for host in ["u@a", "a:b", "a:99999", ":80"] {
        assert_eq!(of("GET", "http://a/", &[host]), Err(400), "{host}");
    }
    for host in ["", "b", "b:80", "b:", "[::1]:80"] {
        assert!(of("GET", "http://a/", &[host]).is_ok(), "{host}");
    }
}
