//! One report in its three forms: what each must say, and what none may let through.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::audit::read::report::tests::log::{
    DAY, HOUR, Log as Lines, NOON, by_rule, record, started,
};
use crate::audit::{Change, Client, Event, Notice, Reason, Record, Started};

/// Attacks on a reader of the report, as no honest log has them.
const HOSTILE: &str =
    "<script>alert('x')</script>\"><img src=http://evil.example/>&\u{202e}\u{1b}[2J\u{9b}";

/// 2027-01-01T00:00:00Z: `until = 2026-12-31` means this.
const END_OF_YEAR: Timestamp = Timestamp::from_millis(1_798_761_600_000);

fn report(lines: &[Vec<u8>]) -> Report {
    let mut survey = Survey::of(Filter::default());
    lines.iter().for_each(|line| survey.read(line));
    let [origins, agents, clients] = [const { Vec::new() }; 3];
    let made_at = NOON.plus(DAY * 3);
    survey.finish(Request { rows_max: 10, made_at, origins, agents, clients, verified: None })
}

/// Something of everything.
fn eventful() -> Report {
    let mut log = Lines::new();
    for hour in 0..48 {
        log.rule(NOON.plus(HOUR * hour), "http://a.example", "ExampleBot", "/private/", 12);
        log.rule(NOON.plus(HOUR * hour), "https://b.example:8443", "OtherBot", "/*?q=", 3);
    }
    log.unreachable(NOON.plus(HOUR * 5), "http://c.example", NOON);
    log.exempted(NOON.plus(HOUR * 6), "http://a.example", "legal", END_OF_YEAR);
    log.observed(NOON.plus(HOUR * 6), "http://e.example", "OtherBot");
    log.tunnelled(NOON.plus(HOUR * 6), "https://f.example", "OtherBot");
    log.record(record(NOON.plus(HOUR * 7), "http://d.example", None, Reason::AgentRequired));
    log.paced(NOON, "http://a.example", "*");
    log.paced(NOON.plus(DAY), "http://a.example", "*");
    log.totals(NOON, NOON.plus(DAY), 12_345, 99);
    log.counts(NOON.plus(HOUR), Some("http://a.example"), [1200, 48]);
    log.gap(NOON.plus(HOUR), NOON.plus(HOUR * 2), 17);
    log.torn(NOON.plus(HOUR * 2), 99);
    let change =
        |key: &str| Change { key: key.into(), new: "observe".into(), old: "enforce".into() };
    log.notice(Notice::Started(Started {
        changes: Some(vec![change("robots.mode")]),
        exemptions: vec![json!({
            "agents": ["ExampleBot"], "by": "legal", "origin": "http://a.example", "paths": ["/private/"],
            "reason": "contract", "ticket": "OPS-7", "until": "2027-01-01T00:00:00Z",
        })],
        ..started(NOON.plus(HOUR * 30), "crawl-1", "0.9.1")
    }));
    report(&log.lines)
}

fn hostile() -> Report {
    let mut log = Lines::new();
    let mut hostile = by_rule(NOON, HOSTILE, HOSTILE, HOSTILE, 1);
    hostile.agent = Some(HOSTILE.into());
    hostile.client = Client { name: Some(HOSTILE.into()), ..hostile.client };
    hostile.profile.name = HOSTILE.into();
    hostile.profile.settings.insert(HOSTILE.into(), HOSTILE.into());
    if let (Some(rule), Some(robots)) = (&mut hostile.rule, &mut hostile.robots) {
        (rule.pattern, rule.directive) = (HOSTILE.into(), HOSTILE.into());
        robots.sha256 = Some(HOSTILE.into());
    }
    log.record(hostile);
    log.unreachable(NOON, HOSTILE, NOON);
    let mut lines = log.lines;
    let mut exempted = Lines::new();
    exempted.exempted(NOON, HOSTILE, HOSTILE, NOON);
    lines.append(&mut exempted.lines);
    report(&lines)
}

/// The names and texts of a page; panics where it is not well-formed.
fn parse(page: &str) -> (Vec<String>, String) {
    let (mut open, mut names, mut words) = (Vec::new(), Vec::new(), String::new());
    let mut rest = page.strip_prefix("<!doctype html>").expect("it says that it is HTML");
    while let Some(start) = rest.find('<') {
        words.push_str(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of <{tag}>");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a name");
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric()), "<{tag}>");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes what was opened last");
            continue;
        }
        names.push(name.to_owned());
        let is_void = matches!(name, "meta" | "br") || tag.ends_with('/');
        if !is_void {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    (names, words + rest)
}

#[test]
fn the_page_is_well_formed_and_loads_nothing() {
    for report in [eventful(), hostile(), report(&[])] {
        let page = page::print(&report);
        let (names, _) = parse(&page);
        for name in
            ["script", "img", "link", "iframe", "object", "a", "form", "image", "use", "base"]
        {
            assert!(!names.iter().any(|found| found == name), "<{name}> in {page}");
        }
        for loads in ["src=", "href=", "url(", "@import", "style=\"", " on"] {
            let within_tags = page
                .split('<')
                .filter_map(|part| part.split_once('>'))
                .any(|(tag, _)| tag.contains(loads));
            assert!(!within_tags, "{loads} in a tag of {page}");
        }
        let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(!style.contains("url(") && !style.contains("@import"));
        assert!(
            page.contains(
                "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"
            )
        );
    }
}

