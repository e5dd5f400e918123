//! What the policy does to requests: what reaches the origin, what the client is told, and what the
//! record says.

use std::time::Duration;

use courtesy::config::{AgentRule, Exemption, Mode, OriginRule, ProfileName};
use courtesy::policy::exemption::OriginPattern;
use courtesy::types::origin::host::Glob;
use courtesy::types::origin::split_url;
use courtesy::types::timestamp::Timestamp;
use http::StatusCode;

use crate::testkit::parties::{NOW, Origin, Proxy, Script, answer, ok, ok_with, request};

const RULES: &str =
    "# rules\nUser-agent: *\nDisallow: /private/\nDisallow: /*.zip$\nAllow: /private/open\n";

#[test]
fn a_disallowed_request_puts_not_an_byte_on_the_origins_wire() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for (path, status) in [
        ("/private/a", 403),
        ("/", 200),
        ("/private/open?q", 200),
        ("/a/b.zip", 403),
        ("/a/b.zip?x", 200),
        ("/%70rivate/a", 403),
        ("/x/../private/a", 403),
        ("/x/%2e%2E/private/a", 403),
        ("/PRIVATE/", 200),
    ] {
        assert_eq!(client.get(&origin.url(path)).status(), status, "{path}");
    }
    let expected =
        ["GET /robots.txt", "GET /", "GET /private/open?q", "GET /a/b.zip?x", "GET /PRIVATE/"];
    assert_eq!(origin.request_lines(), expected);
}

#[test]
fn every_method_is_judged() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    for method in
        ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "get"]
    {
        let response = proxy.exchange(method, &origin.url("/private/a"), "Content-Length: 0\r\n");
        response.assert_error(403, "http_request_denied");
    }
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
    assert_eq!(proxy.records().len(), 10);
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let response = proxy.exchange(method, &origin.url("/open"), "Content-Length: 0\r\n");
        assert_eq!(response.status(), 200, "{method}");
    }
    assert_eq!(origin.count("/open"), 8);
}

#[test]
fn d15_an_upgrade_is_judged_like_any_request() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    let response = proxy.exchange("GET", &origin.url("/private/socket"), fields);
    response.assert_error(403, "http_request_denied");
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn a_denial_names_the_line_the_file_and_the_record() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let response = proxy.exchange("GET", &origin.url("/private/a?b=c"), "Accept: */*\r\n");
    response.assert_error(403, "http_request_denied; details=\"robots.txt line 3\"");
    assert_eq!(response.field("content-type"), Some("application/problem+json"));
    assert!(response.json()["remedy"].as_str().is_some_and(|remedy| remedy.contains("exemption")));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    let problem = response.json();
    assert_eq!(problem["status"], 403);
    assert_eq!(problem["url"], origin.url("/private/a?b=c"));
    assert_eq!(problem["agent"], "ExampleBot");
    assert_eq!(problem["reason"], "disallow_rule");
    assert_eq!(problem["rule"]["line"], 3);
    assert_eq!(problem["rule"]["pattern"], "/private/");
    assert_eq!(problem["robots"]["url"], origin.url("/robots.txt"));

    let record = proxy.record();
    assert_eq!(response.field("courtesy-record"), record["id"].as_str());
    assert_eq!(problem["record"], record["id"]);
    assert_eq!(record["event"], "denied");
    assert_eq!(record["method"], "GET");
    assert_eq!(record["url"], origin.url("/private/a?b=c"));
    assert_eq!(record["origin"], origin.url(""));
    assert_eq!(record["robots"]["sha256"], problem["robots"]["sha256"]);
    assert_eq!(record["robots"]["state"], "rules");
    assert_eq!(record["client"]["address"], "127.0.0.1");
    // The line of the file that decided may come first.
    assert!([1, 2].map(serde_json::Value::from).contains(&record["seq"]), "{record}");
}

