//! A log with a line of each kind, by a proxy whose settings were changed while it served, through every command:
//! what a line is follows from its `event`, and from nothing that its texts contain.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use courtesy::audit::{Content, Event, Head, Notice};
use serde_json::{Value, json};

use crate::audit_cli::support::{audit, ended, fails, succeeds};
use crate::testkit::processes::{Place, Site, until};

const RULES: &str = "User-agent: *\nDisallow: /private/\nCrawl-delay: 1\n";

/// Settings whose values have members that records have, too; each table is new to the proxy when it is reloaded.
const RELOADED: [(&str, &str); 6] = [
    (
        "exemptions",
        "[[exemptions]]\norigin = \"http://reason.example\"\npaths = [\"/event/\"]\nagents = [\"OtherBot\"]\n\
         by = \"legal\"\nreason = \"\\\"event\\\":\\\"denied\\\",\\\"reason\\\":\\\"undecided\\\"\"\n\
         ticket = \"T-1\"\nuntil = \"9999-01-01\"\ncrawl_delay = \"2s\"\n",
    ),
    (
        "agents.rules",
        "[[agents.rules]]\nmatch = \"Third/*\"\ntoken = \"ThirdBot\"\nmode = \"observe\"\nprofile = \"google\"\n",
    ),
    (
        "origins",
        "[[origins]]\norigin = \"https://time.example\"\nmode = \"observe\"\nprofile = \"google\"\n",
    ),
    ("robots.max_redirects", "[robots]\nmax_redirects = 6\n"),
    ("deny", "[deny]\nstatus = 451\n"),
    ("pace.backoff_min", "[pace]\nbackoff_min = \"31s\"\n"),
];

/// A log as a proxy has written it: with denials, a delay, and a reload for each of [`RELOADED`].
pub fn served() -> Place {
    let site = Site::with_rules(RULES);
    let place = Place::new("[audit]\nallowed = \"all\"\n");
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    assert_eq!(serve.get(&site.url("/open")).status, 200);
    let mut settings = String::new();
    for (key, section) in RELOADED {
        settings = format!("{section}{settings}");
        place.set(&settings);
        serve.signal("HUP");
        let is_said = |line: &str| {
            let keys = line.split_once("from now on other settings hold: ");
            keys.is_some_and(|(_, keys)| keys.contains(key))
        };
        until("the settings hold", || serve.said().lines().any(is_said));
    }
    let denied = serve.get(&site.url("/private/b"));
    assert_eq!(denied.status, 451, "{denied:?}");
    serve.stop();
    place
}

