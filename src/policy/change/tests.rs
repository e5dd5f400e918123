//! The kinds of changes, one by one, and what each guarantees for every path.

use std::sync::Arc;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::super::access::{AccessResult, Capture, Cause, Freshness, NetworkFailure, Snapshot};
use super::super::decision::Verdict;
use super::super::state::Circumstances;
use super::*;
use crate::robots::Dialect;
use crate::types::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const BOT: &[Option<&str>] = &[Some("ExampleBot")];

/// A response of the origin.
#[derive(Clone, Copy)]
enum Answer {
    File(&'static str),
    /// The first bytes of a longer file.
    Cut(&'static str),
    Status(u16),
    Timeout,
}

use Answer::{Cut, File, Status, Timeout};

fn result(answer: Answer) -> AccessResult {
    let (text, cut) = match answer {
        File(text) => (text, false),
        Cut(text) => (text, true),
        Status(code) => return AccessResult::Without(Cause::Status { code, retry_after: None }),
        Timeout => {
            return AccessResult::Without(Cause::failed(NetworkFailure::Timeout, ""));
        }
    };
    let snapshot = Snapshot {
        body: text.as_bytes().into(),
        sha256: Sha256::digest(text).into(),
        cut,
        status: 200,
        url: "https://example.com/robots.txt".into(),
        hops: 0,
        fetched_at: NOW,
        content_type: None,
        etag: None,
        last_modified: None,
        capture: Capture::none(),
    };
    AccessResult::Successful { snapshot: Arc::new(snapshot), freshness: Freshness::default() }
}

/// The states after each of `answers`, starting from an unknown origin.
fn states(profile: &Profile, answers: &[Answer]) -> Vec<RobotsState> {
    let circumstances = Circumstances { now: NOW, jitter: 0.0, site_up: true };
    let read = |snapshot: &Snapshot| Arc::new(RobotsTxt::parse(&snapshot.body, &profile.dialect));
    let mut states = vec![RobotsState::Unknown];
    for answer in answers {
        let last = states.last().unwrap();
        states.push(last.after(profile, &result(*answer), &circumstances, read));
    }
    states
}

/// The kind of each step, and its agents.
fn steps(profile: &str, answers: &[Answer]) -> Vec<Option<Change>> {
    let profile = Profile::named(profile).unwrap();
    let states = states(&profile, answers);
    states.windows(2).map(|pair| change(&pair[0], &pair[1], &profile, BOT)).collect()
}

#[track_caller]
fn kinds(profile: &str, answers: &[Answer], expected: &[Option<Kind>]) {
    let steps = steps(profile, answers);
    let kinds: Vec<_> =
        steps.iter().map(|change| change.as_ref().map(|change| change.kind)).collect();
    assert_eq!(kinds, expected, "{profile}: {steps:?}");
}

#[track_caller]
fn becomes(before: &'static str, after: &'static str, kind: Kind, agents: &[&str]) {
    let change = steps("rfc9309", &[File(before), File(after)]).pop().unwrap().unwrap();
    assert_eq!(
        (change.kind, change.agents),
        (kind, agents.iter().map(ToString::to_string).collect()),
        "{before:?} {after:?}"
    );
}

#[test]
fn the_kind_is_what_the_rules_of_before_and_after_differ_in() {
    let base = "user-agent: *\ndisallow: /a\ndisallow: /b\n";
    for (after, kind) in [
        ("# more\nuser-agent: *\ndisallow: /a # one\n\ndisallow: /b\n", Kind::Cosmetic),
        ("User-Agent: *\nDisallow: /b\nDisallow: /a\nDisallow: /%61\n", Kind::Cosmetic),
        ("user-agent: *\ndisallow: /a\ndisallow: /b\ndisallow: /c\n", Kind::Narrower),
        ("user-agent: *\ndisallow: /a\n", Kind::Wider),
        ("user-agent: *\ndisallow: /a\ndisallow: /c\n", Kind::Mixed),
        ("user-agent: *\ndisallow: /a\ndisallow: /b\nallow: /a/open\n", Kind::Wider),
        // One of each kind, in both directions.
        ("user-agent: *\ndisallow: /a\nallow: /c\n", Kind::Mixed),
        ("user-agent: *\ndisallow: /a\ndisallow: /b\ndisallow: /c\nallow: /c/d\n", Kind::Mixed),
        ("", Kind::Wider),
        ("<html>\n", Kind::Wider),
    ] {
        let agents: &[&str] = if kind == Kind::Cosmetic { &[] } else { &["*", "ExampleBot"] };
        becomes(base, after, kind, agents);
    }
    let allowed = "user-agent: *\ndisallow: /a\nallow: /a/open\n";
    becomes(allowed, "user-agent: *\ndisallow: /a\n", Kind::Narrower, &["*", "ExampleBot"]);
}

#[test]
fn the_order_of_groups_is_text_and_so_is_a_group_in_two_parts() {
    let one = "user-agent: a\ndisallow: /a\n\nuser-agent: *\ndisallow: /b\n";
    let other = "user-agent: *\ndisallow: /b\n\nuser-agent: A\nuser-agent: a\ndisallow: /a\n";
    becomes(one, other, Kind::Cosmetic, &[]);
    let parts =
        "user-agent: *\ndisallow: /b\nuser-agent: a\ndisallow: /a\nuser-agent: *\ndisallow: /b\n";
    becomes(one, parts, Kind::Cosmetic, &[]);
}

#[test]
fn only_agents_that_were_here_are_named_as_concerned() {
    let base = "user-agent: *\ndisallow: /a\n\nuser-agent: other\ndisallow: /a\n";
    let other = "user-agent: *\ndisallow: /a\n\nuser-agent: other\ndisallow: /\n";
    becomes(base, other, Kind::Mixed, &["other"]);
    let longer = "user-agent: *\ndisallow: /a\n\nuser-agent: other\ndisallow: /a\ndisallow: /b\n";
    becomes(base, longer, Kind::Narrower, &["other"]);
    // A group of its own replaces the default group.
    let own = "user-agent: *\ndisallow: /a\n\nuser-agent: other\ndisallow: /a\n\nuser-agent: examplebot\nallow: /\n";
    becomes(base, own, Kind::Mixed, &["ExampleBot"]);
    // Wider for every seen agent, narrower for another.
    let both = "user-agent: *\nallow: /a/b\ndisallow: /a\n\nuser-agent: other\ndisallow: /a\ndisallow: /b\n";
    becomes(base, both, Kind::Wider, &["*", "ExampleBot", "other"]);
}

#[test]
fn other_records_alone_are_signals() {
    let base = "user-agent: *\ndisallow: /a\n";
    for more in [
        "sitemap: https://example.com/map.xml\n",
        "crawl-delay: 5\n",
        "Request-rate: 1/10m\n",
        "content-signal: ai-train=no\n",
        "content-usage: train-ai=n\n",
    ] {
        let after: &'static str = Box::leak([base, more].concat().into_boxed_str());
        let agents = ["*", "ExampleBot"];
        becomes(base, after, Kind::Signals, &agents);
        becomes(after, base, Kind::Signals, &agents);
        let narrower: &'static str = Box::leak([after, "disallow: /b\n"].concat().into_boxed_str());
        becomes(base, narrower, Kind::Narrower, &agents);
    }
    // Before any group: concerns no agent in particular.
    becomes(
        base,
        "sitemap: https://a.example/\n\nuser-agent: *\ndisallow: /a\n",
        Kind::Signals,
        &[],
    );
    // An unknown key.
    becomes(base, "user-agent: *\ndisallow: /a\nhost: example.com\n", Kind::Cosmetic, &[]);
}

#[test]
fn states_have_kinds_of_their_own() {
    use Kind::*;
    let (a, b) = (File("user-agent: *\ndisallow: /a\n"), File("user-agent: *\ndisallow: /b\n"));
    kinds("rfc9309", &[a], &[None]);
    kinds("rfc9309", &[Status(404), a, Status(410)], &[None, Some(Appeared), Some(Gone)]);
    kinds("rfc9309", &[a, Status(503), a], &[None, Some(Unreadable), Some(Back)]);
    kinds("rfc9309", &[a, Timeout, Status(503), b], &[None, Some(Unreadable), None, Some(Back)]);
    kinds("rfc9309", &[a, Status(503), Status(404)], &[None, Some(Unreadable), Some(Gone)]);
    kinds("rfc9309", &[Timeout, a], &[None, Some(Back)]);
    kinds(
        "rfc9309",
        &[Status(404), Status(410), Timeout, Status(404)],
        &[None, None, Some(Unreadable), Some(Back)],
    );
    // Access counts as denied only where the profile says so.
    kinds("rfc9309", &[a, Status(403)], &[None, Some(Gone)]);
    kinds("conservative", &[a, Status(403), a], &[None, Some(Unreadable), Some(Back)]);
    kinds("conservative", &[Status(403), Status(503)], &[None, None]);
}

#[test]
fn nothing_differs_in_a_file_that_comes_back_as_it_was() {
    let file = File("user-agent: *\ndisallow: /a\n");
    let steps = steps("rfc9309", &[file, Timeout, file]);
    let touched = steps.into_iter().flatten().flat_map(|change| change.agents);
    assert_eq!(touched.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn another_size_limit_is_no_other_file() {
    let whole = File("user-agent: *\ndisallow: /a\ndisallow: /b\n");
    let cut = Cut("user-agent: *\ndisallow: /a\ndis");
    let shorter = Cut("user-agent: *\ndisa");
    kinds("rfc9309", &[cut, whole, cut, shorter], &[None, None, None, None]);
    kinds("rfc9309", &[cut, File("user-agent: *\ndisallow: /c\n")], &[None, Some(Kind::Mixed)]);
    // A file that grew, and had not been truncated, is another file.
    kinds(
        "rfc9309",
        &[File("user-agent: *\ndisallow: /a\n"), whole],
        &[None, Some(Kind::Narrower)],
    );
}

#[test]
fn where_the_first_match_decides_the_order_is_more_than_text() {
    let (one, other) = ("allow: /a/b\ndisallow: /a\n", "disallow: /a\nallow: /a/b\n");
    let file =
        |rules| RobotsTxt::parse(&["user-agent: *\n", rules].concat().into_bytes(), &first_match());
    let kind = |before, after| compare(Some(&file(before)), Some(&file(after)), &[]).kind;
    assert_eq!(kind(one, other), Kind::Mixed);
    assert_eq!(kind(one, "allow: /a/b\ndisallow: /c\ndisallow: /a\n"), Kind::Narrower);
    assert_eq!(kind(one, "allow: /a/b\n"), Kind::Wider);
}

fn first_match() -> Dialect {
    let dialect = Profile::named("koster-1996").unwrap().dialect;
    assert!(dialect.precedence == crate::robots::Precedence::FirstMatch);
    dialect
}

#[test]
fn lines_are_counted_as_often_as_they_are_there() {
    let before = b"user-agent: *\ndisallow: /a\ndisallow: /a\n# old\n";
    let after = b"# old\r\n\r\nuser-agent: *\r\n  disallow: /a\r\nallow: /b\r\n";
    assert_eq!(line_counts(before, after), (1, 1));
    assert_eq!(line_counts(b"", before), (4, 0));
    assert_eq!(line_counts(before, before), (0, 0));
}

/// Files that often coincide: few agents, few patterns.
fn file() -> impl Strategy<Value = String> {
    let pattern =
        prop_oneof![Just("/"), Just("/a"), Just("/a/b"), Just("/*b"), Just("/a$"), Just("/%61")];
    let rule = (prop_oneof![Just("allow"), Just("disallow")], pattern);
    let group = (
        prop_oneof![Just("*"), Just("ExampleBot"), Just("other")],
        prop::collection::vec(rule, 0..4),
    );
    prop::collection::vec(group, 0..4).prop_map(|groups| {
        let rules = |rules: Vec<(&str, &str)>| {
            rules.iter().map(|(key, value)| format!("{key}: {value}\n")).collect::<String>()
        };
        groups
            .into_iter()
            .map(|(agent, of)| format!("user-agent: {agent}\n{}\n", rules(of)))
            .collect()
    })
}

proptest! {
    #[test]
    fn a_kind_keeps_what_it_promises_on_every_path(
        before in file(), after in file(), is_first in any::<bool>()
    ) {
        let dialect = if is_first { first_match() } else { Dialect::RFC9309 };
        let read = |text: &str| RobotsTxt::parse(text.as_bytes(), &dialect);
        let (before, after) = (read(&before), read(&after));
        let change = compare(Some(&before), Some(&after), BOT);
        let back = compare(Some(&after), Some(&before), BOT);
        let mirrored = match change.kind { Kind::Wider => Kind::Narrower, Kind::Narrower => Kind::Wider, same => same };
        prop_assert_eq!(back.kind, mirrored);
        let is_of_seen = change.agents.iter().any(|agent| agent == "*" || agent == "ExampleBot");
        for token in [None, Some("ExampleBot"), Some("unnamed")] {
            for path in ["/", "/a", "/b", "/a/b", "/a/b/c", "/ab", "/c/b"] {
                let verdict = |rules: &RobotsTxt| rules.decide(token, path.as_bytes()).verdict;
                let step = (verdict(&before), verdict(&after));
                if change.kind == Kind::Cosmetic || !is_of_seen {
                    prop_assert_eq!(step.0, step.1, "{} {:?}", path, change);
                }
                if change.kind == Kind::Wider && is_of_seen {
                    prop_assert_ne!(step, (Verdict::Allow, Verdict::Disallow), "{} {:?}", path, change);
                }
                if change.kind == Kind::Narrower && is_of_seen {
                    prop_assert_ne!(step, (Verdict::Disallow, Verdict::Allow), "{} {:?}", path, change);
                }
            }
        }
    }
}
