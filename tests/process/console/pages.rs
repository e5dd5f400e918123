//! Pages say what the commands say of the same log.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use courtesy::audit::evidence::{BlobStore, Kind};
use courtesy::audit::{Group, Record, Robots, Rule, checked_hash};
use courtesy::types::sanitize::sha256_hex;
use courtesy::types::timestamp::Timestamp;
use serde_json::Value;

use crate::audit_cli::kinds;
use crate::audit_cli::support::{Log, NOON, audit, compress, courtesy, ended, record, succeeds};
use crate::console::support::{Console, between, encoded, keep, rows};
use crate::testkit::processes::{Place, Site};

const FILE: &str = "User-agent: *\nDisallow: /private/\nAllow: /\n";

/// What selects no records, but says where they are and how they are printed.
const OTHER_FLAGS: [&str; 12] = [
    "help",
    "format",
    "wide",
    "limit",
    "tail",
    "follow",
    "run",
    "dir",
    "config",
    "state-dir",
    "log-format",
    "log-level",
];

/// Forty records, some by a robots.txt that is evidence, in three segments.
fn log() -> Log {
    let mut log = Log::new();
    let sha256 = keep(log.dir.path(), FILE.as_bytes());
    for n in 0..40 {
        let made = record(n);
        let made = match n % 4 {
            0 => with_file(made, &sha256),
            1 => Record { node: Some("crawler-a".into()), ..made },
            2 => Record { trace_id: Some("ab".repeat(16)), ..made },
            _ => made,
        };
        log.write([made]);
        if n == 12 || n == 25 {
            let closed = log.rotate();
            if n == 12 {
                compress(&closed);
            }
        }
    }
    log
}

fn with_file(made: Record, sha256: &str) -> Record {
    let robots = made
        .robots
        .clone()
        .map(|robots| Robots { sha256: Some(sha256.to_owned()), ..(*robots).clone() }.into());
    let group = made.group.clone().map(|group| Group { line: 1, ..group });
    let rule = made.rule.clone().map(|rule| Rule { line: 2, ..rule });
    Record { group, robots, rule, ..made }
}

/// The numbers of the lines that a query prints.
fn queried(dir: &Path, arguments: &[&str]) -> Vec<u64> {
    let query: Vec<_> = ["query", "--format", "json"].iter().chain(arguments).copied().collect();
    let found = succeeds(&mut audit(dir, &query));
    let seq = |line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
    found.lines().map(seq).collect()
}

#[test]
fn a_list_has_the_records_of_a_query_with_the_same_filters() {
    let log = log();
    let console = Console::opened(&[log.dir.path()]);
    let sha256 = sha256_hex(FILE.as_bytes());
    let filters: &[(&[(&str, &str)], usize)] = &[
        (&[], 40),
        (&[("since", "2026-11-20T12:30:00Z")], 10),
        (&[("until", "2026-11-20 12:10")], 10),
        (&[("since", "2026-11-20T12:05:00Z"), ("until", "2026-11-20T12:15:00Z")], 10),
        (&[("origin", "https://www1.example.com")], 13),
        (&[("origin", "*.example.com"), ("agent", "wget")], 20),
        (&[("agent", "W*")], 20),
        (&[("reason", "disallow_rule")], 40),
        (&[("reason", "undecided")], 0),
        (&[("event", "would_deny")], 10),
        (&[("event", "would_deny"), ("event", "denied")], 40),
        (&[("rule", "12")], 30),
        (&[("rule", "/private/")], 40),
        (&[("client", "10.0.0.2")], 8),
        (&[("client", "10.0.0.0/31")], 16),
        (&[("id", "01")], 40),
        (&[("url", "*/private/1*")], 11),
        (&[("sha256", &sha256)], 10),
        (&[("trace", "abab")], 10),
        (&[("exempted-by", "legal")], 0),
        (&[("node", "crawler-*")], 10),
        (&[("profile", "rfc9309")], 40),
    ];
    for (filter, count) in filters {
        let flags: Vec<_> = filter
            .iter()
            .flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()])
            .collect();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let mut expected = queried(log.dir.path(), &flags);
        expected.reverse();
        assert_eq!(expected.len(), *count, "{filter:?}");
        let pairs: Vec<_> = filter
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value.as_bytes())))
            .collect();
        let answer = console.get(&format!("/records?{}", pairs.join("&")));
        assert_eq!(answer.status, 200, "{filter:?}: {}", answer.text());
        let found: Vec<_> = rows(&answer.text()).into_iter().map(|(_, seq)| seq).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    // The parameters are the flags, and each is above.
    let help = succeeds(&mut audit(log.dir.path(), &["query", "--help"]));
    let words =
        help.lines().filter_map(|line| line.trim_start().split("--").nth(1).zip(Some(line)));
    let is_flag = |line: &str| line.trim_start().starts_with('-');
    let name = |word: &str| word.split([' ', '<']).next().unwrap_or_default().to_owned();
    let flags: BTreeSet<_> =
        words.filter(|(_, line)| is_flag(line)).map(|(word, _)| name(word)).collect();
    let used = filters.iter().flat_map(|(filter, _)| filter.iter().map(|(name, _)| *name));
    let known: BTreeSet<_> = used.chain(OTHER_FLAGS).map(str::to_owned).collect();
    let unknown: Vec<_> = flags.difference(&known).collect();
    assert!(flags.len() > 15 && unknown.is_empty(), "{unknown:?} of {flags:?}");
    for name in OTHER_FLAGS.iter().filter(|name| **name != "limit").chain(&["nothing", "since2"]) {
        let answer = console.get(&format!("/records?{name}=1"));
        assert_eq!(answer.status, 400, "{name}");
        assert!(answer.text().contains(name), "{name}: {}", answer.text());
    }
    for (name, value) in
        [("since", "soon"), ("client", "300.1.1.1/99"), ("limit", "0"), ("before", "x")]
    {
        let answer = console.get(&format!("/records?{name}={value}"));
        assert_eq!(answer.status, 400, "{name}");
        assert!(answer.text().contains(name), "{name}: {}", answer.text());
    }
}

