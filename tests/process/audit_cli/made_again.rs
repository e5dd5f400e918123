//! Changes and delays that a log notes, made again from their evidence.

use serde_json::{Value, json};

use crate::audit_cli::support::{audit, ended, succeeds};
use crate::testkit::processes::{Place, Robots, Site, until};

/// The lines of a log, chained anew after `change` was made to each, as by a user who may write there.
fn forge(place: &Place, change: impl Fn(&mut Value)) {
    let file = place.audit_dir().join("denials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut prev = "0".repeat(64);
    let mut lines = String::new();
    for line in text.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        change(&mut value);
        value["prev"] = json!(prev);
        value.as_object_mut().unwrap().remove("hash");
        let members = value.as_object().unwrap();
        let sorted: std::collections::BTreeMap<_, _> = members.iter().collect();
        let canonical = serde_json::to_string(&sorted).unwrap();
        prev = courtesy::types::sanitize::sha256_hex(canonical.as_bytes());
        lines += &format!("{},\"hash\":\"{prev}\"}}\n", canonical.strip_suffix('}').unwrap());
    }
    std::fs::write(&file, lines).unwrap();
}

/// A log with a delay of each of two files, and the change between them, after a restart and a reload.
fn served() -> (Place, Site) {
    let site = Site::with_rules("User-agent: *\nDisallow: /private/\nCrawl-delay: 0.01\n");
    let place = Place::new("");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/a")).status, 200);
    place.set("[deny]\nstatus = 451\n");
    serve.signal("HUP");
    until("the settings hold", || serve.said().contains("from now on other settings hold"));
    serve.stop();
    site.says(Robots::File(
        "User-agent: *\nDisallow: /private/\nDisallow: /new/\nCrawl-delay: 0.02\n".into(),
    ));
    let serve = place.serve_at("+2d");
    assert_eq!(serve.get(&site.url("/new/a")).status, 451);
    assert_eq!(serve.get(&site.url("/a")).status, 200);
    let has_all = || {
        let lines = place.log();
        (lines.events("changed").len(), lines.events("paced").len()) == (1, 2)
    };
    until("all have their lines", has_all);
    serve.stop();
    (place, site)
}

#[test]
fn changes_and_delays_follow_from_their_evidence_or_are_contradicted() {
    let (place, _site) = served();
    let dir = place.audit_dir();
    let replay = |arguments: &[&str]| {
        let mut command = audit(&dir, &[&["replay"], arguments].concat());
        ended(&mut command)
    };
    let all = succeeds(&mut audit(&dir, &["replay"]));
    assert!(
        all.contains("  3 notices of delays and changes say what their evidence does"),
        "{all}"
    );
    let other = succeeds(&mut audit(&dir, &["replay", "--profile", "google"]));
    assert!(!other.contains("notices"), "{other}");
    let paced = succeeds(&mut audit(&dir, &["replay", "--event", "paced", "--format", "json"]));
    assert!(paced.contains("\"notices\":2,\"same_notices\":2"), "{paced}");

    type Forgery = fn(&mut Value);
    let forgeries: [(&str, Forgery, &str); 6] = [
        ("paced", |line| line["delay_ms"] = json!(10_000), "10000 ms for the group"),
        ("paced", |line| line["text"] = json!("Crawl-delay: 1"), "\"Crawl-delay: 1\" → "),
        ("paced", |line| line["group"]["token"] = json!("x"), "the group \"x\" (line 1)"),
        ("changed", |line| line["added"] = json!(9), "9 lines added and 1 removed → 2 lines added"),
        ("changed", |line| line["kind"] = json!("wider"), "wider → narrower"),
        ("changed", |line| line["touched"][0]["kind"] = json!("signals"), "signals → narrower"),
    ];
    let whole = std::fs::read_to_string(dir.join("denials.jsonl")).unwrap();
    for (event, forgery, expected) in forgeries {
        forge(&place, |line| {
            if line["event"] == event {
                forgery(line);
            }
        });
        let (code, said, error) = replay(&[]);
        assert_eq!(code, Some(1), "{expected}: {said}{error}");
        assert!(said.contains(expected), "{expected} is not in\n{said}");
        let (_, said, _) = replay(&["--format", "json"]);
        let first: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        assert_eq!((&first["event"], &first["outcome"]), (&json!(event), &json!("differs")));
        std::fs::write(dir.join("denials.jsonl"), &whole).unwrap();
    }
    std::fs::remove_dir_all(dir.join("evidence")).unwrap();
    let (code, said, _) = replay(&["--event", "changed"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no evidence: ") && said.contains(" is missing"), "{said}");
}
