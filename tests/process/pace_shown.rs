//! The pace as the commands show it: `check`, `store`, `audit report` and `run`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::testkit::parties::{Client, Origin, Script, answer, until};
use crate::testkit::processes::Place;
use crate::testkit::spacing::LATENESS;

/// What it prints, whatever its exit code.
fn said(place: &Place, words: &str) -> String {
    let output = place.run(words);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The lines of the pace in what `check` says.
fn paces(place: &Place, words: &str) -> Vec<String> {
    let said = said(place, &format!("check {words}"));
    let lines = said.lines().map(str::trim).filter(|line| line.starts_with("pace: "));
    lines.map(str::to_owned).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a developer names another file by it")]
fn a_batch_finds_what_each_case_asks_of_the_pace() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/pace.jsonl");
    let file = std::env::var_os("COURTESY_TEST_PACE").map_or(own, Into::into);
    let lines = BufReader::new(File::open(file).expect("a file")).lines();
    let cases: Vec<Value> =
        lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("a case")).collect();
    let is_of_a_file = |case: &&Value| case["robots"].is_string();
    let cases: Vec<_> = cases.iter().filter(is_of_a_file).collect();
    let input: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let place = Place::new("");
    let mut command = place.command("check --batch");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), cases.len());
    for (case, line) in cases.iter().zip(text.lines()) {
        let found: Value = serde_json::from_str(line).expect("an answer");
        for (name, value) in case["expect"].as_object().expect("members") {
            assert_eq!(&found["pace"][name], value, "{name} of {case}");
        }
    }
}

#[test]
fn check_names_the_delay_with_its_line() {
    let place = Place::new("[https]\ntunnel = [\"pinned.example\"]\n[pace]\ndelay = \"2s\"");
    let robots = place.path().join("robots.txt");
    let words = format!("--robots {} --agent", robots.display());
    let write = |text: &str| fs::write(&robots, text).expect("a file");
    write(
        "User-agent: slow\nCrawl-delay: 86401 # a day and a second\n\nUser-agent: often\nRequest-rate: 6/1m\n\n\
         User-agent: quick\nCrawl-delay: 1\n\nUser-agent: *\nCrawl-delay: 10\n",
    );
    let url = "http://a.example/";
    for (agent, url, expected) in [
        ("any", url, "pace: one request every 10 s (line 11, Crawl-delay: 10)"),
        (
            "slow",
            url,
            "pace: one request every 1 d (line 2, Crawl-delay: 86401; the most by pace.max_crawl_delay)",
        ),
        (
            "slow --profile conservative",
            url,
            "pace: one request every 1 d (line 2, Crawl-delay: 86401; the most by pace.max_crawl_delay)",
        ),
        ("often", url, "pace: one request every 10 s (line 5, Request-rate: 6/1m)"),
        ("quick", url, "pace: one request every 2 s (pace.delay)"),
        (
            "any",
            "https://pinned.example/",
            "pace: one tunnel every 10 s (line 11, Crawl-delay: 10); pace not seen: requests inside the \
             tunnel are not held",
        ),
    ] {
        assert_eq!(paces(&place, &format!("{words} {agent} {url}")), [expected], "{agent} {url}");
    }
    let found = said(&place, &format!("check {words} any --json https://pinned.example/"));
    let found: Value = serde_json::from_str(&found).expect("an answer");
    let expected = json!({
        "delay_ms": 10_000, "source": "crawl_delay", "line": 11, "clamped": false, "opens_in_ms": 0,
        "not_seen": true,
    });
    assert_eq!(found["pace"], expected);
}

#[test]
fn check_asks_the_site_and_names_exemptions() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 10\n");
    let place = Place::new(&format!(
        "[egress]\nallow = [\"127.0.0.0/8\"]\n[[exemptions]]\norigin = \"{}\"\nby = \"legal\"\n\
         reason = \"contract\"\nuntil = \"2999-01-01\"\ncrawl_delay = \"1s\"\npaths = [\"/open/\"]\n",
        origin.url("")
    ));
    let expected = [
        "pace: one request every 10 s (line 2, Crawl-delay: 10)",
        "pace: one request every 1 s (line 2, Crawl-delay: 10; by an exemption)",
    ];
    assert_eq!(paces(&place, &[origin.url("/"), origin.url("/open/")].join(" ")), expected);
}