#[test]
fn what_strangers_wrote_stays_text() {
    let report = hostile();
    let page = page::print(&report);
    assert!(
        !page.contains("<script")
            && !page.contains("<img")
            && page.contains("&lt;script&gt;alert(&#39;x")
    );
    let text = text::print(&report, Paint::OFF);
    for character in ['\u{202e}', '\u{1b}', '\u{9b}'] {
        assert!(!page.contains(character), "{character:?} in the page");
        assert!(!text.contains(character), "{character:?} in the text");
    }
    assert!(text.contains("<script>"), "{text}");
}

#[test]
fn the_summary_is_short_and_says_what_matters() {
    let text = text::print(&eventful(), Paint::OFF);
    for line in text.lines().chain(text::print(&hostile(), Paint::OFF).lines()) {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
    for words in [
        "Disallowed requests, 2026-11-20 12:00 to 2026-11-22 11:00 UTC",
        "Records 101 · Denied 98 · Would be denied 1 · Exempted 1",
        "Not verified: courtesy audit report --verify",
        "All decisions: 12,444 requests decided: 12,345 forwarded, 99 denied (0.8 %).",
        "4,115 of those forwarded went by a parent proxy (33.3 %).",
        "In force, 2026-12-31, ",
        "17 records could not be written and are lost.",
        "torn 1 time",
        "http://a.example, denied 48",
        "Disallow: /private/, denied 48, line 12",
        "http://c.example, 2026-11-20 12:00, in all 5 h, outages 1, longest 5 h",
        "legal: contract (OPS-7)",
        "all of it: --output report.html",
    ] {
        let unfolded = text.replace('\n', " ").to_lowercase();
        assert!(unfolded.contains(&words.to_lowercase()), "{words} not in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colours are for terminals");
    assert!(text.lines().count() <= 44, "something of everything:\n{text}");
    let mut log = Lines::new();
    log.rule(NOON, "http://a.example", "ExampleBot", "/private/", 12);
    assert!(text::print(&report(&log.lines), Paint::OFF).lines().count() <= 16);
}

#[test]
fn an_empty_log_is_said_to_be_empty() {
    let text = text::print(&report(&[]), Paint::OFF);
    assert!(text.contains("the log is empty"), "{text}");
    assert!(page::print(&report(&[])).contains("the log is empty"));
}

/// The names, with those within: `a.b`, and `a[].b` in lists.
fn names(prefix: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                names(&name, value, found);
            }
        }
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            names(&format!("{prefix}[]"), &items[0], found);
        }
        _ => found.push(prefix.to_owned()),
    }
}

/// A name as docs/reference/report.md writes it: lists are all made alike, and words of records stand for each other.
fn documented(name: &str) -> String {
    let is_list = |part: &str| {
        part.starts_with("by_") && !part.starts_with("by_event") || part == "exemptions"
    };
    let mut parts: Vec<_> = name.split('.').map(str::to_owned).collect();
    if let Some(at) = parts.iter().position(|part| part == "settings") {
        parts[at + 1] = "<name>".into();
    }
    for at in 1..parts.len() {
        let word = Value::from(parts[at].clone());
        let counts =
            ["by_event", "others_by_event", "forwarded", "rows[]"].contains(&&*parts[at - 1]);
        let of_reason = at > 1 && parts[at - 2] == "events_by_reason";
        if serde_json::from_value::<Reason>(word.clone()).is_ok() {
            parts[at] = "<reason>".into();
        } else if (counts || of_reason) && serde_json::from_value::<Event>(word).is_ok() {
            parts[at] = "<event>".into();
        }
    }
    let list = parts.iter().position(|part| is_list(part)).filter(|at| parts.len() > at + 1);
    let of_all = ["others", "others_by_event", "distinct", "undercount_at_most", "rows[]"];
    match list {
        Some(at) if of_all.contains(&&*parts[at + 1]) => {
            let rest = parts[at + 1..].join(".");
            if parts[at + 1] != "rows[]" || ["rows[].records", "rows[].<event>"].contains(&&*rest) {
                format!("list.{rest}")
            } else {
                parts[at..].join(".")
            }
        }
        _ => parts.join("."),
    }
}

