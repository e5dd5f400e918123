//! Records that name no person: `audit.clients`, `audit.redact_paths` and `audit.redact_query`, over reloads and
//! restarts, in a run, and through each command that reads them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::testkit::processes::{Place, Site, until};

const KEYED: &str =
    "[audit]\nclients = \"keyed\"\nredact_paths = [\"/private/*/\"]\nredact_query = true\n";
const NONE: &str = "[audit]\nclients = \"none\"\nredact_paths = [\"/private/*/\"]\n";

/// A site, and a place whose log has two records with hashed clients, of two starts, and one between them without.
fn served() -> (Site, Place) {
    let site = Site::with_rules("User-agent: *\nDisallow: /private/\n");
    let place = Place::new(KEYED);
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/jane/a?token=secret")).status, 403);
    place.set(NONE);
    serve.signal("HUP");
    until("other settings hold", || serve.said().contains("from now on other settings hold"));
    assert_eq!(serve.get(&site.url("/private/jane/b?page=2")).status, 403);
    let said = serve.said();
    assert!(!said.contains("jane") && !said.contains("client=127.0.0.1"), "{said}");
    assert!(!said.contains("without end"), "{said}");
    serve.stop();
    place.set(KEYED);
    let serve = place.serve();
    assert_eq!(serve.get(&site.url("/private/jane/a?token=secret")).status, 403);
    serve.stop();
    (site, place)
}

fn denied(place: &Place) -> Vec<Value> {
    let log = place.log();
    log.lines.iter().filter(|line| line["event"] == "denied").cloned().collect()
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let text = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Whether a file below `dir` has one of `words`, compressed or not.
fn is_named(dir: &Path, words: &[&str]) -> bool {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| {
        if path.is_dir() {
            return is_named(&path, words);
        }
        let content = std::fs::read(&path).unwrap_or_default();
        let mut text = String::from_utf8_lossy(&content).into_owned();
        if path.extension().is_some_and(|it| it == "gz") {
            text.clear();
            let mut decoder = flate2::read::MultiGzDecoder::new(&*content);
            std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
        }
        words.iter().any(|word| text.contains(word))
    })
}

#[test]
fn a_log_without_persons_is_read_by_every_command() {
    let (site, place) = served();
    assert!(!is_named(&place.audit_dir(), &["jane", "secret"]));
    let records = denied(&place);
    let [first, without, last] = &records[..] else { panic!("{records:#?}") };
    let hash = first["client"]["address"].as_str().unwrap();
    assert!(hash.len() == 17 && hash.starts_with('~'), "{hash}");
    assert_eq!(first["client"], last["client"], "over a restart");
    assert_eq!(first["url"], last["url"]);
    assert_eq!(without["client"], serde_json::json!({ "address": null, "name": null }));
    let url = without["url"].as_str().unwrap();
    assert!(url.starts_with(&site.url("/private/~")) && url.ends_with("/b?page=2"), "{url}");

    place.verified();
    let of_client = place.run(&format!("audit query --format json --client {hash}"));
    assert_eq!(said(&of_client, 0).lines().count(), 2);
    let shown = |id: &Value| said(&place.run(&format!("audit show {}", id.as_str().unwrap())), 0);
    assert!(shown(&first["id"]).contains(hash));
    assert!(shown(&without["id"]).contains("not recorded"));
    let replayed = said(&place.run("audit replay"), 0);
    assert_eq!(replayed.matches("a part of its path is redacted").count(), 3, "{replayed}");
    let report = said(&place.run("audit report --format json"), 0);
    let report: Value = serde_json::from_str(&report).unwrap();
    let clients = report["by_client"]["rows"].as_array().unwrap();
    let addresses: Vec<_> = clients.iter().map(|row| &row["address"]).collect();
    assert_eq!(addresses, [&Value::from(hash), &Value::Null], "{report:#}");
    let origin = site.url("");
    said(&place.run(&format!("audit history {origin}")), 0);
    for format in ["csv", "ecs", "ocsf", "cef"] {
        let events = said(&place.run(&format!("audit export --format {format}")), 0);
        assert!(events.contains(hash), "{format}: {events}");
    }
    let dossier = place.path().join("site.tar");
    let export =
        format!("audit export --format dossier --origin {origin} -o {}", dossier.display());
    said(&place.run(&export), 0);
    said(&place.run(&format!("audit verify {}", dossier.display())), 0);
}

#[test]
fn a_run_has_the_same_settings() {
    let site = Site::with_rules("User-agent: *\nDisallow: /private/\n");
    let place = Place::new(&format!("{KEYED}[egress]\nallow = [\"127.0.0.0/8\"]\n"));
    let urls = [site.url("/open?token=secret"), site.url("/private/jane/a")];
    said(
        &place.run(&format!(
            "run --proxy-loopback -- curl -sS -o /dev/null -o /dev/null {}",
            urls.join(" ")
        )),
        0,
    );
    let runs = place.state_dir().join("runs");
    let run = std::fs::read_dir(runs).unwrap().map(|run| run.unwrap().path()).next().unwrap();
    assert!(!is_named(&run.join("audit"), &["jane", "secret"]));
    let lines = place.run("audit query --run last --event denied --event allowed --format json");
    let lines = said(&lines, 0);
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let events: BTreeSet<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, BTreeSet::from(["allowed", "denied"]));
    for line in &lines {
        assert!(line["client"]["address"].as_str().unwrap().starts_with('~'), "{line:#}");
    }
    said(&place.run("audit verify --run last"), 0);
}

#[test]
fn a_start_says_that_clients_are_kept_without_end() {
    let place = Place::new("");
    let serve = place.serve();
    assert_eq!(
        serve.said().matches("keeps the addresses and names of clients without end").count(),
        1
    );
    serve.stop();
    place.set("[audit]\nretain = \"400d\"\n");
    let serve = place.serve();
    assert!(!serve.said().contains("without end"), "{}", serve.said());
    serve.stop();
}
