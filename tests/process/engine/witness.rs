//! The engine as a witness of audit logs: the heartbeats of a proxy carry the head of its log.

use std::process::Output;

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::testkit::processes::{Place, Reply, Site};

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
    assert_eq!(
        anew.status.code(),
        Some(0),
        "it is another log, and the engine has seen it: {anew:?}"
    );
    let said = stdout(&anew);
    assert!(
        said.lines().next().unwrap().contains("; it has seen another log of its proxy, too."),
        "{said}"
    );
    assert!(said.contains("Of another log of this proxy, "), "{said}");
    // Written anew where the engine has not seen it: there is nothing to hold it against.
    let elsewhere = Place::new("");
    elsewhere.serve().stop();
    std::fs::remove_dir_all(place.audit_dir()).unwrap();
    std::fs::rename(elsewhere.audit_dir(), place.audit_dir()).unwrap();
    let unseen = place.run("audit verify --engine");
    assert_eq!(unseen.status.code(), Some(69), "{unseen:?}");
    let first =
        "The log holds in itself; the shared engine has seen no head of it, only of another log";
    assert!(stdout(&unseen).starts_with(first), "{}", stdout(&unseen));
}

/// The lines of a log without those that are not `kept`, chained anew, as by a user who may write there.
fn rewrite(dir: &Path, kept: impl Fn(&Value) -> bool) {
    let file = dir.join("denials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let (mut prev, mut seq, mut lines) = ("0".repeat(64), 0, String::new());
    for line in text.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if !kept(&value) {
            continue;
        }
        seq += 1;
        let members = value.as_object_mut().unwrap();
        members.remove("hash");
        members.insert("prev".into(), prev.into());
        members.insert("seq".into(), seq.into());
        let canonical = serde_json::to_string(&value).unwrap();
        prev = courtesy::types::sanitize::sha256_hex(canonical.as_bytes());
        let rest = canonical.strip_suffix('}').unwrap();
        lines.push_str(&format!("{rest},\"hash\":\"{prev}\"}}\n"));
    }
    std::fs::write(&file, lines).unwrap();
    let head = dir.join("head.json");
    let mut noted: Value = serde_json::from_slice(&std::fs::read(&head).unwrap()).unwrap();
    (noted["hash"], noted["seq"]) = (prev.into(), seq.into());
    std::fs::write(&head, noted.to_string()).unwrap();
}

#[test]
fn a_rewritten_log_is_not_believed_again_because_its_proxy_was_started() {
    let server = RedisServer::start(&[]);
    let place = witnessed(&server, "one");
    let site = Site::with_rules(RULES);
    let seen = heads(&place, "one");
    // A checkpoint can be left out, and not be made.
    rewrite(&place.audit_dir(), |line| !["denied", "totals"].iter().any(|it| line["event"] == *it));
    assert_eq!(place.run("audit verify").status.code(), Some(1), "its checkpoint shows it");
    rewrite(&place.audit_dir(), |line| line["event"] != "checkpoint");
    assert!(place.run("audit verify").status.success(), "by itself it does not show");
    for _ in 0..2 {
        let proxy = place.serve();
        until("it is held against what the engine has seen", || {
            proxy.admin("/readyz").body.contains("was cut off or written anew")
        });
        let readiness = proxy.admin("/readyz");
        assert!(readiness.status == 200 && readiness.body.contains("degraded"), "{readiness:?}");
        for number in 0..5 {
            assert_eq!(proxy.get(&site.url(&format!("/private/{number}"))).status, 403);
        }
        let said = proxy.stop();
        assert!(
            said.contains("ERROR") && said.contains("courtesy audit verify --engine"),
            "{said}"
        );
    }
    assert!(!place.log().events("rewound").is_empty());
    assert!(heads(&place, "one").contains(&seen[0]), "the engine has forgotten");
    let verified = place.run("audit verify --engine");
    assert_eq!(verified.status.code(), Some(1), "{}", stdout(&verified));
    assert!(stdout(&verified).contains("another history: line"), "{}", stdout(&verified));
    let alone = place.run("audit verify");
    assert_eq!(alone.status.code(), Some(1));
    assert!(stdout(&alone).contains("rewound: when the proxy was started"), "{}", stdout(&alone));
}

#[test]
fn a_line_of_another_node_does_not_get_round_the_witness() {
    let server = RedisServer::start(&[]);
    let place = witnessed(&server, "one");
    // Cut, and one line more, of a proxy that the engine does not know.
    let file = place.audit_dir().join("denials.jsonl");
    rewrite(&place.audit_dir(), |line| line["event"] != "denied");
    let text = std::fs::read_to_string(&file).unwrap();
    let (kept, last) = text.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&file, format!("{kept}\n{}\n", last.replace("\"one\"", "\"stranger\"")))
        .unwrap();
    rewrite(&place.audit_dir(), |_| true);
    let verified = place.run("audit verify --engine");
    assert_eq!(verified.status.code(), Some(1), "{}", stdout(&verified));
    assert!(stdout(&verified).contains("was seen by the shared engine"), "{}", stdout(&verified));
}

