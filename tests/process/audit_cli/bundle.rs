//! A part of a log in one file: made, unpacked, and checked, also with tools of the system alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use courtesy::audit::evidence::{Blob, BlobStore, Kind};
use courtesy::audit::{Record, Robots};
use courtesy::types::sanitize::{digest, sha256_hex};
use serde_json::{Value, json};

use crate::audit_cli::support::{Log, audit, compress, ended, fails, record, succeeds};

const FILE: &str = "User-agent: *\nDisallow: /private/\n";
/// Of the three files of [`log`] the last two, with the lines 4 to 8: the first line of the second is later
/// than this.
const PART: [&str; 2] = ["--since", "2026-11-20T12:04:30Z"];

/// Eight records in three segments, one of them compressed; each names the same file as evidence.
fn log() -> (Log, Vec<String>) {
    let mut log = Log::new();
    let sha256 = sha256_hex(FILE.as_bytes());
    let blob = Blob {
        sha256: digest(&sha256).unwrap(),
        kind: Kind::File,
        content: FILE.to_owned().into(),
    };
    BlobStore::of(log.dir.path()).put(&blob).unwrap();
    let mut lines = Vec::new();
    for numbers in [1..=3, 4..=5, 6..=8] {
        lines.extend(log.write(numbers.map(|n| naming(n, &sha256))));
        // The last one is still written.
        if lines.len() < 8 {
            compress(&log.rotate());
        }
    }
    (log, lines)
}

fn naming(n: u64, sha256: &str) -> Record {
    let of = record(n);
    let robots = Robots { sha256: Some(sha256.into()), ..Robots::clone(&of.robots.unwrap()) };
    Record { robots: Some(robots.into()), ..of }
}

fn hash_of(line: &str) -> &str {
    &line.rsplit_once(",\"hash\":\"").unwrap().1[..64]
}

/// A bundle of lines 4 to 8.
fn bundle(log: &Log) -> PathBuf {
    let path = log.dir.path().join("part.tar");
    let arguments = [&["export", "--output", path.to_str().unwrap()][..], &PART].concat();
    assert_eq!(succeeds(&mut audit(log.dir.path(), &arguments)), "");
    path
}

/// As `tar` unpacks it.
fn extracted(path: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tar = Command::new("tar").arg("-xf").arg(path).arg("-C").arg(dir.path()).output().unwrap();
    assert!(tar.status.success() && tar.stderr.is_empty(), "{tar:?}");
    dir
}

fn verify(dir: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    ended(&mut audit(dir, &[&["verify", "--part"], more].concat()))
}