#[test]
fn the_record_is_in_the_file_before_the_denial_is_read() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for count in 1..=20 {
        let head = client.ask("HEAD", &origin.url("/private/a"), "").read_head();
        let records = proxy.records();
        assert_eq!(records.len(), count);
        assert_eq!(head.field("courtesy-record"), records[count - 1]["id"].as_str());
    }
}

#[test]
fn a_denial_comes_in_the_form_that_is_accepted() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    for (accept, content_type, begins) in [
        ("*/*", "application/problem+json", "{"),
        ("text/html,*/*;q=0.8", "text/html; charset=utf-8", "<!doctype html>"),
        ("text/plain", "text/plain; charset=utf-8", "Disallowed by robots.txt"),
        ("application/json;q=0.9, text/html;q=0.1", "application/problem+json", "{"),
    ] {
        let response =
            proxy.exchange("GET", &origin.url("/private/a"), &format!("Accept: {accept}\r\n"));
        assert_eq!(response.status(), 403, "{accept}: {}", response.text());
        assert_eq!(response.field("content-type"), Some(content_type), "{accept}");
        assert!(response.text().starts_with(begins), "{accept}: {}", response.text());
    }
}

#[test]
fn a_page_says_what_happened_then_the_cure_then_the_lines_that_decided() {
    let hostile = "</table><script>alert(1)</script>\u{202e}\u{1b}[2J";
    let origin = Origin::with_robots(&format!("User-agent: *\n# {hostile}\nDisallow: /private/\n"));
    let proxy = Proxy::start();
    let url = origin.url("/private/<i>");
    let response = proxy.exchange("GET", &url, "Accept: text/html\r\nUser-Agent: Shelfbot/1\r\n");
    let (page, id) =
        (response.text(), response.field("courtesy-record").expect("a record").to_owned());
    let parts = [
        "<h1>Disallowed by robots.txt</h1>",
        &format!("<p><code>GET {}</code> was refused: Line 3 of ", url.replace("<i>", "%3Ci%3E")),
        "<b>What to do:</b>",
        "<th>2</th><td><code># &lt;/table&gt;&lt;script&gt;alert(1)",
        "<th>3</th><td><code><mark>Disallow: /private/</mark>",
        &format!("<code>courtesy audit show {id}</code>"),
        "<details><summary>",
        "<th>robots.sha256</th>",
        "<th>profile</th>",
        "<th>time</th>",
    ];
    assert!(
        parts.map(|part| page.find(part).unwrap_or_else(|| panic!("{part} in {page}"))).is_sorted(),
        "{page}"
    );
    assert!(!page.contains("<script") && !page.contains(['\u{202e}', '\u{1b}']), "{page}");
    assert_eq!(page.matches("<mark>").count(), 1);
    let head = proxy.exchange("HEAD", &url, "Accept: text/html\r\nUser-Agent: Shelfbot/1\r\n");
    assert_eq!(head.status(), 403);
    let json = proxy.exchange("GET", &url, "User-Agent: Shelfbot/1\r\n");
    assert!(!json.text().contains("alert"), "only a page quotes the file: {}", json.text());
}

#[test]
fn a_denied_head_has_the_fields_of_the_get_and_no_content() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let url = origin.url("/private/a");
    let head = client.exchange("HEAD", &url, "");
    let get = client.get(&url);
    assert_eq!(head.status(), 403);
    assert_eq!(head.field("content-length"), get.field("content-length"));
    assert_eq!(head.field("content-type"), get.field("content-type"));
    assert_eq!(head.body, b"", "and the next answer on the connection was whole");
}