/// The lines of all pages, from the newest on.
fn paged(console: &Console, first: &str) -> Vec<(usize, u64)> {
    let (mut found, mut next) = (Vec::new(), Some(first.to_owned()));
    let mut pages = 0;
    while let Some(address) = next {
        pages += 1;
        assert!(pages < 100, "it does not end");
        let page = console.page(&address);
        found.extend(rows(&page));
        let links = between(&page, "<p class=\"links\">", "</p>").concat();
        let older = between(&links, "<a href=\"", "</a>");
        let older = older.into_iter().find(|link| link.contains("older"));
        let address = older.and_then(|link| link.split('"').next());
        next = address.map(|it| it.replace("&#38;", "&").replace("&amp;", "&"));
    }
    found
}

/// Of the same moment, as the `n`th of a log that was written fast.
fn at_noon(n: u64) -> Record {
    Record { time: Timestamp::from_millis(NOON + n / 100), ..record(n) }
}

#[test]
fn each_record_is_on_one_page() {
    let mut log = Log::new();
    for part in 0..5 {
        log.write((part * 100..part * 100 + 100).map(at_noon));
        if part < 4 {
            let closed = log.rotate();
            if part % 2 == 0 {
                compress(&closed);
            }
        }
    }
    let console = Console::opened(&[log.dir.path()]);
    let all: Vec<_> = (1..=500).rev().map(|seq| (0, seq)).collect();
    for limit in ["", "?limit=7", "?limit=100", "?limit=200"] {
        assert_eq!(paged(&console, &format!("/records{limit}")), all, "{limit}");
    }
    let some: Vec<_> = all.iter().copied().filter(|(_, seq)| (seq - 1) % 4 == 0).collect();
    assert_eq!(paged(&console, "/records?event=would_deny&limit=9"), some);
}

#[test]
fn lines_of_several_logs_are_merged_and_stand_once() {
    let (mut one, mut other) = (Log::new(), Log::new());
    for n in 0..60 {
        // The clock of the second went back for a time.
        let back = if (20..40).contains(&n) { 15 * 60_000 } else { 0 };
        let time = Timestamp::from_millis(NOON + n * 60_000 - back);
        other.write([Record { time, node: Some("b".into()), ..record(n) }]);
        one.write([Record { node: Some("a".into()), ..at_noon(n * 100) }]);
    }
    let console = Console::opened(&[one.dir.path(), other.dir.path()]);
    for limit in [1, 7, 50] {
        let found = paged(&console, &format!("/records?limit={limit}"));
        for log in 0..2 {
            let of_log: Vec<_> =
                found.iter().filter(|(of, _)| *of == log).map(|(_, seq)| *seq).collect();
            assert_eq!(of_log, (1..=60).rev().collect::<Vec<_>>(), "{log} {limit}");
        }
    }
    // A copy of the first has no line of its own.
    let copy = tempfile::tempdir().unwrap();
    fs::copy(one.active(), copy.path().join("denials.jsonl")).unwrap();
    let console = Console::opened(&[one.dir.path(), copy.path()]);
    for limit in [1, 7, 50] {
        let found = paged(&console, &format!("/records?limit={limit}"));
        assert_eq!(found, (1..=60).rev().map(|seq| (0, seq)).collect::<Vec<_>>(), "{limit}");
    }
}