#[test]
fn who_waits_is_told_with_the_reason() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 60\n");
    let silent = Origin::start().on("/robots.txt", Script::default().hold());
    let place = Place::new("");
    let nothing = place.run("store waiting");
    assert_eq!(nothing.status.code(), Some(69), "no proxy runs");
    let serve = place.serve();
    assert_eq!(said(&place, "store waiting"), "Nothing waits.\n");
    assert_eq!(serve.get(&origin.url("/first")).status, 200);
    let ask = |last, url: &str| {
        let mut client = Client::connect_from([127, 0, 0, last].into(), serve.address());
        client.ask("GET", url, "");
        client
    };
    let _clients = [
        ask(1, &origin.url("/1")),
        ask(2, &origin.url("/2")),
        ask(2, &origin.url("/3")),
        ask(3, &silent.url("/4")),
    ];
    let report = || -> Value {
        serde_json::from_str(&said(&place, "store waiting --format json")).expect("JSON")
    };
    until("all wait", || {
        let report = report();
        report["pace"]["lanes"][0]["waiting"] == 3 && report["robots"]["fetches"][0]["waiting"] == 1
    });
    let report = report();
    let lane = &report["pace"]["lanes"][0];
    let clients = json!([
        {"user": null, "address": "127.0.0.2", "waiting": 2},
        {"user": null, "address": "127.0.0.1", "waiting": 1},
    ]);
    assert_eq!((&lane["lane"], &lane["clients"]), (&origin.url("").into(), &clients));
    let longest = &lane["longest"];
    assert_eq!((&longest["by"], &longest["line"]), (&"crawl_delay".into(), &2.into()), "{longest}");
    assert_eq!((&longest["delay_ms"], &longest["group"]), (&60_000.into(), &"*".into()));
    let next = longest["next_ms"].as_u64().expect("a time");
    assert!((1..=60_000).contains(&next), "{next}");
    let fetch = &report["robots"]["fetches"][0];
    assert_eq!(fetch["origin"], silent.url(""));
    assert_eq!(fetch["clients"][0]["address"], "127.0.0.3");
    let text = said(&place, "store waiting");
    for line in
        ["3 requests, the first for ", "Crawl-delay: 1 min between two starts (line 2, group *)"]
    {
        assert!(text.contains(line), "{text}");
    }
    let cut = said(&place, "store waiting --limit 0");
    assert!(cut.contains("1 more hosts, where 3 requests wait"), "{cut}");
}

#[test]
fn the_store_shows_a_rest_and_ends_it() {
    let busy = answer(429, "Retry-After: 600\r\n", "");
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 60\n")
        .on("/busy", Script::default().send(busy));
    let place = Place::new("[pace]\nmax_wait = \"0s\"");
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/busy")).status, 429);
    let [get, forget] = ["get", "forget"].map(|what| format!("store {what} {}", origin.url("")));
    let shown = said(&place, &get);
    for line in ["nothing starts for 10 min: it answered 429 with Retry-After", "next start in "] {
        assert!(shown.contains(line), "{shown}");
    }
    let of = |what: &str| -> Value {
        let shown = said(&place, &format!("{get} --format json"));
        serde_json::from_str::<Value>(&shown).expect("JSON")["pace"][what].clone()
    };
    let (hold, next) = (of("hold"), of("next_ms").as_u64().expect("a time"));
    assert_eq!((&hold["status"], &hold["cause"]), (&429.into(), &"retry_after".into()));
    // What is left of ten minutes and of one, on a machine that may take its time.
    assert!((500_000..=600_000).contains(&hold["left_ms"].as_u64().unwrap()), "{hold}");
    assert!((1..=60_000).contains(&next), "{next}");
    said(&place, &forget);
    serve.get(&origin.url("/page"));
    assert_eq!((of("hold"), origin.count("/page")), (Value::Null, 0), "the delay stays");

    // The end of a hold outlives a kill, and a hold can be ended while no proxy runs.
    until("it is written", || place.holds() == 0);
    serve.stop();
    let other = Origin::start()
        .on("/busy", Script::default().send(answer(503, "Retry-After: 600\r\n", "")));
    let serve = place.serve();
    assert_eq!(serve.get(&other.url("/busy")).status, 503);
    serve.stop();
    assert!(said(&place, &format!("store forget {}", other.url(""))).contains("is forgotten"));
    let serve = place.serve();
    assert_eq!(serve.get(&other.url("/page")).status, 200);
}