/// Appends a notice of each kind that the log lacks, as a writer would, and a line of a kind to come.
pub fn add_other_kinds(dir: &Path) {
    let file = dir.join("denials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut head =
        Head { hash: last["hash"].as_str().unwrap().into(), seq: last["seq"].as_u64().unwrap() };
    let mut lines = Vec::new();
    let time = "2026-11-20T12:00:00.000000Z";
    let side = json!({ "cut": false, "state": "unavailable" });
    for (word, mut members) in [
        ("gap", json!({ "lost": 2, "since": time, "why": "},\"reason\":\"undecided\"" })),
        ("torn", json!({ "octets": 3, "sha256": "ab".repeat(32) })),
        (
            "changed",
            json!({
                "added": 0, "agent_asked": "ExampleBot", "from": side, "kind": "gone",
                "origin": "https://www1.example.com", "removed": 0,
                "sampled": { "examples": ["/reason\",\"reason\":\"x\""], "now_denied": 1, "seen": 1 }, "to": side,
                "touched": [{ "agents": ["ExampleBot"], "kind": "gone", "profile": "rfc9309" }],
            }),
        ),
        (
            "changes_omitted",
            json!({ "omitted": 1, "origin": "https://www2.example.com", "since": time, "why": "overload" }),
        ),
        ("pruned", json!({ "last_hash": "0".repeat(64), "last_seq": 0 })),
        ("pulse", json!({ "allowed": 1, "by_host": 0, "by_path": 1, "denied": 0, "since": time })),
        ("published", json!({ "by": "git", "checkpoint": "ab".repeat(32) })),
        ("operated", json!({ "action": "export", "by": "token", "subject": "the report" })),
        ("evidence_lost", json!({ "evidence": ["evidence/ab/ab.txt.gz"] })),
        // Of a later version.
        ("fetched", json!({ "agent": "ExampleBot", "reason": "it decided", "robots": null })),
    ] {
        for (name, value) in [
            ("event", json!(word)),
            ("prev", json!(head.hash)),
            ("seq", json!(head.seq + 1)),
            ("time", json!(time)),
        ] {
            members[name] = value;
        }
        let sorted: BTreeMap<_, _> = members.as_object().unwrap().iter().collect();
        let canonical = serde_json::to_string(&sorted).unwrap();
        let hash = courtesy::types::sanitize::sha256_hex(canonical.as_bytes());
        let line = format!("{},\"hash\":\"{hash}\"}}", canonical.strip_suffix('}').unwrap());
        assert_eq!(
            Content::parse(line.as_bytes()).is_ok(),
            Notice::WORDS.contains(&word),
            "{line}"
        );
        lines.push(line + "\n");
        head = Head { hash, seq: head.seq + 1 };
    }
    std::fs::write(&file, text + &lines.concat()).unwrap();
    // It is no longer what the proxy noted, which is no fault: it notes an earlier line.
}

fn lines(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("denials.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_record(line: &Value) -> bool {
    Event::ALL.iter().any(|event| line["event"] == event.word())
}

/// Standard output; the lost records, of which a note tells, are the only thing said beside it.
#[track_caller]
fn done(command: &mut Command) -> String {
    let (code, stdout, stderr) = ended(command);
    assert_eq!(code, Some(0), "{command:?}: {stdout}{stderr}");
    assert!(stderr.is_empty() || stderr.starts_with("note: 2 records of"), "{command:?}: {stderr}");
    stdout
}

#[track_caller]
fn seqs(text: &str) -> Vec<u64> {
    let seq = |line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
    text.lines().map(seq).collect()
}

#[test]
fn a_log_with_a_line_of_each_kind_holds_and_every_command_reads_it() {
    let place = served();
    let dir = place.audit_dir();
    add_other_kinds(&dir);
    let lines = lines(&dir);
    for word in Notice::WORDS.iter().filter(|word| **word != "rewound") {
        assert!(lines.iter().any(|line| line["event"] == *word), "the log has no {word}");
    }
    let changes: Vec<_> = lines.iter().filter(|line| line["event"] == "settings").collect();
    let of_notice = |line: &&Value| line["changes"].as_array().unwrap().clone();
    let keys: Vec<_> = changes.iter().flat_map(of_notice).map(|it| it["key"].to_string()).collect();
    for (key, _) in RELOADED {
        assert!(
            keys.iter().any(|found| found[1..].starts_with(key)),
            "{key} is not among {keys:?}"
        );
    }
    let numbers = |is_meant: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        lines
            .iter()
            .filter(|line| is_meant(line))
            .map(|line| line["seq"].as_u64().unwrap())
            .collect()
    };
    let records = numbers(&is_record);
    assert_eq!(records.len(), 2);

    let verified: Value =
        serde_json::from_str(&done(&mut audit(&dir, &["verify", "--format", "json"]))).unwrap();
    assert_eq!((&verified["holds"], &verified["records"]), (&json!(true), &json!(2)), "{verified}");
    assert_eq!(verified["notices"]["unknown"], 1);
    assert_eq!(verified["notices"]["settings"], changes.len());
    assert!(done(&mut audit(&dir, &["verify"])).starts_with("The log holds in itself"));

    for arguments in
        [&["query"][..], &["query", "--tail", "9"], &["query", "--agent", "*"], &["export"]]
    {
        assert_eq!(seqs(&done(&mut audit(&dir, arguments))), records, "{arguments:?}");
    }
    for word in Notice::WORDS {
        let expected = numbers(&|line| line["event"] == *word);
        for command in ["query", "export"] {
            assert_eq!(
                seqs(&done(&mut audit(&dir, &[command, "--event", word]))),
                expected,
                "{word}"
            );
        }
        // CSV has no columns for it, WARC no evidence, and there is nothing to decide again.
        for arguments in [
            &["query", "--format", "csv", "--event", word][..],
            &["export", "--format", "csv", "--event", "denied", "--event", word],
            &["export", "--format", "warc", "--event", word],
            &["replay", "--event", word],
        ] {
            if arguments[0] == "replay" && ["allowed", "changed", "paced"].contains(word) {
                continue;
            }
            let said = fails(&mut audit(&dir, arguments), 2);
            assert!(said.contains(&format!("and {word} is a notice")), "{said}");
        }
    }
    let paced = lines.iter().find(|line| line["event"] == "paced").unwrap();
    let of_site = paced["origin"].as_str().unwrap();
    for (filter, event, expected) in [
        (["--origin", of_site], "paced", 1),
        (["--origin", "*.example.com"], "paced", 0),
        (["--origin", "*.example.com"], "changed", 1),
        (["--origin", "www2.example.com"], "changes_omitted", 1),
        (["--origin", "www2.example.com"], "started", 0),
        (["--agent", "examplebot"], "paced", 1),
        (["--agent", "examplebot"], "changed", 1),
        (["--agent", "OtherBot"], "changed", 0),
        (["--rule", "/private/"], "paced", 0),
    ] {
        let found = done(&mut audit(&dir, &["query", filter[0], filter[1], "--event", event]));
        assert_eq!(found.lines().count(), expected, "{filter:?} {event}");
    }
    let sheet = done(&mut audit(&dir, &["query", "--format", "csv"]));
    assert_eq!(csv::Reader::from_reader(sheet.as_bytes()).records().count(), 2);
    let table = done(&mut audit(&dir, &["query", "--format", "table", "--wide"]));
    assert_eq!(table.lines().count(), 3, "{table}");

    let last = lines.last().unwrap();
    for line in &lines[..lines.len() - 1] {
        let number = line["seq"].to_string();
        let shown = succeeds(&mut audit(&dir, &["show", &number, "--format", "json"]));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let member = if is_record(line) { "record" } else { "notice" };
        assert_eq!(&shown[member], line);
        assert_eq!(shown["chain"]["holds"], true);
        succeeds(&mut audit(&dir, &["show", &number]));
    }
    let head = succeeds(&mut audit(&dir, &["head"]));
    let whole = format!("{}:{}", last["seq"], last["hash"].as_str().unwrap());
    assert!(head.starts_with(&whole), "{head}");
    done(&mut audit(&dir, &["verify", "--head", &whole]));

    let replayed = done(&mut audit(&dir, &["replay"]));
    assert!(replayed.starts_with("3 records: 3 the same"), "{replayed}");
    assert!(replayed.contains("  2 notices of delays and changes say what their"), "{replayed}");
    let report: Value =
        serde_json::from_str(&done(&mut audit(&dir, &["report", "--verify", "--format", "json"])))
            .unwrap();
    assert_eq!(report["records"]["all"], 2);
    assert_eq!(report["missing"]["unreadable_lines"], 0);
    assert_eq!(report["missing"]["absent_lines"], 0);
    assert_eq!(report["paced"]["lines"]["distinct"], 1);
    let span = |state: &str| {
        let spans = report["service"]["spans"].as_array().unwrap().iter();
        spans
            .filter(|span| span["state"] == state)
            .map(|span| span["exceptions"].clone())
            .next_back()
    };
    assert_eq!(span("enforce"), Some(json!(2)), "a rule of an agent, and one of an origin");
    let exemption = &report["register"]["rows"][0];
    assert_eq!([&exemption["by"], &exemption["status"]], ["legal", "unused"]);
    let brought = exemption["brought_by_seq"].as_u64().unwrap();
    let changes = &lines[usize::try_from(brought).unwrap() - 1]["changes"];
    assert!(changes.as_array().unwrap().iter().any(|change| change["key"] == "exemptions"));
    let of_one: Value = serde_json::from_str(&done(&mut audit(
        &dir,
        &["report", "--origin", of_site, "--format", "json"],
    )))
    .unwrap();
    assert_eq!(of_one["paced"]["lines"]["distinct"], 1, "{of_one}");
    done(&mut audit(&dir, &["report"]));

    for (name, format) in [("all.warc", "warc"), ("all.tar", "bundle"), ("all.html", "html")] {
        let path = place.path().join(name);
        let path = path.to_str().unwrap();
        let command = if format == "html" { "report" } else { "export" };
        done(&mut audit(&dir, &[command, "--format", format, "--output", path]));
        if format == "bundle" {
            let unpacked = place.path().join("unpacked");
            std::fs::create_dir(&unpacked).unwrap();
            let mut tar = std::process::Command::new("tar");
            assert!(tar.args(["-xf", path, "-C"]).arg(&unpacked).status().unwrap().success());
            let bundled = succeeds(&mut audit(&unpacked, &["verify", "--part"]));
            assert!(bundled.starts_with("The log holds"), "{bundled}");
        }
    }
}

#[test]
fn a_line_that_is_left_out_as_damaged_ends_each_command_with_1() {
    let place = served();
    let dir = place.audit_dir();
    let file = dir.join("denials.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    for damage in [
        "no JSON\n",
        "{\"agent\":null,\"reason\":\"x\"}\n",
        "{\"agent\":null,\"event\":\"denied\",\"seq\":900}\n",
    ] {
        std::fs::write(&file, format!("{text}{damage}")).unwrap();
        for arguments in [
            &["query"][..],
            &["query", "--event", "paced"],
            &["query", "--format", "csv"],
            &["query", "--format", "table"],
            &["query", "--tail", "3"],
            &["export"],
            &["export", "--format", "warc"],
            &["replay"],
            &["report"],
            &["show", "2"],
            &["head"],
            &["verify"],
        ] {
            // Who has found what he asked for by its number looks no further.
            let expected = if arguments == ["show", "2"] { 0 } else { 1 };
            let (code, stdout, stderr) = ended(&mut audit(&dir, arguments));
            assert_eq!(code, Some(expected), "{arguments:?} {damage}: {stdout}{stderr}");
        }
    }
}

#[test]
fn lines_of_one_log_in_two_directories_are_counted_once() {
    let place = served();
    let dir = place.audit_dir();
    let records = lines(&dir).iter().filter(|line| is_record(line)).count();
    let denied = lines(&dir).into_iter().find(is_record).unwrap();
    let origin = denied["origin"].as_str().unwrap().to_owned();
    // A copy of all, one from before the last lines, and one without the first.
    let [copy, earlier, later] = ["copy", "earlier", "later"].map(|name| {
        let to = place.path().join(name);
        assert!(Command::new("cp").arg("-r").args([&dir, &to]).status().unwrap().success());
        to
    });
    let text = std::fs::read_to_string(earlier.join("denials.jsonl")).unwrap();
    let kept: String = text.split_inclusive('\n').take(text.lines().count() - 3).collect();
    std::fs::write(earlier.join("denials.jsonl"), kept).unwrap();
    let kept: String = text.split_inclusive('\n').skip(2).collect();
    std::fs::write(later.join("denials.jsonl"), kept).unwrap();
    let pairs = [[&dir, &copy], [&copy, &earlier], [&earlier, &dir], [&earlier, &later]];
    for others in pairs.into_iter().chain([[&later, &earlier]]) {
        for command in ["query", "export"] {
            let mut both = audit(others[0], &[command]);
            let (code, stdout, stderr) = ended(both.arg("--dir").arg(others[1]));
            assert_eq!(code, Some(0), "{stderr}");
            assert_eq!(stdout.lines().count(), records, "{stdout}");
            assert!(
                stderr.contains("have lines of the same log: they are counted once"),
                "{stderr}"
            );
        }
        let mut both = audit(others[0], &["report", "--format", "json"]);
        let (_, stdout, stderr) = ended(both.arg("--dir").arg(others[1]));
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(report["records"]["all"], records, "{stderr}");
        assert!(stderr.contains("they are counted once"), "{stderr}");
        let mut both = audit(others[0], &["history", &origin, "--format", "json"]);
        let (_, stdout, _) = ended(both.arg("--dir").arg(others[1]));
        let history: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(history["versions"][0]["asked"]["denied"], records, "{history}");
        let mut both = audit(others[0], &["verify"]);
        let (_, _, stderr) = ended(both.arg("--dir").arg(others[1]));
        assert!(stderr.contains("lines of the same log: each is checked for itself"), "{stderr}");
    }
}