#[test]
fn b16_a_denied_upload_gets_its_answer_whole_though_nobody_reads_the_body() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    for framing in ["Content-Length: 900000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut client = proxy.client();
        client.ask("POST", &origin.url("/private/upload"), framing);
        // May fail once the proxy has closed, as it may: the answer must be there all the same.
        let sent = if framing.starts_with("Tr") { "dbba0\r\n" } else { "" };
        let _ = client.try_send([sent.as_bytes(), &vec![b'x'; 900_000]].concat());
        let response = client.read_to("POST");
        response.assert_error(403, "http_request_denied");
        assert_eq!(response.json()["reason"], "disallow_rule");
        assert_eq!(response.field("connection"), Some("close"), "the next request would be lost");
        client.assert_closed();
    }
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn a_robots_txt_is_answered_from_the_copy_that_decides() {
    let origin = Origin::start()
        .on("/robots.txt", ok_with("Content-Type: text/plain; charset=x\r\n", RULES));
    let proxy = Proxy::start();
    let url = origin.url("/robots.txt");
    let first = proxy.get(&url);
    assert_eq!((first.status(), first.text().as_str()), (200, RULES));
    assert_eq!(first.field("age"), Some("0"));
    proxy.clock.advance(Duration::from_secs(90));
    let later = proxy.get(&url);
    assert_eq!(later.text(), RULES);
    assert_eq!(later.field("age"), Some("90"));
    assert_eq!(later.field("content-type"), Some("text/plain; charset=x"));
    let head = proxy.exchange("HEAD", &url, "");
    assert_eq!(head.field("content-length"), Some(RULES.len().to_string().as_str()));
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn a_robots_txt_that_there_is_none_of_is_asked_of_the_origin() {
    let origin = Origin::start()
        .on("/robots.txt", Script::default().send(answer(404, "X-From: origin\r\n", "no")));
    let proxy = Proxy::start();
    let response = proxy.get(&origin.url("/robots.txt"));
    assert_eq!((response.status(), response.field("x-from")), (404, Some("origin")));
    assert_eq!(origin.count("/robots.txt"), 2);
}

#[test]
fn a_robots_txt_with_a_query_is_a_page_like_any_other() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /\n");
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/robots.txt")).status(), 200);
    assert_eq!(proxy.get(&origin.url("/robots.txt?x")).status(), 403);
    assert_eq!(proxy.get(&origin.url("/robots.txt/")).status(), 403);
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn a_method_that_writes_to_the_robots_txt_goes_to_the_origin() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    assert_eq!(
        proxy.exchange("PUT", &origin.url("/robots.txt"), "Content-Length: 0\r\n").status(),
        200
    );
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "PUT /robots.txt"]);
}

#[test]
fn c7_the_robots_txt_is_fetched_for_the_crawler_and_without_its_secrets() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    let fields = "Cookie: a=b\r\nAuthorization: Basic eA==\r\nProxy-Authorization: Basic eA==\r\nReferer: x\r\n";
    proxy.exchange("GET", &origin.url("/"), fields);
    let fetch = origin.received("/robots.txt");
    let authority = origin.address().to_string();
    assert_eq!(fetch.field("host"), Some(authority.as_str()));
    assert_eq!(
        fetch.field("user-agent"),
        Some(concat!("ExampleBot courtesy/", env!("CARGO_PKG_VERSION")))
    );
    for name in ["cookie", "authorization", "proxy-authorization", "referer"] {
        assert_eq!(fetch.field(name), None, "{name}");
    }
}

#[test]
fn observing_forwards_and_records_what_would_be_denied() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::with(|settings| settings.robots.mode = Mode::Observe);
    let response = proxy.get(&origin.url("/private/a"));
    assert_eq!(response.text(), "this is /private/a\n");
    assert_eq!(response.field("courtesy-record"), None);
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /private/a"]);
    let record = proxy.record();
    assert_eq!(
        (&record["event"], &record["reason"], &record["setting"]),
        (&"would_deny".into(), &"disallow_rule".into(), &"robots.mode".into())
    );
}

#[test]
fn observing_one_origin_enforces_at_the_others() {
    let origin = Origin::with_robots(RULES);
    let observed = split_url(origin.url("/").as_bytes()).expect("a URL").0;
    let proxy = Proxy::with(|settings| {
        settings.origins =
            vec![OriginRule { mode: Some(Mode::Observe), ..OriginRule::of(observed) }];
    });
    assert_eq!(proxy.get(&origin.url("/private/a")).status(), 200);
    assert_eq!(proxy.get(&origin.named("other", "/private/a")).status(), 403);
}

