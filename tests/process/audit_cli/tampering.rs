//! A log that was tampered with, as the commands that read it say so. docs/reference/tampering.md names these tests.

use std::fs;
use std::path::{Path, PathBuf};

use courtesy::audit::{
    HEAD_NAME, Notice, Record, RecordedCounts, StartMode, Started, StartedEvent, Stopped,
    StoppedEvent, Totals, TotalsEvent,
};
use courtesy::types::sanitize::sha256_hex;
use courtesy::types::timestamp::Timestamp;
use serde_json::Value;

use crate::audit_cli::support::{Log, NOON, audit, compress, courtesy, ended, record, succeeds};

/// Another text in place of `from` in a line of a file, counted from 1; the hash stays.
fn forge(file: &Path, line: usize, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(lines[line - 1].contains(from), "{}", lines[line - 1]);
    lines[line - 1] = lines[line - 1].replace(from, to);
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// The same, and the hash of that line is made anew, as it is easy to do.
fn forge_with_its_hash(file: &Path, line: usize, from: &str, to: &str) {
    forge(file, line, from, to);
    let text = fs::read_to_string(file).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let (canonical, _) = lines[line - 1].rsplit_once(",\"hash\":\"").unwrap();
    let hash = sha256_hex(format!("{canonical}}}").as_bytes());
    lines[line - 1] = format!("{canonical},\"hash\":\"{hash}\"}}");
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

/// Five records, of which the third now says another path.
fn forged() -> Log {
    let mut log = Log::new();
    log.write((1..=5).map(record));
    forge(&log.active(), 3, "/private/3", "/public/33");
    log
}

const WARNING: &str = "warning: 1 line was changed after being written";

#[test]
fn show_says_first_that_a_record_was_changed() {
    let log = forged();
    let (code, shown, said) = ended(&mut audit(log.dir.path(), &["show", "3"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(shown.starts_with("WARNING: do not rely on this record"), "{shown}");
    assert!(shown.contains("its text is not what its hash was made of"), "{shown}");
    assert!(said.starts_with(WARNING) && said.contains("the first is number 3;"), "{said}");
    let (code, shown, _) = ended(&mut audit(log.dir.path(), &["show", "3", "--format", "json"]));
    let chain = serde_json::from_str::<Value>(&shown).unwrap()["chain"].clone();
    assert_eq!(
        (code, &chain["holds"], &chain["hash_holds"]),
        (Some(1), &false.into(), &false.into())
    );
    assert_eq!((&chain["before"], &chain["after"]), (&"fits".into(), &"fits".into()));
    // Its neighbours are what they were.
    for id in ["2", "4"] {
        let shown = succeeds(&mut audit(log.dir.path(), &["show", id]));
        assert!(
            shown.starts_with("denied")
                || shown.starts_with("forwarded (would be denied: observe)"),
            "{shown}"
        );
        assert!(shown.contains("the hash holds, and the lines before and after fit it"), "{shown}");
    }
}

#[test]
fn show_reports_a_recomputed_hash_that_does_not_fit_the_next_line() {
    let mut log = Log::new();
    log.write((1..=5).map(record));
    forge_with_its_hash(&log.active(), 3, "/private/3", "/public/33");
    for (id, words, before, after) in [
        ("3", "the line after it was chained to another line", "fits", "differs"),
        ("4", "the line before it is not the one it was chained to", "differs", "fits"),
    ] {
        let (code, shown, said) = ended(&mut audit(log.dir.path(), &["show", id]));
        assert_eq!((code, said.as_str()), (Some(1), ""), "{shown}");
        assert!(shown.starts_with("WARNING: ") && shown.contains(words), "{shown}");
        let (_, shown, _) = ended(&mut audit(log.dir.path(), &["show", id, "--format", "json"]));
        let chain = serde_json::from_str::<Value>(&shown).unwrap()["chain"].clone();
        assert_eq!((&chain["hash_holds"], &chain["holds"]), (&true.into(), &false.into()));
        assert_eq!((&chain["before"], &chain["after"]), (&before.into(), &after.into()));
    }
    assert!(succeeds(&mut audit(log.dir.path(), &["show", "5"])).contains("it is the last line"));
}

#[test]
fn show_looks_at_the_neighbours_in_other_files_too() {
    let mut log = Log::new();
    for from in [1, 3, 5] {
        log.write((from..from + 2).map(record));
        log.rotate();
    }
    assert!(
        succeeds(&mut audit(log.dir.path(), &["show", "3"])).contains("before and after fit it")
    );
    fs::remove_file(log.dir.path().join("denials-000000000003.jsonl")).unwrap();
    let (code, shown, _) = ended(&mut audit(log.dir.path(), &["show", "5"]));
    assert_eq!(code, Some(1));
    assert!(shown.contains("the line before it is not the one it was chained to"), "{shown}");
}

#[test]
fn query_marks_counts_and_leaves_out_of_csv_what_was_changed() {
    let log = forged();
    let in_log = fs::read_to_string(log.active()).unwrap();
    let query = |format: &str| ended(&mut audit(log.dir.path(), &["query", "--format", format]));
    let (code, table, said) = query("table");
    assert_eq!(code, Some(1));
    assert!(said.starts_with(WARNING) && said.contains("marked with ! in the table"), "{said}");
    let marked: Vec<_> = table.lines().filter(|line| line.contains('!')).collect();
    assert_eq!(marked.len(), 1, "{table}");
    assert!(
        marked[0].trim_start().starts_with("!3 ") && marked[0].contains("/public/33"),
        "{table}"
    );
    let (code, lines, said) = query("json");
    assert_eq!((code, lines), (Some(1), in_log));
    assert!(said.contains("printed as in the log"), "{said}");
    let (code, sheet, said) = query("csv");
    assert_eq!((code, sheet.lines().count()), (Some(1), 5));
    assert!(!sheet.contains("/public/33") && said.contains("left out"), "{said}");
    let tail = ["query", "--tail", "4", "--format", "table"];
    assert!(ended(&mut audit(log.dir.path(), &tail)).1.contains("!3 "));
    // What is not asked for is not looked at.
    succeeds(&mut audit(log.dir.path(), &["query", "--url", "*/private/4"]));
}

#[test]
fn a_record_in_another_spelling_does_not_hide_from_query() {
    let mut log = Log::new();
    log.write((1..=3).map(record));
    forge(&log.active(), 2, "{\"agent\":", "{ \"agent\":");
    let (_, lines, said) = ended(&mut audit(log.dir.path(), &["query"]));
    assert_eq!(lines.lines().count(), 2);
    assert!(said.contains("1 line is damaged and left out"), "{said}");
}

#[test]
fn export_leaves_out_what_was_changed() {
    let log = forged();
    for format in ["jsonl", "csv", "warc"] {
        let (code, written, said) =
            ended(&mut audit(log.dir.path(), &["export", "--format", format]));
        assert_eq!(code, Some(1), "{said}");
        assert!(!written.contains("/public/33"), "{written}");
        assert!(said.starts_with(WARNING) && said.contains("left out"), "{said}");
    }
    let (_, lines, _) = ended(&mut audit(log.dir.path(), &["export"]));
    assert_eq!(lines.lines().count(), 4);
}

#[test]
fn report_does_not_count_what_was_changed_and_says_so_in_its_heading() {
    let log = forged();
    let report = |format: &str| ended(&mut audit(log.dir.path(), &["report", "--format", format]));
    let (code, text, _) = report("text");
    assert_eq!(code, Some(1));
    let heading: String = text.lines().take(4).collect();
    assert!(
        heading.contains("WARNING: 1 line was changed after being written: it is not counted"),
        "{text}"
    );
    let (code, page, _) = report("html");
    let heading = page.split("<main>").next().unwrap();
    assert!(heading.contains("Warning: 1 line was changed"), "{heading}");
    assert_eq!(code, Some(1));
    let (code, json, _) = report("json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["missing"]["changed_lines"]), (Some(1), &1.into()));
    assert_eq!((&json["records"]["all"], &json["missing"]["absent_lines"]), (&4.into(), &0.into()));
}

#[test]
fn replay_does_not_decide_again_what_was_changed() {
    let log = forged();
    let (code, text, said) = ended(&mut audit(log.dir.path(), &["replay"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(!text.contains("/public/33") && said.contains("not decided again"), "{text}{said}");
}

fn verified(log: &Log, more: &[&str]) -> (Option<i32>, String, Value) {
    let text = ended(&mut audit(log.dir.path(), &[&["verify"], more].concat()));
    let json = ended(&mut audit(log.dir.path(), &[&["verify", "--format", "json"], more].concat()));
    assert_eq!(text.0, json.0, "{text:?}");
    (text.0, text.1, serde_json::from_str(&json.1).unwrap())
}

/// Of a log that does not hold: the line behind the verdict.
#[track_caller]
fn first_fault(text: &str) -> &str {
    let mut lines = text.lines();
    let verdict = lines.next().unwrap();
    assert!(verdict.starts_with("The log does not hold: "), "{text}");
    lines.next().unwrap()
}

fn hash_of(line: &str) -> String {
    line.rsplit_once(",\"hash\":\"").unwrap().1[..64].to_owned()
}

#[test]
fn a_log_without_a_published_head_holds_in_itself_alone() {
    let mut log = Log::new();
    let lines = log.write((1..=5).map(record));
    let (code, text, json) = verified(&log, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with(
            "The log holds in itself; no published head was given.\n5 records in 1 file"
        ),
        "{text}"
    );
    assert!(
        text.contains("whether lines were cut off at the end")
            && text.contains("There is no head.json"),
        "{text}"
    );
    assert_eq!(
        (&json["published"]["up_to"], &json["noted_head"]["file"]),
        (&Value::Null, &"missing".into())
    );
    // The one beside the log is not published, and its place is said.
    for (seq, place) in
        [(5, "the last one"), (4, "the last but one"), (2, "3 lines before the last one")]
    {
        let head = format!(
            "{{\"hash\":\"{}\",\"seq\":{seq},\"time\":\"2026-11-20T12:00:00.000000Z\"}}\n",
            hash_of(&lines[seq - 1])
        );
        fs::write(log.dir.path().join(HEAD_NAME), head).unwrap();
        let (code, text, json) = verified(&log, &[]);
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.starts_with("The log holds in itself; no published head was given."),
            "{text}"
        );
        assert!(
            text.contains(&format!("notes line {seq}, {place}. It is not published")),
            "{text}"
        );
        assert_eq!(
            (&json["noted_head"]["seq"], &json["noted_head"]["state"]),
            (&seq.into(), &"found".into())
        );
        assert_eq!(json["published"]["heads"], Value::Array(Vec::new()));
    }
    fs::write(log.dir.path().join(HEAD_NAME), "{}").unwrap();
    let (code, text, json) = verified(&log, &[]);
    assert_eq!((code, &json["noted_head"]["file"]), (Some(0), &"unreadable".into()));
    assert!(text.contains("head.json beside the log cannot be read: "), "{text}");
}

#[test]
fn a_published_head_tells_up_to_where_the_log_holds_and_what_comes_after() {
    let mut log = Log::new();
    let lines = log.write((1..=5).map(record));
    let heads: Vec<_> = (1..=5).map(|seq| format!("{seq}:{}", hash_of(&lines[seq - 1]))).collect();
    for (head, up_to, after, words) in [
        (&heads[2], 3, 2, "found.\nThe 2 lines after it are under no published head yet."),
        (&heads[3], 4, 1, "found.\nThe line after it is under no published head yet."),
        (&heads[4], 5, 0, "found.\nIt is that of the last line."),
    ] {
        let (code, text, json) = verified(&log, &["--head", head]);
        assert_eq!(code, Some(0), "{text}");
        let verdict =
            format!("The log holds, up to line {up_to} under a published head.\n5 records");
        assert!(text.starts_with(&verdict), "{text}");
        assert!(text.contains(&format!("Published head {head}: {words}")), "{text}");
        assert_eq!(
            (&json["published"]["up_to"], &json["published"]["lines_after"]),
            (&up_to.into(), &after.into())
        );
    }
    let (code, text, json) = verified(&log, &["--head", &heads[0], "--head", &heads[3]]);
    assert_eq!((code, &json["published"]["up_to"]), (Some(0), &4.into()));
    assert!(text.contains("Published heads: 2 found."), "{text}");
}

#[test]
fn a_cut_end_or_another_history_contradicts_published_heads() {
    let mut log = Log::new();
    let lines = log.write((1..=5).map(record));
    let heads: Vec<_> = (1..=5).map(|seq| format!("{seq}:{}", hash_of(&lines[seq - 1]))).collect();
    fs::write(log.active(), lines[..3].join("\n") + "\n").unwrap();
    let (code, text, json) = verified(&log, &["--head", &heads[1], "--head", &heads[4]]);
    assert_eq!(code, Some(1));
    assert!(
        first_fault(&text)
            .starts_with("cut off: the log ends with line 3, and line 5 was published"),
        "{text}"
    );
    assert!(text.contains("Published heads: 1 found, 1 of a line after the last."), "{text}");
    assert_eq!(json["published"]["heads"][1]["state"], "cut_off");
    assert_eq!(
        (&json["published"]["up_to"], &json["published"]["heads"][0]["state"]),
        (&2.into(), &"found".into())
    );
    // Written anew from the third line on: it holds in itself.
    let mut anew = Log::new();
    anew.write([record(1), record(2), record(9), record(10), record(11)]);
    assert_eq!(verified(&anew, &[]).0, Some(0));
    let (code, text, json) = verified(&anew, &["--head", &heads[1], "--head", &heads[4]]);
    assert_eq!((code, &json["published"]["heads"][1]["state"]), (Some(1), &"other".into()));
    assert!(
        first_fault(&text)
            .starts_with("another history: line 5 does not have the hash that was published"),
        "{text}"
    );
}

/// The log holds; what is noted, one for each line of text.
#[track_caller]
fn noted(log: &Log) -> Vec<String> {
    let (code, text, json) = verified(log, &[]);
    assert_eq!((code, &json["holds"]), (Some(0), &true.into()), "{text}");
    let said: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("Note: ")).map(str::to_owned).collect();
    assert_eq!(json["note_count"], said.len(), "{text}");
    for (note, said) in json["notes"].as_array().unwrap().iter().zip(&said) {
        assert!(said.ends_with(note["note"].as_str().unwrap()), "{note}: {said}");
        assert!(said.starts_with(note["file"].as_str().unwrap()), "{note}: {said}");
    }
    said
}

#[test]
fn a_segment_that_another_gzip_packed_is_a_note_and_no_fault() {
    let mut log = Log::new();
    log.write((1..=3).map(record));
    let closed = log.rotate();
    log.write([record(4)]);
    // As an operator would: with a name and a time in its head.
    assert!(std::process::Command::new("gzip").arg(&closed).status().unwrap().success());
    let said = noted(&log);
    assert!(
        said.len() == 1 && said[0].contains("denials-000000000001.jsonl.gz: compressed by another"),
        "{said:?}"
    );
    // Other lines in it are a fault.
    let packed = closed.with_added_extension("gz");
    assert!(std::process::Command::new("gunzip").arg(&packed).status().unwrap().success());
    forge(&closed, 2, "/private/2", "/public/22");
    assert!(std::process::Command::new("gzip").arg(&closed).status().unwrap().success());
    assert_eq!(verified(&log, &[]).0, Some(1));
}

fn totals(denied: u64, would_deny: u64) -> Notice {
    Notice::Totals(Totals {
        allowed: 9,
        by_host: 0,
        by_parent: 0,
        by_path: 9,
        denied,
        event: TotalsEvent::It,
        node: None,
        paced: 0,
        prev: String::new(),
        recorded: Some(RecordedCounts { denied, exempted: 0, tunnelled: 0, would_deny }),
        resting: 0,
        seq: 0,
        since: Timestamp::from_millis(NOON),
        time: Timestamp::from_millis(NOON),
        waited_ms: 0,
    })
}

fn started() -> Notice {
    Notice::Started(Started {
        changes: None,
        digest: "ab".repeat(32),
        event: StartedEvent::It,
        exemptions: Vec::new(),
        exemptions_omitted: 0,
        how: StartMode::Serve,
        key: None,
        log: None,
        node: None,
        prev: String::new(),
        profile_version: 1,
        program: None,
        seq: 0,
        settings: None,
        time: Timestamp::from_millis(NOON),
        version: "0.1.0".into(),
    })
}

fn stopped() -> Notice {
    let (event, node, prev, time) =
        (StoppedEvent::It, None, String::new(), Timestamp::from_millis(NOON));
    Notice::Stopped(Stopped { event, node, prev, seq: 0, time, why: "SIGTERM".into() })
}

/// Records of one time, so that nothing else is unusual: 1 to 3 are denied, each fourth would be.
fn at_noon(n: u64) -> Record {
    let id = ulid::Ulid::from_parts(NOON, n.into()).to_string();
    Record { id, time: Timestamp::from_millis(NOON), ..record(n) }
}

#[test]
fn totals_that_contradict_the_records_show_a_remade_chain() {
    // All of it was written anew: the record 2 is gone, and each hash is right.
    let mut log = Log::new();
    log.note(started());
    log.write([1, 3, 4].map(at_noon));
    log.rotate();
    log.note(totals(3, 1));
    log.write([5, 6].map(at_noon));
    log.note(totals(2, 0));
    let (code, text, json) = verified(&log, &[]);
    assert_eq!((code, &json["fault_count"]), (Some(1), &1.into()), "{text}");
    let said = "denials.jsonl:1: number 5: its totals are not those of the records before it: 3 denied where there are 2\n";
    assert!(first_fault(&text).ends_with(said.trim_end()), "{text}");
    assert_eq!(json["faults"][0]["seq"], 5);
}

#[test]
fn totals_are_held_only_against_records_that_are_all_known() {
    // Killed after two records, and started again twice.
    let mut log = Log::new();
    log.write([7, 8].map(at_noon));
    log.note(totals(9, 9));
    log.write([1, 2].map(at_noon));
    log.note(started());
    log.write([3, 4].map(at_noon));
    log.rotate();
    log.write([5].map(at_noon));
    log.note(totals(2, 1));
    log.note(stopped());
    // Of a process whose start could not be noted.
    log.write([6].map(at_noon));
    log.note(totals(5, 0));
    log.note(started());
    log.note(totals(0, 0));
    log.note(stopped());
    let notes = noted(&log);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("a record behind the end of the proxy that wrote before it"),
        "{notes:?}"
    );
    // A line that is missing or damaged is one fault, and not another one of the totals after it.
    let whole = fs::read_to_string(log.active()).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    fs::write(log.active(), lines[1..].join("\n") + "\n").unwrap();
    assert_eq!(verified(&log, &[]).2["fault_count"], 1);
    fs::write(log.active(), whole).unwrap();
    forge(&log.active(), 1, "/private/5", "/public/55");
    assert_eq!(verified(&log, &[]).2["fault_count"], 1);
}

#[test]
fn a_time_that_runs_backwards_is_noted_with_both_lines() {
    let mut log = Log::new();
    // Records are a minute apart: a step of one is what waiting for the disk explains.
    log.write([2, 1, 10].map(record));
    log.rotate();
    log.write([3, 9, 4].map(record));
    let said = noted(&log);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("denials.jsonl:1: number 4: its time 2026-11-20T12:03:00"),
        "{said:?}"
    );
    assert!(said[0].contains("is earlier than 2026-11-20T12:10:00"), "{said:?}");
    assert!(said[0].contains("denials-000000000001.jsonl:3: a clock was set back"), "{said:?}");
    assert!(said[0].ends_with("; 2 times in the whole log"), "{said:?}");
}

/// Three closed segments, lines 1 to 2, 3 to 4, 5 to 6, and the active one.
fn in_segments() -> (Log, Vec<PathBuf>) {
    let mut log = Log::new();
    let mut closed = Vec::new();
    for from in [1, 3, 5] {
        log.write((from..from + 2).map(at_noon));
        closed.push(log.rotate());
    }
    log.write([at_noon(7)]);
    (log, closed)
}

#[test]
fn a_segment_twice_under_another_name_is_noted_or_a_fault() {
    let (log, closed) = in_segments();
    // As an operator might keep a copy: the same lines.
    let copy = log.dir.path().join("denials.jsonl.copy");
    fs::copy(&closed[1], &copy).unwrap();
    let said = noted(&log);
    assert_eq!(said.len(), 1, "{said:?}");
    let words =
        format!("{}: not read: it has the same lines as {}", copy.display(), closed[1].display());
    assert!(said[0].starts_with(&words), "{said:?}");
    // With another record behind the first line, or without the last line.
    let text = fs::read_to_string(&copy).unwrap();
    let shorter = text.lines().next().unwrap().to_owned() + "\n";
    for other in [text.replace("/private/4", "/public/44"), shorter] {
        fs::write(&copy, other).unwrap();
        let (code, text, json) = verified(&log, &[]);
        assert_eq!((code, &json["fault_count"]), (Some(1), &1.into()), "{text}");
        let words = format!(
            "{}: not read: it begins with the same line as {}",
            copy.display(),
            closed[1].display()
        );
        assert!(first_fault(&text).starts_with(&words), "{text}");
    }
}

#[test]
fn a_plain_segment_beside_its_compressed_one_is_held_against_it() {
    let (log, closed) = in_segments();
    let whole = fs::read_to_string(&closed[0]).unwrap();
    compress(&closed[0]);
    fs::write(&closed[0], &whole).unwrap();
    let said = noted(&log);
    let packed = closed[0].with_added_extension("gz");
    assert!(
        said.len() == 1 && said[0].starts_with(&format!("{}: not read", packed.display())),
        "{said:?}"
    );
    // The compressed one has another record.
    fs::write(&closed[0], whole.replace("/private/2", "/public/22")).unwrap();
    compress(&closed[0]);
    fs::write(&closed[0], &whole).unwrap();
    let (code, text, _) = verified(&log, &[]);
    assert_eq!(code, Some(1), "{text}");
    let said = format!("{}: not read: it begins with", packed.display());
    assert!(first_fault(&text).starts_with(&said), "{text}");
}

#[test]
fn names_of_segments_that_were_swapped_are_faults() {
    let (log, closed) = in_segments();
    let aside = log.dir.path().join("aside");
    fs::rename(&closed[0], &aside).unwrap();
    fs::rename(&closed[2], &closed[0]).unwrap();
    fs::rename(&aside, &closed[2]).unwrap();
    let (code, text, json) = verified(&log, &[]);
    assert_eq!((code, &json["fault_count"]), (Some(1), &2.into()), "{text}");
    for (file, named, first) in [(&closed[2], 5, 1), (&closed[0], 1, 5)] {
        let words =
            format!("its name says that it begins with line {named}, and it begins with {first}");
        let is_said =
            |line: &str| line.starts_with(&file.display().to_string()) && line.ends_with(&words);
        assert!(text.lines().any(is_said), "{file:?}: {text}");
    }
}

#[test]
fn a_list_of_evidence_that_was_emptied_is_a_fault() {
    let mut log = Log::new();
    let named = |n: u64| {
        let mut record = at_noon(n);
        record.robots.as_mut().unwrap().sha256 = Some(sha256_hex(b""));
        record
    };
    let lines = log.write([1, 2].map(named));
    let closed = log.rotate();
    log.write([at_noon(3)]);
    compress(&closed);
    let evidence = log.dir.path().join("evidence");
    let blob_store = courtesy::audit::evidence::BlobStore::of(log.dir.path());
    let blob = courtesy::audit::evidence::Blob {
        sha256: courtesy::types::sanitize::digest(&sha256_hex(b"")).unwrap(),
        kind: courtesy::audit::evidence::Kind::File,
        content: Vec::new().into(),
    };
    blob_store.put(&blob).unwrap();
    assert!(evidence.exists());
    let list = log.dir.path().join("denials-000000000001.evidence");
    let top = format!("2026-11-20T12:00:00.000000Z 2 {}\n", hash_of(&lines[1]));
    fs::write(&list, format!("{top}{}.txt\n", sha256_hex(b""))).unwrap();
    assert_eq!(noted(&log), Vec::<String>::new());
    for (text, words) in [
        (top.as_str(), "its list of evidence was changed: 1 of what its lines name missing in"),
        ("", "it is no list of evidence"),
    ] {
        fs::write(&list, text).unwrap();
        let (code, text, json) = verified(&log, &[]);
        assert_eq!((code, &json["fault_count"]), (Some(1), &1.into()), "{text}");
        let first = first_fault(&text);
        assert!(
            first.starts_with(&format!("{}.gz: ", closed.display())) && first.contains(words),
            "{text}"
        );
        assert!(first.contains(&list.display().to_string()), "{text}");
        // Only the lines are asked for.
        assert_eq!(verified(&log, &["--no-evidence"]).0, Some(0));
    }
    // A copy of the log without it holds.
    fs::remove_file(&list).unwrap();
    assert_eq!(noted(&log), Vec::<String>::new());
}

/// The logs of docs/reference/audit-record.md, which were made from that page alone.
#[test]
fn logs_made_from_the_page_have_its_verdicts() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/audit-vectors");
    for (name, code, fault) in [
        ("holds", 0, None),
        ("changed", 1, Some((3, "changed: its text is not what its hash was made of"))),
        ("removed", 1, Some((4, "removed: line 3 is missing before it"))),
    ] {
        let file = vectors.join(format!("{name}.jsonl"));
        let verify = |format: &[&str]| {
            let mut command = courtesy(&["verify"]);
            command.args(format).arg(&file);
            ended(&mut command)
        };
        let (found, text, said) = verify(&[]);
        assert_eq!((found, said.as_str()), (Some(code), ""), "{name}: {text}");
        match fault {
            None => assert!(text.starts_with("The log holds in itself; "), "{text}"),
            Some((seq, why)) => {
                let first = first_fault(&text);
                assert!(
                    first.contains(&format!("number {seq} (")) && first.ends_with(why),
                    "{text}"
                );
            }
        }
        // One fact a line: none has a second sentence behind its first.
        let facts = text.lines().skip(1).filter(|line| !line.starts_with("Without a published"));
        facts.for_each(|line| assert!(!line.trim_end_matches('.').contains(". "), "{line}"));
        let (_, json, _) = verify(&["--format", "json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["fault_count"], u64::from(fault.is_some()), "{json:#}");
    }
}
