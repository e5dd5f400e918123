//! A part of a log in one file: made, read back, tampered with, and checked with tools of the system alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use courtesy::audit::evidence::{Blob, BlobStore, Kind};
use courtesy::audit::{Record, Robots};
use courtesy::types::sanitize::{digest, sha256_hex};
use serde_json::Value;

use crate::audit_cli::support::{Log, audit, compress, courtesy, ended, fails, record, succeeds};

const FILE: &str = "User-agent: *\nDisallow: /private/\n";
/// Of the eight records of [`log`], those of the series with the numbers 3 to 6.
const PART: [&str; 4] = ["--since", "2026-11-20T12:03:00Z", "--until", "2026-11-20T12:06:30Z"];

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

/// A bundle of lines 3 to 6.
fn bundle(log: &Log) -> PathBuf {
    let path = log.dir.path().join("part.tar");
    let arguments = [&["export", "--output", path.to_str().unwrap()][..], &PART].concat();
    assert_eq!(succeeds(&mut audit(log.dir.path(), &arguments)), "");
    path
}

fn verify(path: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    ended(&mut courtesy(&[&["verify", path.to_str().unwrap()], more].concat()))
}

/// What is left among the temporary files of a verification.
fn verify_in(temporary: &Path, path: &Path) -> (Option<i32>, String, String) {
    ended(courtesy(&["verify", path.to_str().unwrap()]).env("TMPDIR", temporary))
}

