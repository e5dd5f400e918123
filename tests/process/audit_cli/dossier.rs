//! What a log has about one site, handed to somebody who has no courtesy: checked by the Python file that lies in it,
//! and without a word of any other site.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::audit_cli::support::{audit, courtesy, ended, fails, succeeds};
use crate::testkit::processes::{Place, Site, until};

const RULES: &str = "User-agent: *\nDisallow: /private/\nCrawl-delay: 0.01\n";

/// Of another site, and of whom it was asked by: nothing of it is to be in the dossier.
const OTHERS: [&str; 5] = ["127.0.0.2", "OtherBot", "confidential", "legal", "127.0.0.77"];

/// A log about two sites, their server, and the origin of the first.
fn served() -> (Place, Site, String) {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let serve = place.serve();
    let ask = |url: &str, agent: &str| {
        let proxy = format!("http://{}", serve.address());
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-x", &proxy, "-A", agent, url]);
        assert!(curl.status().unwrap().success());
    };
    let other = Ipv4Addr::new(127, 0, 0, 2);
    for number in 0..20 {
        ask(&site.url(&format!("/a{number}")), "ExampleBot/1.0");
        ask(&site.url_at(other, &format!("/private/{number}")), "OtherBot/1.0");
    }
    ask(&site.url("/private/a"), "ExampleBot/1.0");
    place.set(
        "[[exemptions]]\norigin = \"http://127.0.0.77\"\npaths = [\"/\"]\nby = \"legal\"\n\
         reason = \"confidential\"\nuntil = \"9999-01-01\"\n",
    );
    serve.signal("HUP");
    until("the settings hold", || serve.said().contains("from now on other settings hold"));
    serve.stop();
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/b")).status, 200);
    serve.stop();
    let origin = site.url("");
    (place, site, origin)
}

fn exported(place: &Place, origin: &str, more: &[&str]) -> PathBuf {
    let tar = place.path().join("dossier.tar");
    let output = tar.to_str().unwrap();
    let arguments = ["export", "--format", "dossier", "--origin", origin, "--output", output];
    let state = place.state_dir();
    let mut export = audit(&place.audit_dir(), &[&arguments[..], more].concat());
    succeeds(export.env("COURTESY__STATE_DIR", &state));
    tar
}

fn unpacked(tar: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("tar");
    assert!(command.arg("-xf").arg(tar).arg("-C").arg(dir.path()).status().unwrap().success());
    dir
}

/// What its own verifier says, where there is nothing but Python.
fn verified(dir: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let mut python = Command::new("python3");
    // -I: nothing of the machine's own but the standard library.
    python.arg("-I").arg(dir.join("verify.py")).args(more).env_clear().current_dir("/");
    ended(python.env("PATH", "/usr/bin:/bin"))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Its text; of what is compressed, the text inside.
fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let mut inside = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        use std::io::Read as _;
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut inside).unwrap();
        inside
    } else {
        String::from_utf8(bytes).unwrap()
    }
}

#[test]
fn a_dossier_is_checked_without_courtesy_and_names_no_other_site() {
    let (place, _site, origin) = served();
    let dir = unpacked(&exported(&place, &origin, &[]));
    let (code, said, error) = verified(dir.path(), &[]);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(said.starts_with("The dossier holds: "), "{said}");
    for expected in [
        &*format!("lines about {origin}\n"),
        "2 counts",
        "signed by the key in the dossier",
        "counted: 21 allowed, 1 denied",
    ] {
        assert!(said.contains(expected), "{expected} is not in\n{said}");
    }
    let all = files(dir.path());
    assert!(all.iter().any(|file| file.ends_with("report.html")));
    for file in &all {
        let text = text(file);
        for other in OTHERS {
            assert!(!text.contains(other), "{other} is in {}", file.display());
        }
    }
    let page = text(&dir.path().join("report.html"));
    for expected in [&*origin, "ExampleBot", "Disallow: /private/"] {
        assert!(page.contains(expected), "{expected} is not in the page");
    }
    // As it was handed over, too, and with the key that the log's owner has published.
    let key =
        succeeds(audit(&place.audit_dir(), &["key"]).env("COURTESY__STATE_DIR", place.state_dir()));
    let tar = place.path().join("dossier.tar");
    let (code, said, error) = verified(dir.path(), &[tar.to_str().unwrap(), "--key", key.trim()]);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(said.contains("signed by the key that you gave"), "{said}");
    let said = succeeds(&mut courtesy(&["verify", tar.to_str().unwrap(), "--key", key.trim()]));
    assert!(
        said.starts_with("The dossier holds: ") && said.contains("which was asked for"),
        "{said}"
    );
}

