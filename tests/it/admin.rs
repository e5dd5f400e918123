//! The admin listener: health, readiness and metrics of a proxy at work, and who is not answered.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use courtesy::audit::FILE_NAME;

use crate::testkit::parties::{Client, Origin, Proxy, Response, Script, answer, until};

/// An answer to exactly this head.
#[track_caller]
fn ask(proxy: &Proxy, head: &str) -> Response {
    let mut client = Client::connect(proxy.admin_address());
    let method = head.split(' ').next().unwrap();
    let response = client.send(format!("{head}\r\n\r\n")).read_to(method);
    client.assert_closed();
    response
}

/// The samples of a text in OpenMetrics, by name and labels, each family being whole and in order:
/// what it is about, its type, its unit if it has one, and samples that go by its name.
#[track_caller]
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (lines, end) = text.rsplit_once("# EOF\n").expect("an end");
    assert_eq!(end, "");
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let mut lines = lines.lines().peekable();
    while let Some(help) = lines.next() {
        let (family, about) =
            help.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')).expect(help);
        assert!(about.len() > 10 && about.ends_with('.'), "{help}");
        assert!(families.insert(family), "{family} comes twice");
        let kind = lines
            .next()
            .and_then(|it| it.strip_prefix(&format!("# TYPE {family} ")))
            .expect(family);
        if let Some(unit) = lines.next_if(|line| line.starts_with("# UNIT ")) {
            let unit = unit.strip_prefix(&format!("# UNIT {family} ")).expect(unit);
            assert!(family.ends_with(&format!("_{unit}")), "{family} in {unit}");
        }
        let names = match kind {
            "counter" => vec![format!("{family}_total")],
            "gauge" => vec![family.to_owned()],
            "histogram" => ["sum", "count", "bucket"].map(|part| format!("{family}_{part}")).into(),
            other => panic!("{family} is a {other}"),
        };
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let (sample, value) = sample.rsplit_once(' ').expect(sample);
            let name = sample.split('{').next().unwrap_or_default().to_owned();
            assert!(names.contains(&name), "{sample} in {family}");
            let value = value.parse().expect("a number");
            assert!(samples.insert(sample.to_owned(), value).is_none(), "{sample} comes twice");
        }
    }
    samples
}

