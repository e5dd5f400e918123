//! Changes of robots.txt files as the log notes them: listed, and shown one by one.

use courtesy::audit::Notice;
use courtesy::audit::evidence::{Blob, BlobStore, Kind};
use courtesy::types::sanitize::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::audit_cli::support::{Log, audit, ended, record, succeeds};
use crate::testkit::processes::{Place, Robots, Site, until};

const BEFORE: &str = "User-agent: *\nDisallow: /private/\n# \u{1b}[2J\n";
const AFTER: &str = "User-agent: *\nDisallow: /private/\nDisallow: /new/\n";

fn put(log: &Log, file: &str) -> String {
    let sha256: [u8; 32] = Sha256::digest(file).into();
    let content = file.as_bytes().to_vec().into();
    BlobStore::of(log.dir.path()).put(&Blob { sha256, kind: Kind::File, content }).unwrap();
    hex(&sha256)
}

fn rules(sha256: &str) -> Value {
    json!({ "cut": false, "sha256": sha256, "since": "2026-11-20T12:00:00.000000Z", "state": "rules", "status": 200 })
}

fn changed(origin: &str, kind: &str, [from, to]: [Value; 2]) -> Notice {
    let changed = json!({
        "added": 1, "agent_asked": "ExampleBot courtesy", "event": "changed", "from": from, "kind": kind,
        "origin": origin, "prev": "", "removed": 1,
        "sampled": { "examples": ["/new/a"], "now_denied": 1, "seen": 4 }, "seq": 0,
        "time": "2026-11-21T12:00:00.000000Z", "to": to,
        "touched": [{ "agents": ["*", "ExampleBot"], "kind": kind, "profile": "rfc9309" }],
    });
    Notice::Changed(serde_json::from_value(changed).unwrap())
}

/// With a change of one site, and an outage and its end of another.
fn log() -> Log {
    let mut log = Log::new();
    let [before, after] = [BEFORE, AFTER].map(|file| put(&log, file));
    log.write([record(1)]);
    log.note(changed("http://a.example", "narrower", [rules(&before), rules(&after)]));
    let out = json!({
        "cause": "status 503", "cut": false, "sha256": after, "state": "unreachable", "status": 503,
    });
    log.note(changed("http://b.example", "unreadable", [rules(&after), out.clone()]));
    let none =
        json!({ "cause": "status 404", "cut": false, "state": "unavailable", "status": 404 });
    log.note(changed("http://b.example", "back", [out, none]));
    log
}

#[test]
fn changes_are_listed_with_what_each_added_and_removed() {
    let log = log();
    let text = succeeds(&mut audit(log.dir.path(), &["changes"]));
    for expected in [
        "2026-11-21 12:00:00  http://a.example  narrower for *, ExampleBot  (line 2)\n",
        "1 of 4 sampled requests that were allowed are now denied: /new/a\n",
        "   1 line added and 1 removed:\n     - # \\x1B[2J\n     + Disallow: /new/\n",
        "none that can be had (status 503); the last copy has SHA-256 ",
        "   0 lines added and 0 removed\n",
        "   to   no robots.txt (status 404)\n   1 of 4",
        "   0 lines added and 3 removed:\n     - User-agent: *\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let of = |arguments: &[&str]| {
        let all = [&["changes", "--format", "json"][..], arguments].concat();
        let text = succeeds(&mut audit(log.dir.path(), &all));
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let kinds: Vec<_> = of(&[]).iter().map(|change| change["kind"].clone()).collect();
    assert_eq!(kinds, ["narrower", "unreadable", "back"]);
    let one = of(&["--origin", "a.example"]).remove(0);
    assert_eq!(
        one["difference"],
        json!({
            "added": 1, "removed": 1, "lines_added": ["Disallow: /new/"], "lines_removed": ["# \\x1B[2J"],
        })
    );
    assert_eq!((&one["seq"], &one["agents"]), (&json!(2), &json!(["*", "ExampleBot"])));
    assert_eq!(of(&["--since", "2026-11-22"]), [] as [Value; 0]);
    // One by its number has the same difference.
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "2"]));
    assert!(shown.ends_with("     - # \\x1B[2J\n     + Disallow: /new/\n"), "{shown}");
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "2", "--format", "json"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["difference"], one["difference"]);
}

#[test]
fn a_change_whose_files_are_no_longer_kept_says_so() {
    let log = log();
    std::fs::remove_dir_all(log.dir.path().join("evidence")).unwrap();
    let (code, text, _) = ended(&mut audit(log.dir.path(), &["changes", "--origin", "a.example"]));
    assert_eq!(code, Some(0));
    assert!(text.contains("the difference cannot be shown: robots.txt "), "{text}");
    assert!(text.contains(": it is no longer kept\n"), "{text}");
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "2", "--format", "json"]));
    assert!(shown.contains("it is no longer kept"), "{shown}");
}

#[test]
fn a_proxys_changes_are_listed_after_its_restart() {
    let site = Site::with_rules(BEFORE);
    let place = Place::new("");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/new/a")).status, 200);
    serve.stop();
    site.says(Robots::File(AFTER.into()));
    let serve = place.serve_at("+2d");
    assert_eq!(serve.get(&site.url("/new/a")).status, 403);
    let dir = place.audit_dir();
    let list = || succeeds(&mut audit(&dir, &["changes", "--format", "json"]));
    until("the change has its line", || !list().is_empty());
    serve.stop();
    let change: Value = serde_json::from_str(&list()).unwrap();
    assert_eq!((&change["kind"], &change["difference"]["added"]), (&json!("narrower"), &json!(1)));
    place.verified();
}
