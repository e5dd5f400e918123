//! The pages say what the code does: their tables are held against the code they describe.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use courtesy::audit::{AgentSource, Client, Content, Event, Head, Profile, Reason, Record};
use courtesy::proxy::Problem;
use courtesy::types::timestamp::Timestamp;

use crate::source::{files, root};

const PROBLEMS: &str = include_str!("../../docs/reference/problems.md");
const RECORD: &str = include_str!("../../docs/reference/audit-record.md");

const PLACES: &str = include_str!("../../docs/develop/where-to-change.md");

/// The pages that name files and tests: those at the root, and those of the book.
fn pages() -> impl Iterator<Item = (String, String)> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "md");
    let at_root = fs::read_dir(root()).expect("a directory").map(|entry| entry.expect("it").path());
    let pages = at_root.chain(files(&root().join("docs"))).filter(is_page);
    pages.map(|path| {
        let text = fs::read_to_string(&path).expect("text");
        (path.strip_prefix(root()).expect("a path of ours").display().to_string(), text)
    })
}

/// The cells of every table row that begins with a code span.
fn rows(page: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    page.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

#[test]
fn every_problem_type_is_on_its_page_with_its_meaning() {
    for problem in Problem::ALL {
        let row = problem.row();
        let name = format!("`{}`", row.name);
        let found = rows(PROBLEMS)
            .find(|cells| cells[0] == name)
            .unwrap_or_else(|| panic!("no row for {name}"));
        assert_eq!(found.last(), Some(&row.meaning), "{name}");
    }
}

#[test]
fn every_member_of_the_record_is_on_its_page() {
    let record = Record {
        agent: None,
        agent_source: AgentSource::Absent,
        client: Client::at([127, 0, 0, 1], None),
        event: Event::Denied,
        exemption: None,
        group: None,
        id: String::new(),
        method: String::new(),
        node: Some("".into()),
        origin: String::new(),
        pace_seen: Some(false),
        path_seen: true,
        prev: String::new(),
        profile: Profile { name: String::new(), settings: Default::default(), version: 1 },
        reason: Reason::DisallowRule,
        robots: None,
        rule: None,
        seq: 0,
        setting: Some(String::new()),
        sni: Some(String::new()),
        time: Timestamp::from_millis(0),
        trace_id: Some(String::new()),
        url: String::new(),
        url_as_received: Some(String::new()),
        user_agent: None,
    };
    let mut lines = Vec::new();
    Head::genesis().push(Content::Record(Box::new(record)), &mut lines);
    let line: serde_json::Value = serde_json::from_slice(&lines).unwrap();
    for field in line.as_object().unwrap().keys() {
        let name = format!("`{field}`");
        assert!(
            rows(RECORD).any(|cells| cells[0].split(", ").any(|it| it == name)),
            "no row for {name}"
        );
    }
}

#[test]
fn what_the_pages_name_exists() {
    let root = root();
    let mut count = 0;
    let mut missing = Vec::new();
    for (page, text) in pages() {
        let paths = text.split(['(', '`', ' ', '\n', ')', ',', ':', '#']);
        let is_name = |path: &&str| !path.contains(['*', '{', '…']) && !path.contains("NAME");
        for path in paths.filter(is_name) {
            let path = path.trim_start_matches("../");
            if ["src/", "crates/", "tests/", ".ci/"].iter().any(|head| path.starts_with(head)) {
                if !root.join(path).exists() {
                    missing.push(format!("{page}: {path}"));
                }
                count += 1;
            }
        }
        for test in text.split("cargo test --lib ").skip(1) {
            // `cargo test --lib a::b` runs the tests of a module of that path.
            let name = test.split(['`', ' ', '\n']).next().unwrap();
            let module = root.join("src").join(name.replace("::", "/"));
            if !name.is_empty() && !module.is_dir() && !module.with_extension("rs").exists() {
                missing.push(format!("{page}: cargo test --lib {name}"));
            }
        }
        for test in text.split("cargo test --test ").skip(1) {
            let name = test.split(['`', ' ', '\n']).next().unwrap();
            let found = root.join(format!("tests/{name}.rs")).exists()
                || root.join(format!("tests/{name}/main.rs")).exists();
            assert!(found, "{page}: cargo test --test {name}");
            // `cargo test --test it NAME` runs a module of that name.
            let module = test.strip_prefix("it ").or_else(|| test.strip_prefix("process "));
            if let Some(module) = module.and_then(|rest| rest.split(['`', ' ', '\n']).next()) {
                let module = root.join("tests").join(name).join(module);
                let is_there = module.is_dir() || module.with_extension("rs").exists();
                assert!(is_there, "{page}: cargo test --test {name}: {}", module.display());
            }
        }
    }
    assert!(missing.is_empty(), "named, and not there:\n{}", missing.join("\n"));
    assert!(count > 100, "{count} paths: the search has failed");
}

/// A bare name is in the folder of the path before it.
#[test]
fn each_row_of_places_names_what_exists_and_once() {
    let is_path = |span: &&str| {
        span.contains(['/', '.']) && !span.contains([' ', '*', '[']) && !span.contains("NAME")
    };
    let mut count = 0;
    let mut offences = Vec::new();
    for row in PLACES.lines().filter(|line| line.starts_with("| ")) {
        let mut folder = root().to_owned();
        let mut seen = BTreeSet::new();
        for span in row.split('`').skip(1).step_by(2).filter(is_path) {
            let path = if span.contains('/') { root().join(span) } else { folder.join(span) };
            if !path.exists() {
                offences.push(format!("{span} is not there"));
            }
            folder = if path.is_dir() { path.clone() } else { path.with_file_name("") };
            if !seen.insert(path) {
                offences.push(format!("{span} stands twice in one row"));
            }
            count += 1;
        }
    }
    assert!(offences.is_empty(), "where-to-change.md:\n{}", offences.join("\n"));
    assert!(count > 70, "{count} paths: the search has failed");
}