#[track_caller]
pub fn metrics(proxy: &Proxy) -> BTreeMap<String, f64> {
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let response =
        ask(proxy, &format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}"));
    assert_eq!(response.status(), 200);
    let kind = response.field("content-type");
    assert_eq!(kind, Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    samples(&response.text())
}

#[test]
fn the_metrics_are_those_of_the_traffic() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /private/\n")
        .on("/broken", Script::default().close());
    let down = Origin::start().on("/robots.txt", Script::default().send(answer(500, "", "")));
    let proxy = Proxy::start();
    let before = metrics(&proxy);
    for path in ["/", "/a", "/robots.txt", "/private/a", "/private/b", "/private/c", "/broken"] {
        proxy.get(&origin.url(path));
    }
    proxy.get(&down.url("/"));
    let after = metrics(&proxy);
    let rose: BTreeMap<_, _> = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(*value))
        // Bytes, lengths and what the store writes when it likes are looked at below. A connection ends
        // when the proxy has seen the end of it.
        .filter(|(name, _)| !name.contains("_bytes") && !name.starts_with("courtesy_store_"))
        .filter(|(name, _)| !name.contains("_connections") && !name.contains("_duration_"))
        // The files that decide have lines, too, which no response waits for.
        .filter(|(name, _)| name.as_str() != "courtesy_audit_head_seq")
        // Of the process, whatever its traffic.
        .filter(|(name, _)| !name.starts_with("process_"))
        .map(|(name, value)| (name.as_str(), *value - before.get(name).unwrap_or(&0.0)))
        .collect();
    let expected = BTreeMap::from([
        ("courtesy_requests_total{outcome=\"forwarded\"}", 2.0),
        ("courtesy_requests_total{outcome=\"copy\"}", 1.0),
        ("courtesy_requests_total{outcome=\"denied\"}", 4.0),
        ("courtesy_requests_total{outcome=\"failed\"}", 1.0),
        ("courtesy_client_protocol_total{protocol=\"http1\"}", 8.0),
        ("courtesy_denials_total{reason=\"disallow_rule\"}", 3.0),
        ("courtesy_denials_total{reason=\"robots_unreachable\"}", 1.0),
        ("courtesy_decisions_total{decision=\"allow\",basis=\"no_rule\"}", 3.0),
        ("courtesy_decisions_total{decision=\"allow\",basis=\"robots_txt_itself\"}", 1.0),
        ("courtesy_decisions_total{decision=\"deny\",basis=\"rule\"}", 3.0),
        ("courtesy_decisions_total{decision=\"deny\",basis=\"unreachable\"}", 1.0),
        ("courtesy_egress_failures_total{error=\"connection_terminated\"}", 1.0),
        ("courtesy_robots_fetches_total{result=\"successful\"}", 1.0),
        ("courtesy_robots_fetches_total{result=\"status_5xx\"}", 1.0),
        ("courtesy_cache_entries", 2.0),
        ("courtesy_cache_files", 1.0),
        ("courtesy_cache_hits_total", 6.0),
        ("courtesy_cache_misses_total", 2.0),
        ("courtesy_audit_records_total", 4.0),
        // The failure is remembered for a while.
        ("courtesy_pace_lanes", 1.0),
    ]);
    assert_eq!(rose, expected);
    assert!(after["courtesy_audit_head_seq"] >= 4.0);
    assert!(after["courtesy_cache_bytes"] > 0.0);
    let lengths = |phase: &str, part: &str| {
        after[&format!("courtesy_request_duration_seconds_{part}{{phase=\"{phase}\"}}")]
    };
    // Two had to wait for a robots.txt; of the pages that were asked for one gave no answer.
    let counts = ["robots", "wait", "upstream", "total"].map(|phase| lengths(phase, "count"));
    assert_eq!(counts, [2.0, 0.0, 2.0, 8.0]);
    assert!(lengths("connect", "count") >= 2.0);
    assert!(lengths("total", "sum") > lengths("robots", "sum") && lengths("robots", "sum") > 0.0);
    let endless = "courtesy_request_duration_seconds_bucket{le=\"+Inf\",phase=\"total\"}";
    assert_eq!(after[endless], 8.0);
    assert_eq!(after["courtesy_audit_written_bytes_total"], log_bytes(&proxy));
    assert_eq!(
        (after["courtesy_store_loads_total"], after["courtesy_store_load_hits_total"]),
        (2.0, 0.0)
    );
    until("both origins are in the store", || {
        metrics(&proxy)["courtesy_store_writes_total"] >= 2.0
    });
    let kept = metrics(&proxy);
    assert!(
        kept["courtesy_store_writes_total"] >= 2.0 && kept["courtesy_store_content_bytes"] > 0.0
    );
    assert!(kept["courtesy_store_file_bytes"] >= kept["courtesy_store_content_bytes"]);
    let version = format!("courtesy_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(after[&version], 1.0);
    assert_eq!(after["process_start_time_seconds"], 1_767_225_600.0);
}

fn log_bytes(proxy: &Proxy) -> f64 {
    let bytes = std::fs::metadata(proxy.audit_dir().join(FILE_NAME)).expect("the log").len();
    bytes as f64
}

#[test]
fn a_request_under_way_is_counted_as_that() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
    assert_eq!(metrics(&proxy)["courtesy_requests_under_way"], 1.0);
    origin.release();
    client.read();
    let after = metrics(&proxy);
    assert_eq!(after["courtesy_requests_under_way"], 0.0);
    assert_eq!(after["courtesy_requests_total{outcome=\"failed\"}"], 0.0);
}

