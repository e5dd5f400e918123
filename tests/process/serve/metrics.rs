//! The numbers of a running proxy, as the documentation and Prometheus' own tools have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::serve::support::{Served, state_dir};

const PAGE: &str = include_str!("../../../docs/reference/metrics.md");

/// One with an engine, whose metrics there are only then; that it is not there matters not.
fn start(dir: &Path) -> Served {
    let config = dir.join("courtesy.toml");
    let engine = format!("[engine]\nurl = \"redis+unix://{}/none.sock\"\n", dir.display());
    fs::write(&config, engine).expect("a directory that can be written to");
    Served::start(dir, &["--config", config.to_str().expect("text")])
}

/// The text that Prometheus reads.
fn text(served: &Served) -> String {
    let answer = served.ask_admin("/metrics");
    let (head, text) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4"), "{head}");
    text.to_owned()
}

/// What a proxy tells, as rows of the page.
fn rows(text: &str) -> BTreeSet<String> {
    let about = |what: &str| -> BTreeMap<&str, &str> {
        text.lines().filter_map(|line| line.strip_prefix(what)?.split_once(' ')).collect()
    };
    let (helps, kinds) = (about("# HELP "), about("# TYPE "));
    kinds
        .iter()
        .map(|(name, kind)| {
            format!("| `{name}` | {kind} | {} | {} |", labels(text, name), helps[name])
        })
        .collect()
}

/// The labels of a metric and their values, in the order in which they are told.
fn labels(text: &str, name: &str) -> String {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let parts = ["{", "_bucket{", "_sum{", "_count{"].map(|part| format!("{name}{part}"));
    let samples = text.lines().filter(|line| parts.iter().any(|part| line.starts_with(part)));
    for sample in samples {
        let (_, labels) = sample.split_once('{').expect("labels");
        let (labels, _) = labels.rsplit_once('}').expect("an end");
        for (label, value) in labels.split(',').map(|it| it.split_once('=').expect("a value")) {
            let value = value.trim_matches('"');
            match found.iter_mut().find(|(known, _)| *known == label) {
                Some((_, values)) if !values.contains(&value) => values.push(value),
                Some(_) => {}
                None => found.push((label, vec![value])),
            }
        }
    }
    let words =
        found.iter().filter(|(label, _)| *label != "le").map(|(label, values)| match *label {
            "version" => "`version`".to_owned(),
            label => format!("`{label}`: {}", values.join(", ")),
        });
    words.collect::<Vec<_>>().join("; ")
}

#[test]
fn the_page_has_every_metric_with_type_labels_and_meaning() {
    let dir = state_dir();
    let served = start(dir.path());
    let told = rows(&text(&served));
    assert!(told.len() > 50, "{told:?}");
    let page: BTreeSet<String> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `") && line.matches(" | ").count() == 3)
        .map(Into::into)
        .collect();
    let missing: Vec<_> = told.difference(&page).collect();
    assert!(missing.is_empty(), "docs/reference/metrics.md lacks {missing:#?}");
    let stale: Vec<_> = page.difference(&told).collect();
    assert!(stale.is_empty(), "docs/reference/metrics.md has what is not told: {stale:#?}");
    served.terminate();
}

#[test]
fn a_rule_of_the_page_names_metrics_that_there_are() {
    let dir = state_dir();
    let served = start(dir.path());
    let told = text(&served);
    let rules: Vec<_> = PAGE.lines().skip_while(|line| *line != "## Rules worth having").collect();
    let named = |line: &str| -> Vec<String> {
        let words = line.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        words.filter(|word| word.starts_with("courtesy_")).map(Into::into).collect()
    };
    let named: Vec<_> = rules.iter().flat_map(|line| named(line)).collect();
    assert!(named.len() >= 7, "{named:?}");
    for name in named {
        assert!(told.contains(&format!("\n# TYPE {name} ")), "{name}");
    }
    served.terminate();
}

/// `promtool check metrics` complains of names, units and types that are not as Prometheus has them.
#[test]
fn promtool_finds_nothing_to_complain_of() {
    let dir = state_dir();
    let served = start(dir.path());
    let text = text(&served);
    served.terminate();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, which Debian has in its package prometheus");
    promtool.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let ended = promtool.wait_with_output().expect("it ends");
    let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(ended.status.success() && said.iter().all(String::is_empty), "{said:?}");
}