fn exemption(origin: &Origin, paths: &[&str], until: Timestamp) -> Exemption {
    Exemption {
        origin: OriginPattern::parse(&origin.url("")).expect("an origin"),
        paths: paths
            .iter()
            .map(|path| path.parse().expect("a path pattern"))
            .collect::<Vec<_>>()
            .into(),
        agents: vec!["examplebot".parse().expect("a token")],
        by: "webmaster@site.example".into(),
        reason: "written permission".into(),
        ticket: Some("T-1".into()),
        until,
        crawl_delay: None,
    }
}

#[test]
fn an_exemption_lets_pass_and_is_recorded_with_who_allowed_it() {
    let origin = Origin::with_robots(RULES);
    let allowed = exemption(&origin, &["/private/data/"], NOW.plus(Duration::from_secs(60)));
    let proxy = Proxy::with(|settings| settings.exemptions = vec![allowed]);
    assert_eq!(proxy.get(&origin.url("/private/data/1")).status(), 200);
    let record = proxy.record();
    assert_eq!(record["event"], "exempted");
    assert_eq!(record["exemption"]["by"], "webmaster@site.example");
    assert_eq!(record["exemption"]["ticket"], "T-1");
    assert_eq!(record["rule"]["line"], 3);

    assert_eq!(proxy.get(&origin.url("/private/else")).status(), 403, "another path");
    let other = proxy.exchange("GET", &origin.url("/private/data/1"), "User-Agent: OtherBot/1\r\n");
    assert_eq!(other.status(), 403, "another agent");
    proxy.clock.advance(Duration::from_secs(60));
    assert_eq!(proxy.get(&origin.url("/private/data/1")).status(), 403, "its time is over");
    assert_eq!(origin.count("/private/data/1"), 1);
}

#[test]
fn an_exemption_is_not_to_be_had_by_dot_segments_or_spelling() {
    let origin = Origin::with_robots(RULES);
    let allowed = exemption(&origin, &["/private/data/"], NOW.plus(Duration::from_secs(60)));
    let proxy = Proxy::with(|settings| settings.exemptions = vec![allowed]);
    for path in
        ["/private/data/../secret", "/private/data/%2e%2e/secret", "/private/data/x/../../secret"]
    {
        assert_eq!(proxy.get(&origin.url(path)).status(), 403, "{path}");
    }
    assert_eq!(
        proxy.get(&origin.url("/private/%64ata/1")).status(),
        200,
        "the same path, spelt otherwise"
    );
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /private/%64ata/1"]);
}

fn rule(matches: &str) -> AgentRule {
    AgentRule {
        matches: Glob::new(matches),
        token: None,
        mode: None,
        profile: None,
        deny_status: None,
        pace: None,
        max_wait: None,
        pace_status: None,
    }
}

#[test]
fn an_agents_rule_sets_token_mode_profile_and_status() {
    const FILE: &str = "User-agent: NewsBot\nDisallow: /news\n\nUser-agent: *\nDisallow: /private\nAllow: /private\n";
    let origin = Origin::with_robots(FILE);
    let proxy = Proxy::with(|settings| {
        settings.agents.rules = vec![
            AgentRule {
                token: Some("NewsBot".parse().expect("a token")),
                ..rule("python-requests/*")
            },
            AgentRule { mode: Some(Mode::Observe), ..rule("NewsBot-Test/*") },
            AgentRule { profile: Some(ProfileName::Koster1996), ..rule("OldBot/*") },
            AgentRule { deny_status: Some(StatusCode::TOO_MANY_REQUESTS), ..rule("*newsbot*") },
        ];
    });
    let status = |agent: &str, path: &str| {
        proxy.exchange("GET", &origin.url(path), &format!("User-Agent: {agent}\r\n")).status()
    };
    assert_eq!(status("python-requests/2.32", "/news"), 403, "as NewsBot");
    assert_eq!(status("OtherBot/1", "/news"), 200);
    assert_eq!(status("Mozilla/5.0 (compatible; NewsBot/2; +http://n.example/)", "/news"), 429);
    assert_eq!(status("OtherBot/1", "/private"), 200, "allow wins a tie");
    assert_eq!(status("OldBot/1", "/private"), 403, "the first match wins");
    let records = proxy.records();
    let told = |at: usize, name: &str| records[at][name].as_str().map(str::to_owned);
    assert_eq!(told(0, "agent_source").as_deref(), Some("configured"));
    assert_eq!(told(1, "agent_source").as_deref(), Some("user_agent"));
    assert_eq!(records[2]["profile"]["name"], "koster-1996");
    assert_eq!(
        origin.count("/robots.txt"),
        2,
        "the first agent's and the common copy, for every profile"
    );
}