#[test]
fn a_proxy_that_drains_lives_and_is_not_ready() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let mut proxy = Proxy::start();
    assert_eq!(
        (proxy.admin("/healthz").text().as_str(), proxy.admin("/readyz").status()),
        ("ok\n", 200)
    );
    let ready = proxy.admin("/readyz").json();
    assert_eq!(ready, serde_json::json!({ "status": "ready", "reasons": [] }));

    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
    let admin = proxy.admin_address();
    let get = |path: &str| Client::connect(admin).get(&format!("http://{admin}{path}"));
    thread::scope(|scope| {
        let stopping = scope.spawn(|| proxy.stop());
        until("it says so", || get("/readyz").status() == 503);
        let told = get("/readyz").json();
        assert_eq!(
            (&told["status"], &told["reasons"][0]["part"]),
            (&"not_ready".into(), &"server".into())
        );
        assert_eq!(get("/healthz").status(), 200);
        origin.release();
        client.read();
        stopping.join().expect("it stops");
    });
}

#[test]
fn a_log_that_cannot_be_written_is_not_ready_until_it_can() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /\n");
    let proxy = Proxy::start();
    assert_eq!(proxy.admin("/readyz").status(), 200, "nothing has failed yet");
    let aside = proxy.audit_dir().with_extension("aside");
    std::fs::rename(proxy.audit_dir(), &aside).expect("the directory");
    until("it is noticed", || proxy.admin("/readyz").status() == 503);
    assert_eq!(proxy.get(&origin.url("/")).status(), 403);
    let response = proxy.admin("/readyz");
    let told = response.json();
    assert_eq!(
        (&told["status"], &told["reasons"][0]["part"]),
        (&"not_ready".into(), &"audit".into())
    );
    let problem = told["reasons"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("has been moved away"), "{problem}");
    let failing = metrics(&proxy);
    assert_eq!(
        (failing["courtesy_audit_failing"], failing["courtesy_audit_lost_total"]),
        (1.0, 1.0)
    );
    assert!(failing["courtesy_audit_errors_total"] >= 1.0);

    std::fs::rename(&aside, proxy.audit_dir()).expect("the directory");
    until("it is ready again", || proxy.admin("/readyz").status() == 200);
    assert_eq!(metrics(&proxy)["courtesy_audit_failing"], 0.0);
}

/// It goes on from memory: whoever restarts what is not ready would take that away, too.
#[test]
fn a_store_that_cannot_be_used_is_told_and_the_proxy_is_ready() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /private/\n");
    let proxy = Proxy::with(|settings| {
        std::fs::write(settings.state_dir.join("state"), "").expect("what is no directory");
    });
    until("it is degraded", || proxy.admin("/readyz").text().contains("degraded"));
    let response = proxy.admin("/readyz");
    let told = response.json();
    assert_eq!((response.status(), &told["status"]), (200, &"degraded".into()), "{told}");
    assert_eq!(
        (&told["reasons"][0]["part"], &told["reasons"][0]["status"]),
        (&"store".into(), &"degraded".into())
    );
    assert_eq!(metrics(&proxy)["courtesy_store_degraded"], 1.0);
    assert_eq!(proxy.get(&origin.url("/private/")).status(), 403);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
}

#[test]
fn nobody_else_is_answered() {
    let proxy = Proxy::start();
    let rebound = ask(&proxy, "GET /metrics HTTP/1.1\r\nHost: evil.example");
    assert_eq!((rebound.status(), rebound.text().contains("courtesy_")), (421, false));
    assert_eq!(
        ask(&proxy, "GET http://evil.example/metrics HTTP/1.1\r\nHost: 127.0.0.1").status(),
        421
    );
    assert_eq!(ask(&proxy, "GET /metrics HTTP/1.1").status(), 400);
    assert_eq!(ask(&proxy, "GET /metrics HTTP/1.1\r\nHost: a\r\nHost: localhost").status(), 400);
    let own =
        ask(&proxy, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example");
    assert_eq!((own.status(), own.field("access-control-allow-origin")), (200, None));
    assert_eq!(own.field("cache-control"), Some("no-store"));
}

#[test]
fn there_are_these_pages_and_they_are_read_only() {
    let proxy = Proxy::start();
    let missing = ask(&proxy, "GET / HTTP/1.1\r\nHost: 127.0.0.1");
    assert_eq!(missing.status(), 404);
    for path in ["/healthz", "/readyz", "/metrics", "/version", "/config"] {
        assert!(missing.text().contains(path), "{path}");
        let head = ask(&proxy, &format!("HEAD {path} HTTP/1.1\r\nHost: 127.0.0.1"));
        assert_eq!((head.status(), head.body.len()), (200, 0), "{path}");
        assert_ne!(head.field("content-length"), Some("0"), "{path}");
        let post =
            ask(&proxy, &format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0"));
        assert_eq!((post.status(), post.field("allow")), (405, Some("GET, HEAD")), "{path}");
    }
}

/// Who does not ask for OpenMetrics reads the older format, which has the same numbers by the same names.
#[test]
fn prometheus_reads_its_own_format_and_openmetrics_where_it_asks_for_it() {
    let proxy = Proxy::start();
    let plain = proxy.admin("/metrics");
    assert_eq!(plain.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = plain.text();
    let names: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').expect(line).0.to_owned())
        .collect();
    let other: Vec<String> = metrics(&proxy).into_keys().collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>(), other.iter().collect());
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    assert!(text.contains("\n# TYPE courtesy_panics_total counter\n"));
}

const TOKEN: &str = "correct-horse-battery-staple";

/// A proxy whose operator is asked for [`TOKEN`].
fn with_token() -> Proxy {
    Proxy::with(|settings| {
        let file = settings.state_dir.join("admin.token");
        std::fs::write(&file, format!("{TOKEN}\n")).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))
            .expect("it is ours");
        settings.admin.token_file = Some(file);
    })
}

