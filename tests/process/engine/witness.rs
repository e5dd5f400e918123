//! The engine as a witness of audit logs: the heartbeats of a proxy carry the head of its log.

use std::process::Output;

use super::*;
use crate::testkit::processes::{Place, Site};

const RULES: &str = "User-agent: *\nDisallow: /private\n";

/// Settings of a proxy of this node on the server.
fn settings(server: &RedisServer, node: &str) -> String {
    format!(
        "[engine]\nurl = \"redis+unix://{}\"\n[audit]\nnode = \"{node}\"\nsync = \"each\"\n",
        server.socket().display()
    )
}

/// A proxy that has denied a request and stopped, after the engine has seen the head of its log.
fn witnessed(server: &RedisServer, node: &str) -> Place {
    let place = Place::new(&settings(server, node));
    let site = Site::with_rules(RULES);
    let proxy = place.serve();
    assert_eq!(proxy.get(&site.url("/private/page")).status, 403);
    let lines = place.log().lines.len() as u64;
    until("the engine sees the head", || heads(&place, node).iter().any(|seq| *seq >= lines));
    proxy.stop();
    place
}

/// The numbers of the heads that the engine has seen of a node.
fn heads(place: &Place, node: &str) -> Vec<u64> {
    let said = stdout(&place.run("audit head --engine --format json"));
    let lines = said.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let of_node = |head: &serde_json::Value| {
        head["proxy"].as_str().is_some_and(|proxy| proxy.starts_with(&format!("{node}-")))
    };
    lines.filter(of_node).filter_map(|head| head["seq"].as_u64()).collect()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_end_that_was_cut_off_at_one_proxy_shows_at_the_engine() {
    let server = RedisServer::start(&[]);
    let (one, other) = (witnessed(&server, "one"), witnessed(&server, "other"));
    let whole = one.run("audit verify --engine");
    assert!(whole.status.success(), "{whole:?}");
    assert!(stdout(&whole).contains("Heads that the shared engine has seen: 1, found: 1."));
    assert!(stdout(&whole).contains("under a head that the shared engine has seen"));

    let file = one.audit_dir().join("denials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let first = text.split_inclusive('\n').next().expect("a line");
    std::fs::write(&file, first).unwrap();
    std::fs::remove_file(one.audit_dir().join("head.json")).unwrap();
    assert!(one.run("audit verify").status.success(), "the chain by itself does not show it");
    let cut = one.run("audit verify --engine");
    assert_eq!(cut.status.code(), Some(1), "{cut:?}");
    let seen = heads(&one, "one")[0];
    let fault =
        format!("cut off: the log ends with line 1, and line {seen} was seen by the shared");
    assert!(stdout(&cut).contains(&fault), "{}", stdout(&cut));

    // Of several logs, each is held against its own.
    let [one, other_dir] = [&one, &other].map(|place| place.audit_dir().display().to_string());
    let both =
        other.run(&format!("audit verify --engine --format json --dir {one} --dir {other_dir}"));
    assert_eq!(both.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&both.stdout).expect("JSON");
    assert_eq!(
        (&found["logs"][0]["holds"], &found["logs"][1]["holds"]),
        (&false.into(), &true.into())
    );
    assert_eq!(found["logs"][1]["witnessed"][0]["state"], "found");
}

#[test]
fn a_log_that_was_written_anew_shows_at_the_engine() {
    let server = RedisServer::start(&[]);
    let place = witnessed(&server, "one");
    std::fs::remove_dir_all(place.audit_dir()).unwrap();
    let site = Site::with_rules(RULES);
    let proxy = Place::serve(&place);
    for number in 0..10 {
        assert_eq!(proxy.get(&site.url(&format!("/private/{number}"))).status, 403);
    }
    proxy.stop();
    let anew = place.run("audit verify --engine");
    assert_eq!(anew.status.code(), Some(1), "{anew:?}");
    assert!(stdout(&anew).contains("another history: line"), "{}", stdout(&anew));
}

#[test]
fn commands_that_look_are_no_members() {
    let server = RedisServer::start(&[]);
    let place = Place::new(&settings(&server, "one"));
    let none = place.run("audit head --engine");
    assert_eq!(none.status.code(), Some(69), "{none:?}");
    assert_eq!(server.command(&["KEYS", "*"]).texts(), Vec::<&str>::new());
}

#[test]
fn an_engine_that_is_away_or_not_set_is_named() {
    let gone = Place::new("[engine]\nurl = \"redis+unix:///nowhere/redis.sock\"\n");
    let output = gone.run("audit head --engine");
    assert_eq!(output.status.code(), Some(69));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the shared engine cannot be reached: connection failed"), "{said}");
    let without = Place::new("").run("audit verify --engine");
    assert!(String::from_utf8_lossy(&without.stderr).contains("there is no log"), "{without:?}");
    assert_eq!(Place::new("").run("audit head --engine").status.code(), Some(2));
}
