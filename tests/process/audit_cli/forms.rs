//! How records are printed: the lines themselves, tables, CSV; to a file and to nobody.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use courtesy::audit::{Record, Rule};

use crate::audit_cli::support::{
    Log, audit, compress, courtesy, ended, fails, id, record, succeeds,
};

#[test]
fn json_lines_are_the_very_lines() {
    let mut log = Log::new();
    let lines = log.write((1..=20).map(record));
    let dir = log.dir.path();
    assert_eq!(succeeds(&mut audit(dir, &["query"])), lines.join("\n") + "\n");
    assert_eq!(succeeds(&mut audit(dir, &["query", "--format", "json"])), lines.join("\n") + "\n");
    assert_eq!(succeeds(&mut audit(dir, &["export"])), lines.join("\n") + "\n");
}

#[test]
fn csv_reads_back_and_computes_nothing() {
    let mut log = Log::new();
    let user_agent = "=cmd|' /C calc'!A0, \"quoted\"\nsecond line";
    let odd = Record { user_agent: Some(user_agent.into()), agent: None, ..record(1) };
    let lines = log.write([odd, Record { rule: None, robots: None, ..record(2) }]);
    let sheet = succeeds(&mut audit(log.dir.path(), &["query", "--format", "csv"]));
    let mut reader = csv::Reader::from_reader(sheet.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let cell = |row: usize, name: &str| {
        rows[row].get(header.iter().position(|column| column == name).unwrap()).unwrap().to_owned()
    };
    assert_eq!(rows.len(), 2);
    assert_eq!(cell(0, "user_agent"), format!("'{user_agent}"));
    assert_eq!((cell(0, "agent"), cell(0, "seq")), (String::new(), "1".into()));
    assert_eq!((cell(0, "rule_line"), cell(1, "rule_line")), ("12".into(), String::new()));
    assert_eq!(
        (cell(1, "time"), cell(1, "path_seen")),
        ("2026-11-20T12:02:00.000000Z".into(), "true".into())
    );
    assert!(lines[1].ends_with(&format!("\"hash\":\"{}\"}}", cell(1, "hash"))));
}

#[test]
fn events_are_a_line_for_each_record_that_holds() {
    let mut log = Log::new();
    let lines = log.write((1..=3).map(record));
    // Changed after it was written: its hash would prove nothing.
    let changed = lines[1].replace("/private/2", "/private/x");
    std::fs::write(log.active(), [&*lines[0], &changed, &lines[2], ""].join("\n")).unwrap();
    let dir = log.dir.path();
    for (format, begins) in
        [("ecs", "{\"@timestamp\":"), ("ocsf", "{\"action\":"), ("cef", "CEF:0|courtesy|")]
    {
        for command in ["export", "query"] {
            let (code, events, said) = ended(&mut audit(dir, &[command, "--format", format]));
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains("1 line was changed") && said.contains("left out"), "{said}");
            let events: Vec<_> = events.lines().collect();
            assert_eq!(events.len(), 2, "{events:?}");
            for (event, n) in events.iter().zip([1, 3]) {
                assert!(event.starts_with(begins) && event.contains(&id(n)), "{event}");
            }
        }
        let notices = ["export", "--format", format, "--event", "started"];
        assert!(fails(&mut audit(dir, &notices), 2).contains("started is a notice"));
    }
}

#[test]
fn a_table_says_when_to_whom_why_and_what() {
    let mut log = Log::new();
    log.write([record(1), record(4)]);
    assert_eq!(
        succeeds(&mut audit(log.dir.path(), &["query", "--format", "table", "--wide"])),
        "     SEQ  TIME (UTC)           AGENT             WHY                           URL\n       \
         1  2026-11-20 12:01:00  Wget              12: disallow: /private/       \
         https://www1.example.com/private/1\n       \
         2  2026-11-20 12:04:00  ExampleBot        would_deny, 12: disallow: /private/  \
         https://www1.example.com/private/4\n"
    );
}

#[test]
fn a_table_through_a_pipe_is_as_wide_as_a_screen() {
    let mut log = Log::new();
    let long = Record {
        url: format!("https://www1.example.com/private/{}", "日本/long/".repeat(40)),
        ..record(1)
    };
    log.write([long.clone(), record(2)]);
    let table = |columns: &str, arguments: &[&str]| {
        let arguments = [&["query", "--format", "table"], arguments].concat();
        succeeds(audit(log.dir.path(), &arguments).env("COLUMNS", columns))
    };
    let width = |line: &str| {
        line.chars().map(|it| if it.is_ascii() || it == '…' { 1 } else { 2 }).sum::<usize>()
    };
    for (columns, expected) in
        [("", 100), ("100", 100), ("72", 72), ("200", 200), ("3", 60), ("wide", 100)]
    {
        let table = table(columns, &[]);
        let widest = table.lines().map(width).max().unwrap();
        assert!(
            widest <= expected && widest + 1 >= expected,
            "COLUMNS={columns}: {widest}\n{table}"
        );
        assert!(table.lines().nth(1).unwrap().ends_with('…'), "what is cut says so: {table}");
    }
    assert!(table("72", &["--wide"]).contains(&long.url));
}