#[test]
fn every_member_of_the_json_is_documented_and_no_other() {
    let page = include_str!("../../../../docs/reference/report.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row[1..].split('|').next().expect("a cell"));
    let listed: BTreeSet<_> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    let mut lines = Lines::new();
    let mut changed = by_rule(NOON, "http://a.example", "ExampleBot", "/", 1);
    changed.profile.settings.insert("max_size".into(), "1MiB".into());
    lines.record(changed.clone());
    lines.record(changed);
    lines.unreachable_for(NOON, "http://c.example", NOON, Some("ExampleBot"));
    let mut verified = report(&lines.lines);
    let head = verified.log.head.clone();
    let findings = Verified {
        holds: true,
        fault_count: 0,
        first_fault: None,
        head,
        published_heads: 0,
        published_up_to: None,
        is_without_heads: false,
        verdict: "The log holds in itself; no published head was given".into(),
    };
    verified.verified = Some(findings);
    let mut of_origin = verified.clone();
    of_origin.decided = None;
    let mut found = Vec::new();
    for report in [eventful(), verified, of_origin] {
        names("", &serde_json::to_value(report).unwrap(), &mut found);
    }
    // A list with nothing in it does not show what could be.
    let is_empty_list =
        |name: &str| found.iter().any(|other| other.starts_with(&format!("{name}[]")));
    let found: BTreeSet<_> =
        found.iter().filter(|name| !is_empty_list(name)).map(|name| documented(name)).collect();
    assert_eq!(found, listed);
    let json = serde_json::to_value(eventful()).unwrap();
    assert_eq!(json["period"]["since"], Value::Null);
    assert_eq!(json["records"]["first"], "2026-11-20T12:00:00.000000Z");
    assert_eq!(json["verified"], Value::Null);
}

#[test]
fn what_was_forwarded_is_never_summed_up_with_what_was_denied() {
    let json = serde_json::to_value(eventful()).unwrap();
    let counts = |row: &Value| {
        ["denied", "would_deny", "exempted", "tunnelled"].map(|word| row[word].as_u64())
    };
    let row = |list: &Value, name: &str, key: &str| {
        let rows = list["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row[name] == key).unwrap_or_else(|| panic!("{key} in {list}"))
    };
    let a = row(&json["by_origin"], "origin", "http://a.example");
    assert_eq!((counts(&a), &a["records"]), ([48, 0, 1, 0].map(Some), &49.into()));
    let forwarded = &json["forwarded"];
    assert_eq!((counts(forwarded), &forwarded["records"]), ([0, 1, 1, 1].map(Some), &3.into()));
    assert_eq!(
        forwarded["by_origin"]["rows"].as_array().unwrap().len(),
        3,
        "origins with denials alone: none"
    );
    let other = row(&forwarded["by_agent"], "agent", "OtherBot");
    assert_eq!(counts(&other), [0, 1, 0, 1].map(Some));
    let text = text::print(&eventful(), Paint::OFF);
    let (heading, rest) =
        text.split_once("\nForwarded although disallowed: ").expect("its own heading");
    assert!(heading.contains("Disallowed requests, "), "not all are denied:\n{heading}");
    for words in
        ["1 request forwarded because the mode was observe", "forwarded under an exemption"]
    {
        assert!(rest.contains(words), "{words} not in:\n{rest}");
    }
    let page = page::print(&eventful());
    for title in ["Denied", "Would be denied", "Exempted", "Tunnelled"] {
        assert!(
            page.matches(&format!("<th scope=\"col\" class=\"number\">{title}</th>")).count() > 4,
            "{title}"
        );
    }
    assert!(page.contains(">Forwarded although disallowed</h2>") && page.contains("class=\"e2\""));
}

#[test]
fn only_denials_are_called_denials() {
    let mut log = Lines::new();
    log.rule(NOON, "http://a.example", "ExampleBot", "/private/", 12);
    let denied = text::print(&report(&log.lines), Paint::OFF);
    assert!(
        denied.starts_with("Denied requests, ") && !denied.contains("Fetched although"),
        "{denied}"
    );
    assert!(
        denied.contains("Denied 1 · Would be denied 0 · Exempted 0")
            && !denied.contains("Tunnelled")
    );
    log.observed(NOON, "http://a.example", "ExampleBot");
    let mixed = report(&log.lines);
    assert!(text::print(&mixed, Paint::OFF).starts_with("Disallowed requests, "));
    assert!(page::print(&mixed).contains("<title>Disallowed requests, "));
}

#[test]
fn the_proxies_that_wrote_the_log_are_named() {
    let mut log = Lines::new();
    for (node, count) in [("crawl-2", 1), ("crawl-1", 2)] {
        for _ in 0..count {
            let record = by_rule(NOON, "http://a.example", "ExampleBot", "/", 1);
            log.record(Record { node: Some(node.into()), ..record });
        }
    }
    log.started(NOON, "crawl-1", "0.9.1");
    let report = report(&log.lines);
    for form in [text::print(&report, Paint::OFF), page::print(&report)] {
        let form = form.to_lowercase();
        assert!(form.contains("written by crawl-1, crawl-2; started as courtesy 0.9.1"), "{form}");
    }
    assert!(page::print(&report).contains("By instance"));
}

#[test]
fn a_file_is_of_the_format_that_its_name_says() {
    for (name, format) in [
        ("october.html", Format::Html),
        ("a/october.json", Format::Json),
        ("october.txt", Format::Text),
        ("html", Format::Text),
    ] {
        assert_eq!(format_of(Path::new(name)), format, "{name}");
    }
}
