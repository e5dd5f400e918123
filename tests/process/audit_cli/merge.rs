//! Several logs read together: those of three proxies, whose times interleave.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use courtesy::audit::evidence::{Blob, BlobStore, Kind};
use courtesy::audit::{Record, Robots};
use courtesy::types::sanitize::{digest, sha256_hex};
use serde_json::Value;

use crate::audit_cli::forms::peak_memory;
use crate::audit_cli::support::{
    Following, Log, compress, courtesy, ended, fails, record, succeeds,
};

const NODES: [&str; 3] = ["crawler-a", "crawler-b", "crawler-c"];
const FILE: &str = "User-agent: *\nDisallow: /private/\n";

/// The `n`th of the series, by that node.
fn by(node: usize, n: u64) -> Record {
    Record { node: Some(NODES[node].into()), ..record(n) }
}

/// Thirty records over three logs in turn, the first log with a file that is closed and compressed.
fn three() -> [Log; 3] {
    let mut logs = [Log::new(), Log::new(), Log::new()];
    for n in 0..30 {
        let node = (n % 3) as usize;
        logs[node].write([by(node, n)]);
        if n == 15 {
            let closed = logs[0].rotate();
            compress(&closed);
        }
    }
    logs
}

/// `courtesy audit …` over all of them, in another order than that of their names.
fn audit(logs: &[Log], arguments: &[&str]) -> Command {
    let mut command = courtesy(arguments);
    for log in logs.iter().rev() {
        command.arg("--dir").arg(log.dir.path());
    }
    command
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn records_of_several_logs_come_in_order_of_time_and_once() {
    let logs = three();
    let found = succeeds(&mut audit(&logs, &["query", "--format", "json"]));
    let ids: Vec<_> =
        lines(&found).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..30).map(|n| record(n).id).collect::<Vec<_>>());
    // A directory that is given twice, by whatever name, is one log.
    let again = logs[0].dir.path().join(".");
    assert_eq!(
        succeeds(audit(&logs, &["query", "--format", "json"]).arg("--dir").arg(again)),
        found
    );
    // The counts are those of other programs over all files.
    let script = "for dir do zcat -f \"$dir\"/denials*.jsonl*; done | jq -r '[.node, .agent, .event] | join(\" \")' \
                  | sort | uniq -c | sed 's/^ *//'";
    let mut counted = Command::new("sh");
    counted.args(["-c", script, "sh"]).args(logs.iter().map(|log| log.dir.path()));
    let counted =
        String::from_utf8(counted.stderr(Stdio::inherit()).output().unwrap().stdout).unwrap();
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines(&found) {
        let words = ["node", "agent", "event"].map(|name| line[name].as_str().unwrap().to_owned());
        *ours.entry(words.join(" ")).or_default() += 1;
    }
    let ours: Vec<_> = ours.iter().map(|(words, count)| format!("{count} {words}")).collect();
    assert_eq!(ours, counted.lines().collect::<Vec<_>>());
}