#[test]
fn a_dossier_that_was_changed_anywhere_does_not_hold() {
    let (place, _site, origin) = served();
    let tar = exported(&place, &origin, &[]);
    type Change = fn(&Path);
    fn edit(dir: &Path, name: &str, change: impl Fn(String) -> String) {
        let path = dir.join(name);
        std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
    }
    let changes: [(&str, Change, &str); 7] = [
        (
            "a line",
            |dir| edit(dir, "lines.jsonl", |it| it.replacen("/private/a", "/private/b", 1)),
            "is not the text",
        ),
        (
            "a line is left out",
            |dir| {
                let without = |it: String| {
                    let lines = it.lines().filter(|line| !line.contains("\"event\":\"denied\""));
                    lines.map(|line| format!("{line}\n")).collect::<String>()
                };
                edit(dir, "lines.jsonl", without);
            },
            "is missing from the tree",
        ),
        (
            "the size",
            |dir| edit(dir, "checkpoint.txt", |it| it.replacen('\n', "\n1", 1)),
            "does not hold",
        ),
        (
            "the signed text",
            |dir| edit(dir, "checkpoint.txt", |it| it.replacen("  2", "  3", 1)),
            "is not signed by",
        ),
        (
            "the key",
            |dir| {
                edit(dir, "dossier.json", |it| {
                    it.replacen("\"key\": \"courtesy/", "\"key\": \"Courtesy/", 1)
                })
            },
            "does not have the identifier",
        ),
        (
            "evidence is missing",
            |dir| std::fs::remove_dir_all(dir.join("evidence")).unwrap(),
            "is missing",
        ),
        (
            "a node",
            |dir| {
                edit(dir, "dossier.json", |it| {
                    let at = it.find("\"nodes\"").unwrap();
                    let (head, nodes) = it.split_at(at);
                    let quote = nodes.find(": \"").unwrap() + 3;
                    let other = if nodes.as_bytes()[quote] == b'0' { "1" } else { "0" };
                    format!("{head}{}{other}{}", &nodes[..quote], &nodes[quote + 1..])
                })
            },
            "not those of the log",
        ),
    ];
    for (what, change, expected) in changes {
        let dir = unpacked(&tar);
        change(dir.path());
        let (code, said, error) = verified(dir.path(), &[]);
        assert_eq!(code, Some(1), "{what}: {said}{error}");
        assert!(error.contains(expected), "{what}: {error}");
        let packed = place.path().join("changed.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&packed).arg("-C").arg(dir.path()).arg(".");
        assert!(tar.status().unwrap().success());
        let (code, said, _) = ended(&mut courtesy(&["verify", packed.to_str().unwrap()]));
        assert!(
            code == Some(1) && said.starts_with("The dossier does not hold: "),
            "{what}: {said}"
        );
    }
    let other = "courtesy/x/00+00000000+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let dir = unpacked(&tar);
    assert_eq!(verified(dir.path(), &["--key", other]).0, Some(1));
}

#[test]
fn a_dossier_shows_that_the_log_goes_on_from_what_was_published() {
    let (place, site, origin) = served();
    let state = place.state_dir();
    let published = place.path().join("heads.txt");
    let head = succeeds(audit(&place.audit_dir(), &["head"]).env("COURTESY__STATE_DIR", &state));
    std::fs::write(&published, head).unwrap();
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/c")).status, 200);
    serve.stop();
    let dir = unpacked(&exported(&place, &origin, &["--head", published.to_str().unwrap()]));
    let (code, said, error) = verified(dir.path(), &[]);
    assert_eq!(code, Some(0), "{said}{error}");
    assert!(said.contains("goes on from the checkpoint of line "), "{said}");
}

#[test]
fn a_dossier_of_no_site_or_of_several_is_refused_with_what_to_write() {
    let (place, _site, origin) = served();
    let dir = place.audit_dir();
    for (arguments, code, expected) in [
        (&["export", "--format", "dossier"][..], 2, "a dossier is of one site"),
        (
            &["export", "--format", "dossier", "--origin", "*.example"],
            2,
            "a dossier is of one site",
        ),
        (
            &["export", "--format", "dossier", "--origin", &origin, "--agent", "a"],
            2,
            "no other filters",
        ),
        (
            &["export", "--format", "dossier", "--origin", "http://none.example"],
            1,
            "the log names no such site",
        ),
    ] {
        let said = fails(&mut audit(&dir, arguments), code);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

/// A tar file in each form that is read, and its content in a directory.
fn in_each_form(place: &Place, tar: &Path) -> (tempfile::TempDir, Vec<PathBuf>) {
    let dir = unpacked(tar);
    let content = std::fs::read(tar).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&content).unwrap();
    let zstandard = compress_to_vec(&content[..], CompressionLevel::Fastest);
    let [tgz, tzst] = [("again.tar.gz", gzip.finish().unwrap()), ("again.tar.zst", zstandard)].map(
        |(name, it)| {
            let path = place.path().join(name);
            std::fs::write(&path, it).unwrap();
            path
        },
    );
    let forms = vec![dir.path().to_owned(), tar.to_owned(), tgz, tzst];
    (dir, forms)
}

#[test]
fn every_command_reads_a_dossier_in_any_form_and_calls_no_gap_damage() {
    let (place, _site, origin) = served();
    let (dir, forms) = in_each_form(&place, &exported(&place, &origin, &[]));
    let lines = std::fs::read_to_string(dir.path().join("lines.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let seqs: Vec<_> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).any(|two| two[1] > two[0] + 1), "the others are left out: {seqs:?}");
    let denied = lines.iter().find(|line| line["event"] == "denied").unwrap();
    let scratch = place.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let courtesy = |arguments: &[&str]| {
        let mut command = courtesy(arguments);
        command.env("TMPDIR", &scratch);
        command
    };
    for form in &forms {
        let form = form.to_str().unwrap();
        // As a file, and as a log among others.
        let ask = |arguments: &[&str]| {
            let named = succeeds(&mut courtesy(&[arguments, &["--dir", form]].concat()));
            if !arguments.contains(&"report") {
                assert_eq!(succeeds(&mut courtesy(&[arguments, &[form]].concat())), named);
            }
            named
        };
        let json = |arguments: &[&str]| {
            let text = ask(&[arguments, &["--format", "json"]].concat());
            serde_json::from_str::<Value>(&text).unwrap_or_else(|_| panic!("{text}"))
        };
        assert!(ask(&["verify"]).starts_with("The dossier holds: "), "{form}");
        assert_eq!(&json(&["query"]), denied);
        assert_eq!(ask(&["export"]), ask(&["query", "--format", "json"]));
        let files = lines.iter().filter(|line| line["event"] == "file").count();
        assert_eq!(ask(&["query", "--event", "file"]).lines().count(), files);
        let history = json(&["history", &origin]);
        assert_eq!(history["versions"][0]["asked"]["denied"], 1, "{history}");
        assert_eq!(ask(&["changes"]), "");
        assert!(ask(&["replay"]).starts_with("1 records: 1 the same"), "{form}");
        let report = json(&["report", "--verify"]);
        assert_eq!(
            (&report["missing"]["absent_lines"], &report["verified"]["verdict"]),
            (&json!(0), &json!("The dossier holds")),
            "{report}"
        );
        assert_eq!(report["missing"]["unreadable_lines"], 0);
        let seq = denied["seq"].to_string();
        let shown = json(&["show", &seq]);
        assert_eq!((&shown["record"], &shown["chain"]["holds"]), (denied, &json!(true)));
        assert!(shown["file"].as_str().unwrap().contains("Disallow: /private/"));
        let all = lines.iter().map(|line| json(&["show", &line["seq"].to_string()]));
        let beside: Vec<_> = all.map(|shown| shown["chain"]["before"].clone()).collect();
        assert!(beside.contains(&json!("apart")) && !beside.contains(&json!("differs")));
        for format in ["dossier", "bundle"] {
            let again = ["export", "--format", format, "--origin", &origin, "--dir", form];
            assert!(fails(&mut courtesy(&again), 2).contains("hand it on as it is"));
        }
    }
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "what was unpacked is removed");
}

#[test]
fn every_command_reads_a_bundle_as_it_was_handed_over() {
    let (place, _site, _origin) = served();
    let log = place.audit_dir();
    let tar = place.path().join("all.tar");
    succeeds(&mut audit(&log, &["export", "--output", tar.to_str().unwrap()]));
    let heads = place.path().join("heads.txt");
    let head = succeeds(audit(&log, &["head"]).env("COURTESY__STATE_DIR", place.state_dir()));
    std::fs::write(&heads, head).unwrap();
    let (_dir, forms) = in_each_form(&place, &tar);
    for form in &forms {
        let form = form.to_str().unwrap();
        let said = succeeds(&mut courtesy(&["verify", form, "--head", heads.to_str().unwrap()]));
        assert!(said.starts_with("The log holds"), "{said}");
        for arguments in
            [&["query"][..], &["export"], &["replay"], &["report"], &["show", "1"], &["changes"]]
        {
            let of_log = succeeds(&mut audit(&log, arguments));
            let of_bundle = succeeds(&mut courtesy(&[arguments, &["--dir", form]].concat()));
            // A report says when it was made.
            if arguments != ["report"] {
                assert_eq!(of_bundle, of_log, "{arguments:?} {form}");
            }
        }
    }
}

#[test]
fn a_file_that_was_not_handed_over_by_a_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    for (content, code, expected) in [
        (&[0; 1024][..], 69, "is neither a dossier nor a bundle"),
        (b"no tar file", 74, "cannot unpack "),
        (&[0x28, 0xb5, 0x2f, 0xfd, 1], 74, "cannot unpack "),
    ] {
        std::fs::write(&path, content).unwrap();
        for command in ["verify", "query", "replay"] {
            let said = fails(&mut courtesy(&[command, path.to_str().unwrap()]), code);
            assert!(said.contains(expected), "{said}");
        }
    }
}