#[test]
fn an_agents_mode_goes_before_the_general_one() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::with(|settings| {
        settings.agents.rules = vec![AgentRule { mode: Some(Mode::Observe), ..rule("Watcher/*") }];
    });
    let response = proxy.exchange("GET", &origin.url("/private/a"), "User-Agent: Watcher/1\r\n");
    assert_eq!(response.status(), 200);
    let record = proxy.record();
    assert_eq!(
        (&record["event"], &record["setting"]),
        (&"would_deny".into(), &"agents.rules[0].mode".into())
    );
    assert_eq!(proxy.get(&origin.url("/private/a")).status(), 403);
}

#[test]
fn a_request_without_user_agent_is_under_the_star_rules_or_refused() {
    let origin =
        Origin::with_robots("User-agent: ExampleBot\nDisallow: /\n\nUser-agent: *\nDisallow: /a\n");
    let anonymous = |path: &str| {
        let url = origin.url(path);
        format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")
    };
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.send(anonymous("/b")).read().status(), 200);
    assert_eq!(client.send(anonymous("/a")).read().status(), 403);
    assert_eq!(proxy.record()["agent_source"], "absent");

    let strict = Proxy::with(|settings| settings.agents.require = true);
    let before = origin.request_lines().len();
    let refused = strict.client().send(anonymous("/b")).read();
    refused.assert_error(403, "http_request_denied");
    assert_eq!(refused.json()["reason"], "agent_required");
    assert_eq!(strict.record()["reason"], "agent_required");
    assert_eq!(origin.request_lines().len(), before, "not even a robots.txt is asked for");
}

#[test]
fn the_status_of_denials_is_a_setting() {
    let origin = Origin::with_robots(RULES)
        .on("down/robots.txt", Script::default().send(answer(500, "", "")));
    let proxy = Proxy::with(|settings| {
        settings.deny.status = StatusCode::GONE;
        settings.deny.unreachable_status = StatusCode::SERVICE_UNAVAILABLE;
    });
    assert_eq!(proxy.get(&origin.url("/private/a")).status(), 410);
    let unreachable = proxy.get(&origin.named("down", "/"));
    unreachable.assert_error(503, "http_request_denied");
    let wait: u64 =
        unreachable.field("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=30).contains(&wait), "{wait}");
}

#[test]
fn rules_are_of_one_origin_and_of_no_other() {
    let origin = Origin::start()
        .on("a/robots.txt", ok("User-agent: *\nDisallow: /\n"))
        .on("b/robots.txt", ok("User-agent: *\nDisallow: /b\n"));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.named("a", "/x")).status(), 403);
    assert_eq!(proxy.get(&origin.named("b", "/x")).status(), 200);
    assert_eq!(proxy.get(&origin.named("B", "/b")).status(), 403, "in any case");
    // The target says where a request is for; Host does not.
    let mut client = proxy.client();
    client.send(request("GET", &origin.named("a", "/x"), "Host: b.localhost\r\n"));
    assert_eq!(client.read().status(), 403);
}