#[test]
fn filters_and_tables_apply_to_all_logs_together() {
    let logs = three();
    let of = |arguments: &[&str]| {
        let found =
            succeeds(&mut audit(&logs, &[&["query", "--format", "json"], arguments].concat()));
        lines(&found).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ids = |numbers: &[u64]| numbers.iter().map(|n| record(*n).id).collect::<Vec<_>>();
    assert_eq!(of(&["--tail", "4"]), ids(&[26, 27, 28, 29]));
    assert_eq!(of(&["-n", "5"]), ids(&[0, 1, 2, 3, 4]));
    assert_eq!(of(&["--node", "CRAWLER-b", "--tail", "2"]), ids(&[25, 28]));
    assert_eq!(of(&["--since", "2026-11-20T12:27:00Z", "--node", "crawler-*"]), ids(&[27, 28, 29]));
    assert_eq!(of(&["--node", "crawler"]), ids(&[]));
    let table = succeeds(&mut audit(&logs, &["query", "--format", "table", "-n", "3"]));
    let firsts: Vec<_> = table.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(firsts, ["NODE", "crawler-a", "crawler-b", "crawler-c"]);
    let alone = succeeds(&mut audit(&logs[..1], &["query", "--format", "table", "-n", "1"]));
    assert!(!alone.contains("NODE") && !alone.contains("crawler-a"), "as before: {alone}");
    let csv = succeeds(&mut audit(&logs, &["export", "--format", "csv", "--event", "would_deny"]));
    // The last column but two.
    let nodes: Vec<_> = csv.lines().map(|line| line.rsplit(',').nth(2).unwrap()).collect();
    let expected =
        ["node", "crawler-a", "crawler-b", "crawler-c", "crawler-a", "crawler-b", "crawler-c"];
    assert_eq!(nodes[..7], expected, "0, 4, 8, 12, …");
}

#[test]
fn each_chain_is_verified_for_itself_and_the_worst_is_the_code() {
    let logs = three();
    let whole = succeeds(&mut audit(&logs, &["verify"]));
    assert!(whole.ends_with("All of them hold.\n"), "{whole}");
    let text = fs::read_to_string(logs[1].active()).unwrap();
    fs::write(logs[1].active(), text.replacen("/private/13", "/public_/13", 1)).unwrap();
    let (code, said, _) = ended(&mut audit(&logs, &["verify"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("Not all of them hold.\n"), "{said}");
    let heading = format!("{}:\n", logs[1].dir.path().display());
    let mut named = said.split(&heading);
    let (before, after) = (named.next().unwrap(), named.next().unwrap());
    assert!(
        !before.contains("changed")
            && after.starts_with(&format!(
                "The log does not hold: one fault.\n{}:5: ",
                logs[1].active().display()
            )),
        "{said}"
    );
    let (code, json, _) = ended(&mut audit(&logs, &["verify", "--format", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["holds"]), (Some(1), &false.into()));
    let of = |name: &str| {
        json["logs"].as_array().unwrap().iter().map(|log| log[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("holds"), [true, false, true]);
    assert_eq!(of("records"), [10, 9, 10]);
    let dirs: Vec<_> = logs.iter().rev().map(|log| log.dir.path().to_str().unwrap()).collect();
    assert_eq!(of("dir"), dirs);
    // The heads are named, and one that is published is of one log.
    let heads = succeeds(&mut audit(&logs, &["head", "--format", "json"]));
    let heads = lines(&heads);
    assert_eq!(heads.iter().map(|head| head["dir"].as_str().unwrap()).collect::<Vec<_>>(), dirs);
    let head = format!("10:{}", heads[0]["hash"].as_str().unwrap());
    let refused = fails(&mut audit(&logs, &["verify", "--head", &head]), 2);
    assert!(refused.contains("does not name its log"), "{refused}");
}

#[test]
fn evidence_is_looked_for_beside_the_log_that_names_it() {
    let mut logs = [Log::new(), Log::new()];
    let sha256 = sha256_hex(FILE.as_bytes());
    let blob = |log: &Log| {
        let content = FILE.as_bytes().to_vec().into();
        let sha256 = digest(&sha256).unwrap();
        BlobStore::of(log.dir.path()).put(&Blob { sha256, kind: Kind::File, content }).unwrap();
    };
    // Only one of them has what both name.
    blob(&logs[1]);
    for (node, log) in logs.iter_mut().enumerate() {
        let of = by(node, node as u64);
        let robots = Robots { sha256: Some(sha256.clone()), ..Robots::clone(&of.robots.unwrap()) };
        log.write([Record { robots: Some(robots.into()), ..of }]);
    }
    let shown = |n: u64| succeeds(&mut audit(&logs, &["show", &record(n).id, "--format", "json"]));
    assert!(!shown(0).contains("Disallow: /private/"));
    assert!(shown(1).contains("Disallow: /private/"));
    let missing = BlobStore::of(logs[0].dir.path()).path(Kind::File, &sha256).display().to_string();
    let (code, said, _) = ended(&mut audit(&logs, &["replay"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("no evidence: {missing} is missing")), "{said}");
    assert!(said.contains("  1 have lost their evidence\n"), "{said}");
    blob(&logs[0]);
    let (_, said, _) = ended(&mut audit(&logs, &["replay"]));
    assert!(!said.contains("evidence"), "{said}");
    // A number is of one log; both have it.
    let (code, _, said) = ended(&mut audit(&logs, &["show", "1"]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("crawler-a") && said.contains("crawler-b"), "{said}");
}

#[test]
fn all_of_them_are_followed() {
    let mut logs = [Log::new(), Log::new()];
    logs[0].write([by(0, 0)]);
    logs[1].write([by(1, 1)]);
    let mut following = Following::start(audit(&logs, &["query", "--follow", "--format", "json"]));
    assert!(following.next().contains("\"node\":\"crawler-a\""));
    assert!(following.next().contains("\"node\":\"crawler-b\""));
    for n in 2..8 {
        let node = (n % 2) as usize;
        let written = logs[node].write([by(node, n)]);
        assert_eq!(following.next(), written[0]);
        if n == 4 {
            let closed = logs[0].rotate();
            compress(&closed);
        }
    }
}

#[test]
fn a_report_adds_up_all_logs_and_misses_no_line_that_only_another_log_has() {
    let mut logs = three();
    // Number 11 of the first log has a time of its own.
    logs[0].write([by(0, 40)]);
    let report = |logs: &[Log], more: &[&str]| -> Value {
        let found = ended(&mut audit(logs, &[&["report", "--format", "json"], more].concat()));
        serde_json::from_str(&found.1).unwrap_or_else(|error| panic!("{error}: {found:?}"))
    };
    let of_all = report(&logs, &["--verify"]);
    assert_eq!((&of_all["records"]["all"], &of_all["log"]["lines"]), (&31.into(), &31.into()));
    assert_eq!(of_all["log"]["head"], Value::Null, "a chain has one");
    assert_eq!(
        (&of_all["verified"]["holds"], &of_all["missing"]["absent_lines"]),
        (&true.into(), &0.into())
    );
    let heads =
        of_all["logs"].as_array().unwrap().iter().map(|log| log["head"]["seq"].as_u64().unwrap());
    assert_eq!(heads.collect::<Vec<_>>(), [10, 10, 11]);
    let of_one = report(&logs[..1], &[]);
    assert_eq!(
        (&of_one["records"]["all"], &of_one["log"]["head"]["seq"]),
        (&11.into(), &11.into())
    );
    assert!(of_one.get("logs").is_none(), "as before");
    let text = succeeds(&mut audit(&logs, &["report"]));
    for log in &logs {
        assert!(text.contains(&format!("log {} up to line ", log.dir.path().display())), "{text}");
    }
    // A line that is gone from one of them.
    let lines = fs::read_to_string(logs[2].active()).unwrap();
    let kept: Vec<_> =
        lines.lines().enumerate().filter(|(at, _)| *at != 4).map(|(_, line)| line).collect();
    fs::write(logs[2].active(), kept.join("\n") + "\n").unwrap();
    let broken = report(&logs, &["--verify"]);
    assert_eq!(
        (&broken["verified"]["holds"], &broken["missing"]["absent_lines"]),
        (&false.into(), &1.into())
    );
}

/// As many as a fleet has, within the descriptors that a shell grants and little memory.
#[test]
fn two_hundred_logs_are_read_with_few_descriptors_and_little_memory() {
    let logs: Vec<Log> = (0..200)
        .map(|n| {
            let mut log = Log::new();
            log.write([by(0, n), by(0, 200 + n)]);
            log
        })
        .collect();
    let mut command = Command::new("sh");
    // It goes on, so that its memory can be looked at when it has printed all.
    let script = "ulimit -n 512; exec \"$0\" audit query --follow --format json \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_courtesy")]).env_clear().stdin(Stdio::null());
    for log in &logs {
        command.arg("--dir").arg(log.dir.path());
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // Kept: it ends when it has no reader any more.
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let printed = output.by_ref().lines().take(400);
    let ids: Vec<_> =
        printed.map(|line| lines(&line.unwrap())[0]["id"].as_str().unwrap().to_owned()).collect();
    let bytes = peak_memory(child.id()).expect("it waits for more");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ids, (0..400).map(|n| record(n).id).collect::<Vec<_>>());
    assert!(bytes < 100 << 20, "{bytes}");
    let mut too_many = courtesy(&["query"]);
    for n in 0..401 {
        too_many.arg("--dir").arg(format!("/nowhere/{n}"));
    }
    assert!(fails(&mut too_many, 2).contains("401 logs are too many at once: at most 400"));
}
