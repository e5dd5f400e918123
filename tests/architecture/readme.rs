//! The README says what the code does: its tables are held against the code they describe.

use courtesy::audit::{AgentSource, Client, Content, Event, Head, Profile, Reason, Record};
use courtesy::proxy::Problem;
use courtesy::types::timestamp::Timestamp;

const README: &str = include_str!("../../README.md");

/// The cells of every table row that begins with a code span.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    README
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

#[test]
fn every_problem_type_is_in_the_readme_with_its_meaning() {
    for problem in Problem::ALL {
        let row = problem.row();
        let name = format!("`{}`", row.name);
        let found =
            rows().find(|cells| cells[0] == name).unwrap_or_else(|| panic!("no row for {name}"));
        assert_eq!(found.last(), Some(&row.meaning), "{name}");
    }
}

#[test]
fn every_field_of_the_record_is_in_the_readme() {
    let record = Record {
        agent: None,
        agent_source: AgentSource::Absent,
        client: Client { address: [127, 0, 0, 1].into(), name: None },
        event: Event::Denied,
        exemption: None,
        group: None,
        id: String::new(),
        method: String::new(),
        node: Some("".into()),
        origin: String::new(),
        path_seen: true,
        prev: String::new(),
        profile: Profile { name: String::new(), settings: Default::default(), version: 1 },
        reason: Reason::DisallowRule,
        robots: None,
        rule: None,
        seq: 0,
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
        assert!(rows().any(|cells| cells[0].split(", ").any(|it| it == name)), "no row for {name}");
    }
}

#[test]
fn what_the_readme_names_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let paths = README
        .split(['(', '`', ' ', '\n', ')'])
        .filter(|word| ["src/", "tests/", ".ci/"].iter().any(|head| word.starts_with(head)));
    let mut count = 0;
    for path in paths {
        assert!(root.join(path).exists(), "{path}");
        count += 1;
    }
    assert!(count > 5, "no paths were found in the README");
    for test in README.split("cargo test --test ").skip(1) {
        let name = test.split(['`', ' ']).next().unwrap();
        let found = root.join(format!("tests/{name}.rs")).exists()
            || root.join(format!("tests/{name}/main.rs")).exists();
        assert!(found, "cargo test --test {name}");
        // `cargo test --test it NAME` runs a module of that name.
        if let Some(module) = test.strip_prefix("it ") {
            let module = module.split('`').next().unwrap();
            assert!(
                root.join(format!("tests/it/{module}.rs")).exists(),
                "cargo test --test it {module}"
            );
        }
    }
}