#[test]
fn nothing_in_a_table_moves_a_cursor() {
    let mut log = Log::new();
    // The writer would have escaped them; whoever changed the log has not.
    let rule = Rule {
        directive: "disallow".into(),
        line: 1,
        pattern: "/\u{1b}[2J\u{202e}\u{9b}".into(),
        read_as: Vec::new(),
    };
    log.write([Record { rule: Some(rule), agent: Some("a\r\n\u{7f}".into()), ..record(1) }]);
    for arguments in [&["query", "--format", "table", "--wide"][..], &["show", "1"]] {
        let table = succeeds(&mut audit(log.dir.path(), arguments));
        assert!(!table.contains(['\u{1b}', '\u{202e}', '\u{9b}', '\r', '\u{7f}']), "{table:?}");
        assert!(table.contains("/\\x1B[2J\\xE2\\x80\\xAE\\xC2\\x9B"), "{table}");
    }
}

#[test]
fn an_export_is_a_file_for_its_owner_alone() {
    let mut log = Log::new();
    log.write((1..=3).map(record));
    let file = log.dir.path().join("export.csv");
    let path = file.to_str().unwrap();
    let dir = log.dir.path();
    let wget = ["export", "--format", "csv", "--agent", "wget", "--output", path];
    assert_eq!(succeeds(&mut audit(dir, &wget)), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let said = fails(&mut audit(dir, &["export", "--output", "/dev/full"]), 74);
    assert!(said.contains("cannot write /dev/full"), "{said}");
    assert!(
        fails(&mut audit(dir, &["export", "--output", "/nowhere/x"]), 74).contains("/nowhere/x")
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut log = Log::new();
    log.write((1..=2000).map(record));
    for format in ["json", "csv", "table"] {
        let mut query = audit(log.dir.path(), &["query", "--format", format]);
        let mut child = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{format}"
        );
    }
}

#[test]
fn the_head_is_that_of_the_last_line() {
    let mut log = Log::new();
    std::fs::write(log.active(), "").unwrap();
    assert!(fails(&mut audit(log.dir.path(), &["head"]), 69).contains("no line yet"));
    for _ in 0..3 {
        log.write((1..=5).map(record));
        log.rotate();
    }
    let expected = format!("15:{}  2026-11-20T12:05:00.000000Z\n", log.head.hash);
    assert_eq!(succeeds(&mut audit(log.dir.path(), &["head"])), expected);
    compress(&log.dir.path().join("denials-000000000011.jsonl"));
    assert_eq!(succeeds(&mut audit(log.dir.path(), &["head"])), expected);
    // Beside a writer that is in the midst of a line.
    log.write([record(6)]);
    std::fs::OpenOptions::new()
        .append(true)
        .open(log.active())
        .unwrap()
        .write_all(b"{\"agent\":")
        .unwrap();
    let json = succeeds(&mut audit(log.dir.path(), &["head", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let time = "2026-11-20T12:06:00.000000Z";
    assert_eq!(json, serde_json::json!({ "seq": 16, "hash": log.head.hash, "time": time }));
}

#[test]
fn a_large_log_needs_no_memory() {
    let mut log = Log::new();
    log.write((0..1000).map(record));
    // Many times what may be held. Who reads does not ask whether the chain holds.
    let lines = std::fs::read(log.active()).unwrap();
    // What the program itself takes is the allocator's affair and the build's.
    let of_program = {
        let mut child = audit(log.dir.path(), &["query"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut String::new()).unwrap();
        let memory = peak_memory(child.id()).expect("it waits for its reader");
        drop(lines);
        let _ = child.wait().unwrap();
        memory
    };
    let mut file = std::fs::OpenOptions::new().append(true).open(log.active()).unwrap();
    (1..64).for_each(|_| file.write_all(&lines).unwrap());
    let size = log.active().metadata().unwrap().len();
    assert!(size > 60 << 20, "{size}");
    let mut query = audit(log.dir.path(), &["query"]);
    let mut child = query.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    // It has read on as far as the pipe and its buffers let it; then comes the rest.
    lines.read_line(&mut first).unwrap();
    let mut read = first.len() as u64;
    let at_first = peak_memory(child.id()).expect("it waits for its reader");
    let mut peak = at_first;
    loop {
        let buffer = lines.fill_buf().unwrap();
        if buffer.is_empty() {
            break;
        }
        let length = buffer.len();
        read += length as u64;
        lines.consume(length);
        peak = peak.max(peak_memory(child.id()).unwrap_or(peak));
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(read, size);
    assert!(peak < of_program + (8 << 20), "{peak} bytes for a log of {size}, {of_program} before");
    assert!(peak - at_first < 8 << 20, "from {at_first} to {peak} bytes after the first line");
}

/// The most memory that a process has ever had, in bytes; none when it has ended.
pub fn peak_memory(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

#[test]
fn help_teaches_by_example() {
    for command in ["query", "show", "head", "export"] {
        let (code, help, _) = ended(&mut courtesy(&[command, "--help"]));
        assert_eq!(code, Some(0));
        assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    }
}