#[test]
fn each_kind_of_line_has_a_page_and_can_be_hashed_again() {
    let place = kinds::served();
    let dir = place.audit_dir();
    kinds::add_other_kinds(&dir);
    let console = Console::opened(&[&dir]);
    let text = fs::read_to_string(dir.join("denials.jsonl")).unwrap();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let (seq, event) = (&value["seq"], value["event"].as_str().unwrap());
        let page = console.page(&format!("/record?seq={seq}"));
        let is_of_later = event == "fetched";
        assert_eq!(page.contains("This line cannot be read"), is_of_later, "{event}: {page}");
        assert!(is_of_later || page.to_lowercase().contains(&event.replace('_', " ")), "{event}");
        assert!(!page.contains("class=\"urgent\""), "{event}: {page}");
        let raw = console.get(&format!("/record/line?seq={seq}"));
        assert_eq!(raw.field("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(raw.text(), format!("{line}\n"), "{event}");
        assert!(checked_hash(raw.text().trim_end().as_bytes()).is_ok(), "{event}");
        if !is_of_later {
            let listed = rows(&console.page(&format!("/records?event={event}&limit=200")));
            let same = text
                .lines()
                .filter(|line| serde_json::from_str::<Value>(line).unwrap()["event"] == event);
            assert_eq!(listed.len(), same.count(), "{event}");
            assert!(listed.contains(&(0, seq.as_u64().unwrap())), "{event}");
        }
    }
    for page in ["/", "/sites", "/exemptions", "/unknown"] {
        let text = console.page(page);
        assert!(text.contains("<h1>"), "{page}");
    }
    assert!(console.page("/exemptions").contains("T-1"));
    assert!(console.page("/unknown").contains('2'));
    assert_eq!(console.get("/record?seq=0").status, 404);
    assert_eq!(console.get("/record?seq=9999").status, 404);
    assert_eq!(console.get("/record?log=1&seq=1").status, 404);
    assert_eq!(console.get("/record?seq=x").status, 400);
}

#[test]
fn changed_and_damaged_lines_are_marked() {
    let log = log();
    let text = fs::read_to_string(log.active()).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let first = first["seq"].as_u64().unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[2] = lines[2].replacen("/private/", "/permitted/", 1);
    lines.insert(6, "no JSON".into());
    lines.remove(9);
    fs::write(log.active(), lines.join("\n") + "\n").unwrap();
    let console = Console::opened(&[log.dir.path()]);
    let page = console.page("/records");
    assert!(page.contains(&format!(">! {}</a>", first + 2)), "{page}");
    assert!(
        page.contains("1 lines cannot be read") || page.contains("1 line cannot be read"),
        "{page}"
    );
    let urgent = "<p class=\"urgent\">";
    assert!(console.page(&format!("/record?seq={}", first + 2)).contains(urgent));
    // The line after a changed one names the hash that it had; one that is gone is missed by its neighbours.
    let mut doubts = 0;
    // Beside what is no line at all, the command looks at that, and the page at the next line.
    for number in (0..14).filter(|n| ![5, 6, 8].contains(n)).map(|n| first + n) {
        let number = number.to_string();
        let arguments = ["show", &number, "--format", "json"];
        let (_, shown, _) = ended(&mut audit(log.dir.path(), &arguments));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let is_in_doubt = console.page(&format!("/record?seq={number}")).contains(urgent);
        assert_eq!(Value::Bool(!is_in_doubt), shown["chain"]["holds"], "{number}: {shown}");
        doubts += usize::from(is_in_doubt);
    }
    assert!((2..8).contains(&doubts), "{doubts}");
    assert_eq!(console.get(&format!("/record?seq={}", first + 8)).status, 404);
    let overview = console.page("/");
    assert!(overview.contains("verdict urgent"), "{overview}");
    // A page that leaves out lines says so.
    let record: Value = serde_json::from_str(text.lines().nth(2).unwrap()).unwrap();
    let origin = encoded(record["origin"].as_str().unwrap().as_bytes());
    let site = console.page(&format!("/site?origin={origin}"));
    assert!(site.contains("1 line was changed after being written (left out)"), "{site}");
    assert!(site.contains("damaged and left out"), "{site}");
}

#[test]
fn a_robots_txt_is_shown_as_it_was_read_or_it_is_said_why_not() {
    let log = log();
    let console = Console::opened(&[log.dir.path()]);
    let sha256 = sha256_hex(FILE.as_bytes());
    let raw = console.get(&format!("/file/raw?sha256={sha256}"));
    assert_eq!((raw.status, sha256_hex(&raw.body)), (200, sha256.clone()));
    assert!(raw.field("content-disposition").unwrap().starts_with("attachment; "));
    let page = console.page(&format!("/file?sha256={sha256}&line=2&group=1"));
    let lines = between(&page, "<bdi>", "</bdi>");
    assert_eq!(lines, FILE.lines().collect::<Vec<_>>());
    assert!(page.contains("<li class=\"decided\"><span class=\"at\">▶ 2</span>"), "{page}");
    assert!(page.contains("<li class=\"group\"><span class=\"at\">▷ 1</span>"), "{page}");
    assert!(console.page("/record?seq=1").contains("<bdi>Disallow: /private/</bdi>"));
    for wrong in ["", "ab", &"g".repeat(64), "../../etc/passwd"] {
        assert_eq!(console.get(&format!("/file?sha256={}", encoded(wrong.as_bytes()))).status, 400);
        assert_eq!(
            console.get(&format!("/file/raw?sha256={}", encoded(wrong.as_bytes()))).status,
            400
        );
    }
    let path = BlobStore::of(log.dir.path()).path(Kind::File, &sha256);
    let other = keep(log.dir.path(), b"User-agent: *\nAllow: /\n");
    fs::copy(BlobStore::of(log.dir.path()).path(Kind::File, &other), &path).unwrap();
    for (state, words) in [("another content", "was changed"), ("gone", "no longer kept")] {
        if state == "gone" {
            fs::remove_file(&path).unwrap();
        }
        let raw = console.get(&format!("/file/raw?sha256={sha256}"));
        assert_eq!(raw.status, 410, "{state}");
        for page in [format!("/file?sha256={sha256}"), "/record?seq=1".into()] {
            let page = console.page(&page);
            assert!(
                page.contains(words) && !page.contains("<bdi>Allow: /</bdi>"),
                "{state}: {page}"
            );
        }
    }
}

#[test]
fn a_dossier_is_made_of_a_site_and_read_again() {
    let site = Site::with_rules("User-agent: *\nDisallow: /private/\n");
    let place = Place::new("");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    assert_eq!(serve.get(&site.url("/open")).status, 200);
    assert_eq!(serve.get(&site.url("/private/b")).status, 403);
    serve.stop();
    let dir = place.audit_dir();
    let origin = site.url("");
    let console = Console::opened(&[&dir]);
    let page = console.page(&format!("/site?origin={}", encoded(origin.as_bytes())));
    assert!(page.contains("/site/dossier?origin="), "{page}");
    let made = console.get(&format!("/site/dossier?origin={}", encoded(origin.as_bytes())));
    assert_eq!(made.status, 200, "{made:?}");
    let tar = place.path().join("site.tar");
    fs::write(&tar, &made.body).unwrap();
    let verified = succeeds(courtesy(&["verify"]).arg(&tar));
    assert!(verified.contains("holds"), "{verified}");
    // As a log of its own, in which the lines between are not there.
    let unpacked = place.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    let mut command = Command::new("tar");
    assert!(command.arg("-xf").arg(&tar).arg("-C").arg(&unpacked).status().unwrap().success());
    for place in [&tar, &unpacked] {
        let of_site = Console::opened(&[place]);
        let found = rows(&of_site.page("/records"));
        let own: Vec<_> = rows(&console.page("/records"));
        assert_eq!(found, own);
        for (_, seq) in found {
            let page = of_site.page(&format!("/record?seq={seq}"));
            assert!(!page.contains("class=\"urgent\""), "{page}");
            assert!(page.contains("<bdi>Disallow: /private/</bdi>"), "{page}");
        }
        of_site.page("/");
        of_site.page(&format!("/site?origin={}", encoded(origin.as_bytes())));
    }
    let answer = console.page(&format!(
        "/ask?url={}&agent=ExampleBot",
        encoded(site.url("/private/never-asked").as_bytes())
    ));
    assert!(answer.contains("<b>Denied</b>"), "{answer}");
    assert!(answer.contains("Line 2, "), "{answer}");
    let answer = console.page(&format!("/ask?url={}", encoded(site.url("/other").as_bytes())));
    assert!(answer.contains("<b>Allowed</b>"), "{answer}");
}
