//! Checkpoints by the program: what a proxy signs while it serves, what is published, and who checks it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::testkit::processes::{Place, RULES, Site, until};

/// Standard output of a command that is to end so.
#[track_caller]
fn said(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A proxy that has denied, and is stopped.
fn served() -> Place {
    let site = Site::with_rules(RULES);
    let place = Place::new("[audit]\nnode = \"crawler-3\"\n");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    serve.stop();
    place
}

fn lines(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("denials.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The script of docs/reference/audit-record.md, over the lines of a log.
fn root_by_python(dir: &Path) -> String {
    let page = include_str!("../../../docs/reference/audit-record.md");
    let (_, script) = page.split_once("```python\n").expect("the page has a script");
    let (script, _) = script.split_once("```").unwrap();
    let lines = fs::File::open(dir.join("denials.jsonl")).unwrap();
    let output = Command::new("python3").args(["-c", script]).stdin(lines).output().unwrap();
    said(&output, 0).trim().to_owned()
}

#[test]
fn what_is_published_is_found_by_head_and_key() {
    let place = served();
    let dir = place.audit_dir();
    let written = lines(&dir);
    let [.., totals, checkpoint, stopped] = &written[..] else { panic!("{written:?}") };
    for (line, event) in [(totals, "totals"), (checkpoint, "checkpoint"), (stopped, "stopped")] {
        assert_eq!(line["event"], event);
    }
    let key = said(&place.run("audit key"), 0);
    assert_eq!(written[0]["key"], key.trim());
    assert!(
        key.starts_with(&format!("courtesy/crawler-3/{}+", written[0]["log"].as_str().unwrap()))
    );

    // The head of now, and that in JSON; both by the key that the page's script knows nothing of.
    let note = said(&place.run("audit head"), 0);
    let root = note.lines().nth(2).unwrap();
    let by_python = root_by_python(&dir);
    let root = BASE64_STANDARD.decode(root).unwrap();
    assert_eq!(root.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), by_python);
    let object = said(&place.run("audit head --format json"), 0);
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!((&object["checkpoint"], &object["seq"]), (&json!(note), &json!(written.len())));
    let [heads, objects, own] =
        ["heads.txt", "heads.jsonl", "own.txt"].map(|name| place.path().join(name));
    fs::write(&heads, note.repeat(2)).unwrap();
    fs::write(&objects, format!("{object}\n{object}\n")).unwrap();
    fs::write(&own, checkpoint["note"].as_str().unwrap()).unwrap();
    let key = key.trim();
    for file in [&heads, &objects, &own] {
        let file = file.to_str().unwrap();
        let text = said(&place.run(&format!("audit verify --head {file} --key {key}")), 0);
        assert!(text.starts_with("The log holds, up to line"), "{text}");
        assert!(text.contains("It is signed by the key that was given."), "{text}");
        let text = said(&place.run(&format!("audit verify --head {file}")), 0);
        assert!(
            text.contains("the key that the log itself names, which does not say whose"),
            "{text}"
        );
    }
    let text = said(&place.run("audit verify"), 0);
    assert!(text.contains("1 checkpoint in it."), "{text}");
    let listed = said(&place.run("audit query --event checkpoint"), 0);
    assert!(listed.contains("courtesy/crawler-3/"), "{listed}");

    // Those of another proxy: its checkpoint says nothing, its key has signed nothing here.
    let other = served();
    let foreign = said(&other.run("audit head"), 0);
    fs::write(&heads, &foreign).unwrap();
    let text = said(&place.run(&format!("audit verify --head {}", heads.display())), 69);
    assert!(text.contains("every published head that was given is of another log"), "{text}");
    let foreign = said(&other.run("audit key"), 0);
    let text = said(&place.run(&format!("audit verify --key {}", foreign.trim())), 1);
    assert!(text.contains("it is not signed by the key that was given"), "{text}");
    // Without the key nothing is signed, and the head is as it was before there were any.
    fs::remove_file(place.state_dir().join("audit.key")).unwrap();
    let head = said(&place.run("audit head"), 0);
    assert_eq!((head.lines().count(), head.contains("  log:")), (1, true), "{head}");
    assert_eq!(place.run("audit verify --key nonsense").status.code(), Some(2));
}

#[test]
fn what_was_published_before_a_kill_is_found_after_it() {
    let site = Site::with_rules(RULES);
    let place = Place::new("[audit]\nrotate_size = \"16KiB\"\n");
    let heads = place.path().join("heads.txt");
    let mut published = String::new();
    for round in 0..3 {
        let serve = place.serve();
        for number in 0..20 {
            assert_eq!(serve.get(&site.url(&format!("/private/{round}/{number}"))).status, 403);
        }
        published += &said(&place.run("audit head"), 0);
        serve.kill();
    }
    let serve = place.serve();
    until("closed files have their leaves", || place.audit_dir().join("tiles/0/000.p").is_dir());
    serve.stop();
    fs::write(&heads, &published).unwrap();
    let key = said(&place.run("audit key"), 0);
    let verify =
        format!("audit verify --format json --head {} --key {}", heads.display(), key.trim());
    let verified: Value = serde_json::from_str(&said(&place.run(&verify), 0)).unwrap();
    let heads = verified["published"]["heads"].as_array().unwrap();
    assert_eq!(heads.len(), 3);
    for head in heads {
        assert_eq!(
            (&head["state"], &head["root_holds"], &head["signed"]),
            (&json!("found"), &json!(true), &json!("given_key"))
        );
    }
    assert_eq!(verified["checkpoints"]["signed"], "given_key");
}

#[test]
fn runs_sign_with_one_key_and_one_that_others_can_read_is_refused() {
    let place = Place::new("");
    let runs: Vec<_> = (0..2)
        .map(|_| {
            assert!(place.run("run -- true").status.success());
            let key = said(&place.run("audit key --run last"), 0);
            let text = said(&place.run("audit verify --run last"), 0);
            assert!(text.contains("1 checkpoint in it."), "{text}");
            let note = said(&place.run("audit head --run last"), 0);
            assert!(note.starts_with("courtesy/"), "{note}");
            key.trim().to_owned()
        })
        .collect();
    let public = |key: &str| key.rsplit_once('+').unwrap().1.to_owned();
    assert_ne!(runs[0], runs[1], "each log has its name");
    // A key in base64 may have a plus of its own: what follows the last is the same all the more.
    assert_eq!(public(&runs[0]), public(&runs[1]));
    let file = place.state_dir().join("audit.key");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let output = place.run("run -- true");
    assert_eq!(output.status.code(), Some(77), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("cannot use the key of the denial log") && text.contains("chmod 600"),
        "{text}"
    );
    // The key is in no log and in no message.
    let secret = fs::read_to_string(&file).unwrap();
    let secret = secret.lines().nth(1).unwrap();
    assert!(!text.contains(secret));
}