#[test]
fn a_part_of_a_log_is_bundled_and_verified_without_the_rest() {
    let (log, lines) = log();
    let path = bundle(&log);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole, fs::read(bundle(&log)).unwrap(), "the same part is the same file");
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("given.tar");
    fs::write(&path, &whole).unwrap();
    drop(log);

    let temporary = tempfile::tempdir().unwrap();
    let (code, text, said) = verify_in(temporary.path(), &path);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{text}");
    assert!(
        text.starts_with("The log holds in itself; no published head was given. 4 records"),
        "{text}"
    );
    assert!(text.contains("1 piece of evidence") && !text.contains("head.json"), "{text}");
    let before = format!("lines 3 to 6. What comes before them hangs on 2:{}", hash_of(&lines[1]));
    assert!(text.contains(&before), "{text}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "it has cleared up");

    let (code, json, _) = verify(&path, &["--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["holds"], &json["lines"]), (Some(0), &true.into(), &4.into()));
    assert_eq!(
        (&json["bundle"]["first"]["seq"], &json["bundle"]["last"]["seq"]),
        (&3.into(), &6.into())
    );
    assert_eq!(json["bundle"]["last"]["hash"], hash_of(&lines[5]));
}

#[test]
fn published_heads_bind_the_lines_that_a_bundle_has_and_no_others() {
    let (log, lines) = log();
    let path = bundle(&log);
    let head = |seq: usize| format!("{seq}:{}", hash_of(&lines[seq - 1]));
    let (code, text, _) = verify(&path, &["--head", &head(5)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("up to line 5 under a published head"), "{text}");
    let (code, text, _) = verify(&path, &["--head", &head(8), "--head", &head(1)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no published head that was given is of a line in it"), "{text}");
    assert!(text.contains("1 of a line after the part, of which it says nothing"), "{text}");
    let (code, json, _) = verify(&path, &["--head", &head(8), "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["published"]["heads"][0]["state"]), (Some(0), &"beyond".into()));
    // Another history, of a line in it and of the line before it.
    for seq in [2, 5] {
        let (code, text, _) = verify(&path, &["--head", &format!("{seq}:{}", "ab".repeat(32))]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.starts_with(&format!("another history: line {seq} ")), "{text}");
    }
}

#[test]
fn all_lines_between_those_that_match_are_in_a_bundle() {
    let (log, lines) = log();
    let path = log.dir.path().join("agent.tar");
    // ShardedCounters 1, 3, 5 and 7 are those of Wget.
    succeeds(&mut audit(
        log.dir.path(),
        &["export", "--agent", "wget", "-o", path.to_str().unwrap()],
    ));
    let dir = extracted(&path);
    assert_eq!(succeeds(&mut audit(dir.path(), &["query"])), lines[..7].join("\n") + "\n");
    let printed = audit(log.dir.path(), &["export", "--agent", "wget", "--format", "bundle"])
        .output()
        .unwrap();
    assert_eq!(printed.stdout, fs::read(&path).unwrap());
}

/// As `tar` unpacks it.
fn extracted(path: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tar = Command::new("tar").arg("-xf").arg(path).arg("-C").arg(dir.path()).output().unwrap();
    assert!(tar.status.success() && tar.stderr.is_empty(), "{tar:?}");
    dir
}

#[test]
fn an_extracted_bundle_is_a_log_that_every_command_reads() {
    let (log, lines) = log();
    let dir = extracted(&bundle(&log));
    assert_eq!(succeeds(&mut audit(dir.path(), &["query"])), lines[2..6].join("\n") + "\n");
    let shown = succeeds(&mut audit(dir.path(), &["show", "4"]));
    assert!(shown.contains("2 lines in all"), "the file is there: {shown}");
    let (_, replayed, said) = ended(&mut audit(dir.path(), &["replay"]));
    assert!(
        replayed.contains("4 records") && !replayed.contains("lost their evidence"),
        "{replayed}{said}"
    );
    // Named as a log, it lacks its beginning.
    let (code, text, _) = ended(&mut audit(dir.path(), &["verify"]));
    assert!(code == Some(1) && text.contains("lines 1 to 2 are missing"), "{text}");
    // From the first line on it is a whole log.
    let path = log.dir.path().join("all.tar");
    succeeds(&mut audit(
        log.dir.path(),
        &["export", "--format", "bundle", "-o", path.to_str().unwrap()],
    ));
    succeeds(&mut audit(extracted(&path).path(), &["verify"]));
}

#[test]
fn what_cannot_be_bundled_is_refused() {
    let (log, _) = log();
    let dir = log.dir.path();
    let other = Log::new();
    fs::write(other.active(), "").unwrap();
    let two = ["export", "--format", "bundle", "--dir", other.dir.path().to_str().unwrap()];
    assert!(fails(&mut audit(dir, &two), 2).contains("one --dir at a time"));
    let none = ["export", "--format", "bundle", "--since", "2030-01-01"];
    assert!(fails(&mut audit(dir, &none), 1).contains("no line matches"));
    let path = bundle(&log);
    let path = path.to_str().unwrap();
    assert!(fails(&mut courtesy(&["verify", path, path]), 2).contains("one at a time"));
}

#[test]
fn what_does_not_hold_in_the_log_is_said_when_it_is_bundled() {
    let (log, _) = log();
    fs::remove_file(BlobStore::of(log.dir.path()).path(Kind::File, &sha256_hex(FILE.as_bytes())))
        .unwrap();
    let text = fs::read_to_string(log.active()).unwrap();
    fs::write(log.active(), text.replace("/private/7", "/public/77")).unwrap();
    let path = log.dir.path().join("all.tar");
    let (code, _, said) = ended(&mut audit(
        log.dir.path(),
        &["export", "--format", "bundle", "-o", path.to_str().unwrap()],
    ));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("1 line is damaged or changed") && said.contains("evidence is not in"),
        "{said}"
    );
    let (code, text, _) = verify(&path, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("changed: its text is not") && text.contains("its evidence is missing"),
        "{text}"
    );
    assert!(!text.contains("/courtesy-bundle-"), "files are named as in the bundle: {text}");
}

/// The entries of a bundle: their names and content.
fn entries(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), content)
    });
    entries.collect()
}

fn header(name: &[u8], bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    header
}

/// A tar file of these entries, as a bundle is made.
fn packed(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in entries {
        builder.append(&header(name.as_bytes(), content.len() as u64), content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Made of these entries as a bundle is, and verified: what is printed, on either output.
#[track_caller]
fn refused(path: &Path, entries: &[(String, Vec<u8>)]) -> String {
    refused_bytes(path, &packed(entries))
}

#[track_caller]
fn refused_bytes(path: &Path, bytes: &[u8]) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("tampered.tar");
    fs::write(&file, bytes).unwrap();
    let inside = temporary.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let (code, text, said) = verify_in(&inside, &file);
    assert_eq!(code, Some(1), "{text}{said}");
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.len() == 2 && fs::read_dir(inside).unwrap().count() == 0, "{left:?}");
    assert_eq!(verify(path, &[]).0, Some(0), "without the change it holds");
    text + &said
}

#[test]
fn changed_removed_and_added_lines_of_a_bundle_are_named() {
    let (log, _) = log();
    let path = bundle(&log);
    let whole = entries(&path);
    let with_lines = |change: &dyn Fn(&mut Vec<String>)| {
        let mut entries = whole.clone();
        let text = String::from_utf8(entries[1].1.clone()).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        entries[1].1 = (lines.join("\n") + "\n").into_bytes();
        refused(&path, &entries)
    };
    let said = with_lines(&|lines| lines[1] = lines[1].replace("/private/4", "/public/44"));
    assert!(said.starts_with("denials-000000000003.jsonl:2: number 4 "), "{said}");
    assert!(said.contains("its text is not what its hash was made of"), "{said}");
    let said = with_lines(&|lines| drop(lines.remove(1)));
    assert!(said.contains("removed: line 4 is missing"), "{said}");
    let said = with_lines(&|lines| drop(lines.remove(0)));
    assert!(said.contains("bundle.json says that line 3 is the first"), "{said}");
    let said = with_lines(&|lines| drop(lines.pop()));
    assert!(said.contains("bundle.json says that line 6 is the last"), "{said}");
    let said = with_lines(&|lines| lines.push(lines[0].clone()));
    assert!(said.contains("inserted: there is a line of this number before it"), "{said}");
}

#[test]
fn changed_missing_and_added_evidence_of_a_bundle_is_named() {
    let (log, _) = log();
    let path = bundle(&log);
    let whole = entries(&path);
    let mut changed = whole.clone();
    changed[2].1[15] ^= 1;
    let said = refused(&path, &changed);
    assert!(said.contains("its evidence was changed: evidence/"), "{said}");
    assert!(refused(&path, &whole[..2]).contains("its evidence is missing: evidence/"));
    let mut added = whole.clone();
    let name = format!("evidence/ff/{}.txt.gz", "ff".repeat(32));
    added.push((name.clone(), whole[2].1.clone()));
    assert!(refused(&path, &added).contains(&format!("added: no line names {name}")));
}

#[test]
fn names_links_and_headers_that_no_bundle_has_are_refused() {
    let (log, _) = log();
    let path = bundle(&log);
    let whole = entries(&path);
    let outside = log.dir.path().join("outside");
    for name in [
        "../outside",
        outside.to_str().unwrap(),
        "evidence/../../outside",
        "head.json",
        "zzz\u{1b}[2J",
    ] {
        let mut added = whole.clone();
        added.push((name.into(), b"outside".to_vec()));
        let said = refused(&path, &added);
        assert!(
            said.contains("is no name of a file in a bundle") && !said.contains('\u{1b}'),
            "{said}"
        );
    }
    assert!(!outside.exists());
    let twice = [whole.clone(), vec![whole[2].clone()]].concat();
    assert!(refused(&path, &twice).contains("or is there twice"));
    assert!(refused(&path, &whole[1..]).contains("it does not begin with bundle.json"));
    let mut untold = whole.clone();
    let manifest = String::from_utf8(whole[0].1.clone()).unwrap();
    untold[0].1 = manifest.replace("\"prev\":\"", "\"prev\":\"\\u001b[2J").into_bytes();
    assert!(refused(&path, &untold).contains("bundle.json does not say what is in it"));

    let bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 1024;
    let with = |header: &tar::Header| {
        refused_bytes(&path, &[&bytes[..end], header.as_bytes(), &bytes[end..]].concat())
    };
    let name = format!("evidence/ff/{}.txt.gz", "ff".repeat(32));
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Directory,
        tar::EntryType::Fifo,
    ] {
        let mut link = header(name.as_bytes(), 0);
        link.set_entry_type(kind);
        link.set_link_name("/etc/passwd").unwrap();
        link.set_cksum();
        assert!(with(&link).contains("no regular file"));
    }
    let mut other = header(name.as_bytes(), 0);
    other.set_mtime(1);
    other.set_cksum();
    assert!(with(&other).contains("is not the one that was written"));
}

#[test]
fn a_bundle_that_is_too_large_cut_off_or_goes_on_is_refused() {
    let (log, _) = log();
    let path = bundle(&log);
    let bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 1024;
    let name = format!("evidence/ff/{}.txt.gz", "ff".repeat(32));
    for size in [65 << 20, 1 << 32] {
        let bomb =
            [&bytes[..end], header(name.as_bytes(), size).as_bytes(), &bytes[end..]].concat();
        assert!(refused_bytes(&path, &bomb).contains("is more than a bundle may have"));
    }
    for length in [0, 100, 512, 600, end - 700, end, end + 512] {
        let said = refused_bytes(&path, &bytes[..length]);
        assert!(said.contains("it is cut off"), "{length}: {said}");
    }
    let said = refused_bytes(&path, &[&bytes[..], b"more"].concat());
    assert!(said.contains("there are bytes behind its end"), "{said}");
    let mut padded = bytes.clone();
    padded[1023] = 1;
    assert!(
        refused_bytes(&path, &padded).contains("there are bytes behind the end of bundle.json")
    );
    let mut entries = entries(&path);
    entries[0].1 = String::from_utf8(entries[0].1.clone())
        .unwrap()
        .replace("\"version\":1", "\"version\":2")
        .into();
    fs::write(&path, packed(&entries)).unwrap();
    assert!(
        fails(&mut courtesy(&["verify", path.to_str().unwrap()]), 69).contains("later version")
    );
}

/// The commands of docs/guide/bundles.md, as a shell runs them.
fn documented(name: &str) -> String {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/bundles.md")).unwrap();
    let (_, block) = page.split_once("```bash\n").expect("the page has commands");
    block.split_once("```").unwrap().0.replace("november.tar", name)
}

#[test]
fn the_documented_commands_check_a_bundle_without_courtesy() {
    let (log, _) = log();
    let path = bundle(&log);
    let run = |bundle: &Path| {
        let dir = tempfile::tempdir().unwrap();
        let script = documented(bundle.to_str().unwrap());
        let output =
            Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
        let text =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.success(), text)
    };
    let (is_good, text) = run(&path);
    assert!(is_good && text.ends_with("the bundle holds\n"), "{text}");
    let whole = entries(&path);
    let text = String::from_utf8(whole[1].1.clone()).unwrap();
    let without = |line: usize| {
        let lines = text.lines().enumerate().filter(|(number, _)| *number != line);
        lines.map(|(_, line)| format!("{line}\n")).collect::<String>().into_bytes()
    };
    let mut evidence = whole[2].1.clone();
    evidence[15] ^= 1;
    let with = |entry: usize, content: Vec<u8>| {
        let mut changed = whole.clone();
        changed[entry].1 = content;
        changed
    };
    for changed in [
        with(1, text.replace("/private/4", "/public/44").into_bytes()),
        with(1, without(0)),
        with(1, without(1)),
        with(1, without(3)),
        with(2, evidence),
        whole[..2].to_vec(),
    ] {
        let other = log.dir.path().join("changed.tar");
        fs::write(&other, packed(&changed)).unwrap();
        let (is_good, text) = run(&other);
        assert!(!is_good && !text.contains("the bundle holds"), "{text}");
    }
}
