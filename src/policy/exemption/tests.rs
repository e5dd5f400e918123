use super::*;

const UNTIL: Timestamp = Timestamp::from_millis(2_000);
const BEFORE: Timestamp = Timestamp::from_millis(1_999);

fn exemption(origin: &str, paths: &[&str], agents: &[&str]) -> Exemption {
    Exemption {
        origin: OriginPattern::parse(origin).expect("a pattern"),
        paths: Paths::new(paths.iter().map(|path| path.parse().unwrap()).collect()),
        agents: agents.iter().map(|agent| agent.parse().unwrap()).collect(),
        by: "legal@example.org".into(),
        reason: "written permission".into(),
        ticket: None,
        until: UNTIL,
        crawl_delay: None,
    }
}

#[track_caller]
fn check(exemption: Exemption, cases: &[(&str, Option<&str>, bool)]) {
    let exemptions = Exemptions::new(vec![exemption]);
    for &(url, agent, expected) in cases {
        let (origin, path) = split_url(url.as_bytes()).expect("a URL");
        assert_eq!(
            exemptions.find(&origin, &path, agent, BEFORE).is_some(),
            expected,
            "{url} {agent:?}"
        );
    }
}

#[test]
fn an_origin_is_exempted_exactly() {
    check(
        exemption("https://Example.com", &[], &[]),
        &[
            ("https://example.com/x", None, true),
            ("https://example.com:443/x", Some("ExampleBot"), true),
            ("http://example.com/x", None, false),
            ("https://example.com:8443/x", None, false),
            ("https://www.example.com/x", None, false),
        ],
    );
}

#[test]
fn a_wildcard_is_matched_on_labels() {
    check(
        exemption("*.example.com", &[], &[]),
        &[
            ("https://www.example.com/", None, true),
            ("http://a.b.EXAMPLE.com./", None, true),
            ("https://example.com/", None, false),
            ("https://notexample.com/", None, false),
            ("https://www.example.com.evil.test/", None, false),
            ("https://www.example.com:8443/", None, false),
            ("ftp://www.example.com/", None, false),
        ],
    );
}

#[test]
fn paths_and_agents_narrow_it() {
    check(
        exemption("https://example.com", &["/open/", "/data"], &["ExampleBot"]),
        &[
            ("https://example.com/open/x", Some("examplebot"), true),
            ("https://example.com/database", Some("ExampleBot"), true),
            ("https://example.com/open", Some("ExampleBot"), false),
            ("https://example.com/%6Fpen/x", Some("ExampleBot"), true),
            ("https://example.com/open/../closed", Some("ExampleBot"), false),
            ("https://example.com/open/%2e%2e/closed", Some("ExampleBot"), false),
            ("https://example.com/closed/../open/x", Some("ExampleBot"), true),
            ("https://example.com/open/x", Some("ExampleBot2"), false),
            ("https://example.com/open/x", None, false),
        ],
    );
}

#[test]
fn what_would_widen_a_pattern_is_refused() {
    for text in ["", "open", "/open#x", "/open\n/closed"] {
        assert_eq!(text.parse::<PathPattern>().unwrap_err(), NotAPattern(text.to_owned()));
    }
}

#[test]
fn an_expired_exemption_does_not_apply() {
    let exemptions = Exemptions::new(vec![exemption("https://example.com", &[], &[])]);
    let (origin, path) = split_url(b"https://example.com/").expect("a URL");
    assert!(exemptions.find(&origin, &path, None, UNTIL).is_none());
}

#[test]
fn a_pattern_that_is_neither_is_refused() {
    for pattern in [
        "*example.com",
        "*.",
        "*.10.0.0.1",
        "*.example.com:8443",
        "https://example.com/x",
        "example.com",
    ] {
        assert!(OriginPattern::parse(pattern).is_err(), "{pattern}");
    }
}