#[test]
fn who_has_no_token_learns_that_it_lives_and_whether_it_is_ready() {
    let proxy = with_token();
    let asked = |path: &str, field: &str| {
        ask(&proxy, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1{field}"))
    };
    for path in ["/metrics", "/version", "/config"] {
        for field in ["", "\r\nAuthorization: Bearer correct-horse-battery-stapler"] {
            let stranger = asked(path, field);
            assert_eq!(
                (stranger.status(), stranger.field("www-authenticate")),
                (401, Some("Bearer realm=\"courtesy\""))
            );
            assert!(!stranger.text().contains("courtesy_"), "{path}");
        }
        assert_eq!(
            asked(path, &format!("\r\nAuthorization: Bearer {TOKEN}")).status(),
            200,
            "{path}"
        );
    }
    assert_eq!(asked("/healthz", "").text(), "ok\n");
    assert_eq!(asked("/readyz?verbose", "").json(), serde_json::json!({ "status": "ready" }));
    let operator = asked("/readyz", &format!("\r\nAuthorization: Bearer {TOKEN}"));
    assert_eq!(operator.json(), serde_json::json!({ "status": "ready", "reasons": [] }));
}

/// A stranger's page does not know the token; a scraper may call us by a name of its own.
#[test]
fn with_the_token_any_name_will_do_and_without_it_none_does() {
    let proxy = with_token();
    let rebound = ask(&proxy, "GET /healthz HTTP/1.1\r\nHost: evil.example");
    assert_eq!(rebound.status(), 421);
    let head = format!(
        "GET /metrics HTTP/1.1\r\nHost: courtesy.crawlers.svc\r\nAuthorization: Bearer {TOKEN}"
    );
    assert_eq!(ask(&proxy, &head).status(), 200);
}

#[test]
fn verbose_readiness_lists_what_was_looked_at() {
    let proxy = Proxy::start();
    let told = proxy.admin("/readyz?verbose").json();
    let checks = told["checks"].as_array().expect("a list");
    let parts: Vec<_> = checks.iter().map(|check| check["part"].as_str().unwrap()).collect();
    assert_eq!(parts, ["server", "audit", "store", "engine", "config", "ca", "parent"]);
    assert!(checks.iter().all(|check| check["status"] == "ready"), "{told}");
    // The test's CA is made for ten years at the most.
    proxy.clock.advance(std::time::Duration::from_hours(24 * 365 * 50));
    let told = proxy.admin("/readyz?verbose").json();
    assert_eq!(
        (&told["status"], &told["reasons"][0]["part"]),
        (&"degraded".into(), &"ca".into()),
        "{told}"
    );
}

#[test]
fn the_version_is_that_of_the_binary() {
    let told = Proxy::start().admin("/version").json();
    assert_eq!(
        told,
        serde_json::json!({ "name": "courtesy", "version": env!("CARGO_PKG_VERSION") })
    );
}
