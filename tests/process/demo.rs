//! `courtesy demo`: the newcomer's first command. What it shows is checked by itself, so here only
//! that it ends well, says what it should, and leaves nothing behind.

use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command.arg("demo").args(arguments).env_clear().env("TMPDIR", dir.path());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stdout = String::from_utf8(stdout).unwrap();
    assert_eq!(
        (status.code(), String::from_utf8_lossy(&stderr).as_ref()),
        (Some(0), ""),
        "{stdout}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
    stdout
}

#[test]
fn the_account_is_complete_and_fits_a_terminal() {
    let account = demo(&[]);
    for line in [
        "✓ ExampleBot asks shop.example for /private/staff",
        "Line 2 of http://shop.example/robots.txt, \"Disallow: /private/\", applies to",
        ": denied · disallow_rule · line 2 · sha256 ",
        "pages for",
        "the next request reaches the site",
        "kept.example   ▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤▤\n",
        "never.example  ·■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■□□▤\n",
        " as expected\n",
    ] {
        assert!(account.contains(line), "{line} is not in\n{account}");
    }
    assert!(!account.contains(['✗', '\x1b']), "{account}");
    for line in account.lines() {
        assert!(line.chars().count() <= 90, "too wide: {line}");
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn the_same_account_for_programs() {
    let events: Vec<Value> =
        demo(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let checks = events.iter().filter(|event| event["event"] == "check");
    assert!(checks.clone().all(|check| check["as_expected"] == true));
    let summary = events.last().unwrap();
    assert_eq!(summary["event"], "summary");
    assert_eq!(
        (summary["of"].as_u64(), &summary["as_expected"]),
        (Some(checks.count() as u64), &summary["of"])
    );
}