#[test]
fn a_part_of_a_log_is_bundled_and_verified_without_the_rest() {
    let (log, lines) = log();
    let path = bundle(&log);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole, fs::read(bundle(&log)).unwrap(), "the same part is the same file");
    let printed = [&["export", "--format", "bundle"][..], &PART].concat();
    assert_eq!(audit(log.dir.path(), &printed).output().unwrap().stdout, whole);
    let dir = extracted(&path);
    drop(log);

    let (code, text, said) = verify(dir.path(), &[]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{text}");
    assert!(
        text.starts_with("The log holds in itself; no published head was given.\n5 records"),
        "{text}"
    );
    assert!(text.contains("1 piece of evidence"), "{text}");
    let before = format!("lines 4 to 8.\nWhat comes before them hangs on 3:{}", hash_of(&lines[2]));
    assert!(text.contains(&before), "{text}");
    let (code, json, _) = verify(dir.path(), &["--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["holds"], &json["lines"]), (Some(0), &true.into(), &5.into()));
    assert_eq!(json["part"], json!({ "first": 4, "prev": hash_of(&lines[2]) }));
    assert_eq!(json["head"]["hash"], hash_of(&lines[7]));
    // Not said to be a part, it lacks its beginning.
    let (code, text, _) = ended(&mut audit(dir.path(), &["verify"]));
    assert!(code == Some(1) && text.contains("lines 1 to 3 are missing"), "{text}");
}

#[test]
fn published_heads_bind_the_lines_that_a_part_has_and_no_others() {
    let (log, lines) = log();
    let path = log.dir.path().join("early.tar");
    let until = ["export", "--until", "2026-11-20T12:03:30Z", "-o", path.to_str().unwrap()];
    succeeds(&mut audit(log.dir.path(), &until));
    let head = |seq: usize| format!("{seq}:{}", hash_of(&lines[seq - 1]));
    let dir = extracted(&path);
    let (code, text, _) = verify(dir.path(), &["--head", &head(2)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("up to line 2 under a published head"), "{text}");
    let (code, text, _) = verify(dir.path(), &["--head", &head(8)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no published head that was given is of a line in it"), "{text}");
    assert!(text.contains("1 of a line after the part, of which it says nothing"), "{text}");
    let (code, json, _) = verify(dir.path(), &["--head", &head(8), "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["published"]["heads"][0]["state"]), (Some(0), &"beyond".into()));
    // Another history, of a line in it and of the line before it.
    let dir = extracted(&bundle(&log));
    for seq in [3, 5] {
        let other = format!("{seq}:{}", "ab".repeat(32));
        let (code, text, _) = verify(dir.path(), &["--head", &other]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("\nanother history: line {seq} ")), "{text}");
    }
}

#[test]
fn an_extracted_bundle_is_a_log_that_every_command_reads() {
    let (log, lines) = log();
    let dir = extracted(&bundle(&log));
    assert_eq!(succeeds(&mut audit(dir.path(), &["query"])), lines[3..].join("\n") + "\n");
    let shown = succeeds(&mut audit(dir.path(), &["show", "4"]));
    assert!(shown.contains("2 lines in all"), "the file is there: {shown}");
    let (_, replayed, said) = ended(&mut audit(dir.path(), &["replay"]));
    assert!(
        replayed.contains("5 records") && !replayed.contains("lost their evidence"),
        "{replayed}{said}"
    );
    // From the first line on it is a whole log.
    let path = log.dir.path().join("all.tar");
    let all = ["export", "--format", "bundle", "-o", path.to_str().unwrap()];
    succeeds(&mut audit(log.dir.path(), &all));
    succeeds(&mut audit(extracted(&path).path(), &["verify"]));
}

#[test]
fn half_a_line_that_is_being_written_is_not_in_a_bundle() {
    let (log, _) = log();
    let mut file = fs::OpenOptions::new().append(true).open(log.active()).unwrap();
    std::io::Write::write_all(&mut file, b"{\"agent\":").unwrap();
    let (code, text, said) = verify(extracted(&bundle(&log)).path(), &[]);
    assert_eq!(code, Some(0), "{text}{said}");
}

#[test]
fn what_cannot_be_bundled_is_refused() {
    let (log, _) = log();
    let dir = log.dir.path();
    let other = Log::new();
    fs::write(other.active(), "").unwrap();
    let two = ["export", "--format", "bundle", "--dir", other.dir.path().to_str().unwrap()];
    assert!(fails(&mut audit(dir, &two), 2).contains("one --dir at a time"));
    let none = ["export", "--format", "bundle", "--until", "2020-01-01"];
    assert!(fails(&mut audit(dir, &none), 1).contains("no line is of that time"));
    let some = ["export", "--format", "bundle", "--agent", "wget"];
    assert!(fails(&mut audit(dir, &some), 2).contains("by --since and --until alone"));
}

#[test]
fn what_does_not_hold_in_the_log_is_said_when_it_is_bundled() {
    let (log, _) = log();
    fs::remove_file(BlobStore::of(log.dir.path()).path(Kind::File, &sha256_hex(FILE.as_bytes())))
        .unwrap();
    let text = fs::read_to_string(log.active()).unwrap();
    fs::write(log.active(), text.replace("/private/7", "/public/77")).unwrap();
    let path = log.dir.path().join("all.tar");
    let all = ["export", "--format", "bundle", "-o", path.to_str().unwrap()];
    let (code, _, said) = ended(&mut audit(log.dir.path(), &all));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("1 line is damaged or changed") && said.contains("evidence is not in"),
        "{said}"
    );
    let (code, text, _) = verify(extracted(&path).path(), &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("changed: its text is not") && text.contains("its evidence is missing"),
        "{text}"
    );
}

/// The commands of docs/guide/bundles.md, as a shell runs them.
fn documented(name: &str) -> String {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/bundles.md")).unwrap();
    let (_, block) = page.split_once("```bash\n").expect("the page has commands");
    block.split_once("```").unwrap().0.replace("november.tar", name)
}

/// What each change is: to a file of the lines, which is not compressed, or to the evidence.
#[test]
fn what_was_changed_in_a_bundle_is_found_with_courtesy_and_without() {
    let (log, _) = log();
    let path = bundle(&log);
    let script = |dir: &Path, bundle: &Path| {
        let script = documented(bundle.to_str().unwrap());
        let output = Command::new("bash").args(["-c", &script]).current_dir(dir).output().unwrap();
        let text =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.success(), text)
    };
    let empty = tempfile::tempdir().unwrap();
    let (is_good, text) = script(empty.path(), &path);
    assert!(is_good && text.ends_with("the bundle holds\n"), "{text}");
    let lines = "denials-000000000006.jsonl";
    let evidence = format!("evidence/{}", {
        let name = sha256_hex(FILE.as_bytes());
        format!("{}/{name}.txt.gz", &name[..2])
    });
    let edit = |change: &dyn Fn(&mut Vec<String>)| {
        let dir = extracted(&path);
        let text = fs::read_to_string(dir.path().join(lines)).unwrap();
        let mut all: Vec<_> = text.lines().map(str::to_owned).collect();
        change(&mut all);
        fs::write(dir.path().join(lines), all.join("\n") + "\n").unwrap();
        dir
    };
    let evil = extracted(&path);
    let file = evil.path().join(&evidence);
    let mut content = fs::read(&file).unwrap();
    content[15] ^= 1;
    fs::write(&file, content).unwrap();
    let lacking = extracted(&path);
    fs::remove_file(lacking.path().join(&evidence)).unwrap();
    for (dir, said) in [
        (edit(&|all| all[1] = all[1].replace("/private/7", "/public/77")), "is not what its hash"),
        (edit(&|all| drop(all.remove(1))), "removed: line 7 is missing"),
        (edit(&|all| drop(all.pop())), "cut off"),
        (edit(&|all| all.push(all[0].clone())), "inserted: there is a line of this number"),
        (evil, "its evidence was changed: "),
        (lacking, "its evidence is missing: "),
    ] {
        let (code, text, _) = verify(dir.path(), &[]);
        assert!(code == Some(1) && text.contains(said), "{said}: {text}");
        let other = log.dir.path().join("changed.tar");
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&other).arg("-C").arg(dir.path()).args(names);
        assert!(tar.status().unwrap().success());
        let empty = tempfile::tempdir().unwrap();
        let (is_good, text) = script(empty.path(), &other);
        assert!(!is_good && !text.contains("the bundle holds"), "{said}: {text}");
    }
}
