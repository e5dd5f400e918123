//! One report in its three forms: what each must say, and what none may let through.

use serde_json::Value;

use super::*;
use crate::audit::{Client, Reason};
use crate::review::report::tests::log::{DAY, HOUR, Log as Lines, NOON, by_rule, record};

/// Somebody's attempts on whoever reads the report, as no honest log has them.
const HOSTILE: &str = "<script>alert('x')</script>\"><img src=http://evil.example/>&\u{202e}\u{1b}[2J\u{9b}";

fn report(lines: &[Vec<u8>]) -> Report {
    let mut survey = Survey::of(Filter::default());
    lines.iter().for_each(|line| survey.read(line));
    let origins = Vec::new();
    survey.finish(Request { rows_max: 10, made_at: NOON.plus(DAY * 3), origins })
}

/// Something of everything.
fn eventful() -> Report {
    let mut log = Lines::new();
    for hour in 0..48 {
        log.rule(NOON.plus(HOUR * hour), "http://a.example", "ExampleBot", "/private/", 12);
        log.rule(NOON.plus(HOUR * hour), "https://b.example:8443", "OtherBot", "/*?q=", 3);
    }
    log.unreachable(NOON.plus(HOUR * 5), "http://c.example", NOON);
    log.exempted(NOON.plus(HOUR * 6), "http://a.example", "legal", NOON.plus(DAY * 9));
    log.record(record(NOON.plus(HOUR * 7), "http://d.example", None, Reason::AgentRequired));
    log.totals(NOON, NOON.plus(DAY), 12_345, 99);
    log.gap(NOON.plus(HOUR), NOON.plus(HOUR * 2), 17);
    log.torn(NOON.plus(HOUR * 2), 99);
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
        let page = html::print(&report);
        let (names, _) = parse(&page);
        for name in ["script", "img", "link", "iframe", "object", "a", "form", "image", "use", "base"] {
            assert!(!names.iter().any(|found| found == name), "<{name}> in {page}");
        }
        for loads in ["src=", "href=", "url(", "@import", "style=\"", " on"] {
            let within_tags =
                page.split('<').filter_map(|part| part.split_once('>')).any(|(tag, _)| tag.contains(loads));
            assert!(!within_tags, "{loads} in a tag of {page}");
        }
        let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(!style.contains("url(") && !style.contains("@import"));
        assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"));
    }
}

#[test]
fn what_strangers_wrote_stays_text() {
    let report = hostile();
    let page = html::print(&report);
    assert!(
        !page.contains("<script") && !page.contains("<img") && page.contains("&lt;script&gt;alert(&#39;x")
    );
    let text = text::print(&report, Paint::OFF);
    for character in ['\u{202e}', '\u{1b}', '\u{9b}'] {
        assert!(!page.contains(character), "{character:?} in the page");
        assert!(!text.contains(character), "{character:?} in the text");
    }
    assert!(text.contains("<script>"), "{text}");
}

#[test]
fn the_text_fits_a_hundred_columns_and_says_what_matters() {
    let text = text::print(&eventful(), Paint::OFF);
    for line in text.lines().chain(text::print(&hostile(), Paint::OFF).lines()) {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
    for words in [
        "Denied requests, 2026-11-20 12:00 to 2026-11-22 11:00 UTC",
        "Records 99 · Denied 98 · Exempted 1",
        "12,444 requests decided: 12,345 allowed, 99 denied (0.8 %).",
        "17 records could not be written and are lost.",
        "torn 1 time",
        "http://a.example",
        "Disallow: /private/",
        "http://c.example     5 h        1      5 h  2026-11-20 12:00",
        "Expires soon",
        "legal: contract (OPS-7)",
    ] {
        assert!(text.contains(words), "{words} not in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn an_empty_log_is_said_to_be_empty() {
    let text = text::print(&report(&[]), Paint::OFF);
    assert!(text.contains("the log is empty"), "{text}");
    assert!(html::print(&report(&[])).contains("the log is empty"));
}

/// The names, with those within: `a.b`, and `a[].b` in lists.
fn names(prefix: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                names(&name, value, found);
            }
        }
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            names(&format!("{prefix}[]"), &items[0], found);
        }
        _ => found.push(prefix.to_owned()),
    }
}

#[test]
fn the_names_in_the_json_stay() {
    let json = serde_json::to_value(eventful()).unwrap();
    let mut found = Vec::new();
    names("", &json, &mut found);
    let expected = "\
courtesy made_at period.since period.until period.origins log.head.hash log.head.seq log.first_seq \
log.lines log.since log.until records.all records.by_event.denied records.by_event.exempted \
records.by_reason.disallow_rule records.by_reason.robots_unreachable records.by_reason.agent_required \
records.by_path records.by_host records.first records.last decided.allowed decided.denied \
decided.by_path decided.by_host decided.since decided.until decided.counted_seconds \
missing.lost_records missing.gaps missing.largest_gaps[].since missing.largest_gaps[].until \
missing.largest_gaps[].lost missing.largest_gaps[].why missing.torn missing.torn_octets \
missing.pruned_up_to missing.absent_lines missing.unreadable_lines by_origin.rows[].origin \
by_origin.rows[].records by_origin.others by_origin.distinct by_origin.undercount_at_most \
by_agent.rows[].agent by_agent.rows[].records by_agent.others by_agent.distinct \
by_agent.undercount_at_most by_rule.rows[].origin by_rule.rows[].line by_rule.rows[].directive \
by_rule.rows[].pattern by_rule.rows[].sha256 by_rule.rows[].records by_rule.others by_rule.distinct \
by_rule.undercount_at_most by_client.rows[].client by_client.rows[].address by_client.rows[].records \
by_client.others by_client.distinct by_client.undercount_at_most by_profile.rows[].profile \
by_profile.rows[].version by_profile.rows[].records by_profile.others \
by_profile.distinct by_profile.undercount_at_most unreachable.origins unreachable.rows[].origin \
unreachable.rows[].seconds unreachable.rows[].outages unreachable.rows[].longest_seconds \
unreachable.rows[].longest_since unreachable.rows[].records exemptions.rows[].by \
exemptions.rows[].reason exemptions.rows[].ticket exemptions.rows[].until exemptions.rows[].origin \
exemptions.rows[].records exemptions.rows[].first exemptions.rows[].last exemptions.rows[].standing \
exemptions.others exemptions.distinct exemptions.undercount_at_most over_time.bucket_seconds \
over_time.buckets[].start over_time.buckets[].by_reason.disallow_rule robots_txt[].origin \
robots_txt[].versions[].sha256 robots_txt[].versions[].first robots_txt[].versions[].last \
robots_txt[].versions[].records robots_txt[].earlier";
    assert_eq!(found, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(json["period"]["since"], Value::Null);
    assert_eq!(json["records"]["first"], "2026-11-20T12:00:00.000000Z");
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