#[test]
fn heads_of_other_logs_accuse_no_honest_one_and_each_names_its_log() {
    let server = RedisServer::start(&[]);
    // Two proxies of one host, which have the same node.
    let (one, other) = (witnessed(&server, "one"), witnessed(&server, "one"));
    for place in [&one, &other] {
        let verified = place.run("audit verify --engine --format json");
        assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
        let found: Value = serde_json::from_slice(&verified.stdout).unwrap();
        let states: Vec<_> =
            found["witnessed"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
        assert!(
            states.contains(&&"found".into()) && states.contains(&&"other_log".into()),
            "{found}"
        );
    }
    let published = stdout(&one.run("audit head"));
    let log = one.log().lines[0]["log"].as_str().expect("the first line names the log").to_owned();
    assert!(published.starts_with(&format!("courtesy/one/{log}\n")), "{published}");
    let heads = one.path().join("heads.txt");
    std::fs::write(&heads, &published).unwrap();
    let against =
        |place: &Place, command: &str| place.run(&format!("{command} --head {}", heads.display()));
    assert!(against(&one, "audit verify").status.success());
    let of_other = against(&other, "audit verify");
    assert_eq!(of_other.status.code(), Some(69), "{}", stdout(&of_other));
    let verdict = "The log holds in itself; every published head that was given is of another log";
    assert!(stdout(&of_other).starts_with(verdict), "{}", stdout(&of_other));
    // A report claims the same.
    let report = against(&other, "audit report --verify");
    assert_eq!(report.status.code(), Some(69), "{}", stdout(&report));
    assert!(stdout(&report).contains(verdict), "{}", stdout(&report));
    let report = against(&one, "audit report --verify");
    let up_to = format!("up to line {} under a published head", one.log().lines.len());
    assert!(report.status.success() && stdout(&report).contains(&up_to), "{}", stdout(&report));
}

/// What the engine has seen at an orderly end is the last line.
#[test]
fn an_orderly_end_sends_the_last_head() {
    let server = RedisServer::start(&[]);
    let place = witnessed(&server, "one");
    assert_eq!(heads(&place, "one"), [place.log().lines.len() as u64]);
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
    assert_eq!(Place::new("").run("audit head --engine").status.code(), Some(78));
}

#[test]
fn a_log_is_held_against_the_head_of_each_hour() {
    const HEADS: &str = "courtesy:1:{cluster}:heads";
    const HOURS: &str = "courtesy:1:{cluster}:hours";
    let server = RedisServer::start(&[]);
    let place = witnessed(&server, "one");
    let lines = place.log().lines;
    let log = lines.iter().find_map(|line| line["log"].as_str()).expect("its identity");
    let verified = || {
        let output = place.run("audit verify --engine");
        (output.status.code(), stdout(&output))
    };
    // What another hour has seen, beside this one.
    let noted = |hour: u32, seq: usize, hash: &str| {
        let text = format!("1 {seq} {hash} 5 0.1.0 one");
        server.command(&["HSET", HOURS, &format!("{log} {hour}"), &text]);
    };
    let places: Vec<u32> = (0..168).collect();
    let is_free = |hour: &u32| {
        let field = format!("{log} {hour}");
        server.command(&["HGET", HOURS, &field]) == Reply::Nil
    };
    let free: Vec<_> = places.into_iter().filter(is_free).take(2).collect();
    let hash = |seq: usize| lines[seq - 1]["hash"].as_str().expect("a hash").to_owned();
    noted(free[0], 1, &hash(1));
    let (code, said) = verified();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Heads that the shared engine has seen: 2, found: 2."), "{said}");
    noted(free[1], 2, &"0".repeat(64));
    let (code, said) = verified();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("line 2 does not have the hash that was seen by the shared engine"),
        "{said}"
    );
    server.command(&["HDEL", HOURS, &format!("{log} {}", free[1])]);
    // Without the last head, that of its hour still shows that the end was cut off.
    server.command(&["DEL", HEADS]);
    assert_eq!(verified().0, Some(0));
    let file = place.audit_dir().join("denials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let kept: String = text.split_inclusive('\n').take(2).collect();
    std::fs::write(&file, kept).unwrap();
    let (code, said) = verified();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cut off: the log ends with line 2"), "{said}");
}