#[test]
fn a_report_tells_of_requests_that_waited() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 1\n");
    let place = Place::new("[pace]\nmax_wait = \"10s\"");
    let serve = place.serve();
    for path in ["/a", "/b", "/c"] {
        assert_eq!(serve.get(&origin.url(path)).status, 200);
    }
    let busy =
        Origin::start().on("/busy", Script::default().send(answer(429, "Retry-After: 60\r\n", "")));
    assert_eq!(serve.get(&busy.url("/busy")).status, 429);
    assert_eq!(serve.get(&busy.url("/")).status, 429);
    let log = serve.stop();
    for line in
        ["requests to this host wait for their time", "nothing starts at this host for a while"]
    {
        assert_eq!(log.matches(line).count(), 1, "once an hour: {log}");
    }
    let report = said(&place, "audit report");
    let (_, section) = report.split_once("Requests that waited").expect("a section");
    for part in
        ["2 requests held until their time, for ", "1 told to come back later", "2: Crawl-delay: 1"]
    {
        assert!(section.contains(part), "{part} is not in {section}");
    }
    let report: Value =
        serde_json::from_str(&said(&place, "audit report --format json")).expect("JSON");
    let paced = &report["paced"];
    assert_eq!((&paced["held"], &paced["resting"]), (&2.into(), &1.into()));
    // Of two delays, less what each client took to come back.
    let waited = paced["waited_ms"].as_u64().expect("a time");
    assert!((1..=2000 + LATENESS.as_millis() as u64).contains(&waited), "{paced}");
    let line = &paced["lines"]["rows"][0];
    assert_eq!(
        (&line["line"], &line["delay_ms"], &line["group"]),
        (&2.into(), &1000.into(), &"*".into())
    );
}

#[test]
fn a_run_goes_on_with_the_pace_of_the_one_before_and_sums_up_its_waits() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 1\n");
    let place = Place::new("");
    let run = |paths: &[&str]| -> Value {
        let mut command: Command =
            place.command("run --allow-private --proxy-loopback --summary json -- curl -sS");
        let urls = paths.iter().map(|path| origin.url(path));
        let output = command.env("PATH", "/usr/bin:/bin").args(urls).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        serde_json::from_str(said.lines().last().expect("a summary")).expect("JSON")
    };
    let first = run(&["/a", "/b"]);
    let waited = first["waited_ms"].as_u64().expect("a time");
    assert!((1..=1000 + LATENESS.as_millis() as u64).contains(&waited), "{first}");
    let longest = &first["longest_wait"];
    assert_eq!((&longest["by"], &longest["delay_ms"]), (&"crawl_delay".into(), &1000.into()));
    assert_eq!(longest["origin"], origin.url(""));
    let second = run(&["/c"]);
    let waited = second["waited_ms"].as_u64().expect("a time");
    // The turn of one delay, and another one where a busy machine misses it.
    assert!(waited <= 2000 + LATENESS.as_millis() as u64, "{second}");
    let arrivals = origin.arrivals();
    assert_eq!(arrivals.len(), 3);
    assert!(arrivals[2] - arrivals[0] + LATENESS >= Duration::from_secs(2));
}
