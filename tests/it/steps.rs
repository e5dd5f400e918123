//! Decisions made dear by a site's rules and a client's paths, and the other requests of the same worker.

use std::fs;
use std::process::Command;

use courtesy::audit::read::replay::{Replay, Replayed};
use courtesy::config::{Mode, Settings};
use courtesy::policy::profile;

use crate::testkit::hostile::{self, Shape};
use crate::testkit::parties::{Origin, Proxy};

/// One as the next, and two that are dear in other ways.
const SHAPES: [&str; 4] = [
    "abab, random, aa",
    "the second word first",
    "stars without end",
    "random words in a random path",
];

/// Requests that wait for a decision at one time.
const DEAR: usize = 8;

#[test]
fn l7_a_dear_decision_is_denied_recorded_and_keeps_no_other_waiting() {
    let proxy = Proxy::with(|settings| settings.workers = Some(1));
    let neighbour = Origin::with_robots("User-agent: *\nDisallow: /private/\n");
    assert_eq!(proxy.get(&neighbour.url("/")).status(), 200);
    let mut recorded = 0;
    for name in SHAPES {
        let shape = shape(name);
        let origin = Origin::with_robots(&shape.file);
        let ask = || {
            let mut client = proxy.client();
            client.ask("GET", &origin.url(&shape.path), "");
            client
        };
        let attackers: Vec<_> = (0..DEAR).map(|_| ask()).collect();
        assert_eq!(proxy.get(&neighbour.url("/a")).status(), 200, "{name}");
        assert_eq!(proxy.get(&neighbour.url("/private/a")).status(), 403, "{name}");
        for mut attacker in attackers {
            let denied = attacker.read();
            denied.assert_error(403, "http_request_denied");
            assert_eq!(denied.json()["reason"], "undecided", "{name}");
        }
        recorded += DEAR;
        assert_eq!(origin.request_lines(), ["GET /robots.txt"], "{name}");
    }
    let records = proxy.records();
    let undecided = records.iter().filter(|record| record["reason"] == "undecided");
    let rests_on_the_file = |record: &&serde_json::Value| {
        record["group"]["line"] == 1
            && record["robots"]["sha256"].is_string()
            && record["rule"].is_null()
    };
    assert_eq!(undecided.filter(rests_on_the_file).count(), recorded);
}

#[test]
fn l7_what_was_undecided_for_too_many_steps_is_so_again() {
    let shape = shape("short words");
    // Short enough for its record to have the whole of it.
    let path = &shape.path[..7_000];
    let origin = Origin::with_robots(&shape.file);
    let proxy = Proxy::start();
    let denied = proxy.get(&origin.url(path));
    denied.assert_error(403, "http_request_denied");
    assert!(
        denied.json()["detail"].as_str().is_some_and(|detail| detail.contains("too many steps"))
    );
    let record = serde_json::from_value(proxy.record()).expect("a record");
    let mut replay = Replay::recorded(&proxy.audit_dir(), |name, version, changes| {
        profile::recorded(name, version, changes)
    });
    assert_eq!(replay.again(&record), Replayed::Same);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("robots.txt");
    fs::write(&file, &shape.file).expect("a file");
    let check = Command::new(env!("CARGO_BIN_EXE_courtesy"))
        .args(["check", "--agent", "ExampleBot", "--robots"])
        .arg(&file)
        .arg(format!("http://a.example{path}"))
        .output()
        .expect("courtesy");
    let said = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(3), "{said}");
    assert!(said.contains("take too many steps"), "{said}");
}

#[test]
fn l7_who_observes_lets_the_undecided_pass_and_records_it() {
    let shape = shape("short words");
    let origin = Origin::with_robots(&shape.file);
    let proxy = Proxy::with(|settings: &mut Settings| settings.robots.mode = Mode::Observe);
    assert_eq!(proxy.get(&origin.url(&shape.path)).status(), 200);
    let record = proxy.record();
    assert_eq!((&record["event"], &record["reason"]), (&"would_deny".into(), &"undecided".into()));
}

fn shape(name: &str) -> Shape {
    hostile::shapes().into_iter().find(|shape| shape.name == name).expect("it is there")
}
