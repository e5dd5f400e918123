//! Cases written by hand or taken from test suites: each has a file of its own.

use std::io::{BufRead, BufReader};

use courtesy::robots::RobotsTxt;

use crate::conformance::cases::{Case, ask, dialect, open};

#[test]
fn every_table_and_example_of_the_five_documents() {
    run("seeds.jsonl", 638);
}

#[test]
fn every_decision_where_the_documents_are_silent() {
    run("decisions.jsonl", 111);
}

#[test]
fn what_ten_public_suites_assert() {
    run("suites.jsonl", 2_222);
}

#[track_caller]
fn run(name: &str, expected_count: usize) {
    let cases: Vec<Case> = BufReader::new(open(name))
        .lines()
        .map(|line| serde_json::from_str(&line.expect("a readable file")).expect("a case"))
        .collect();
    assert_eq!(cases.len(), expected_count, "{name} is not complete");
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    let passed = cases.len() - failures.len();
    assert!(
        failures.is_empty(),
        "{name}: {passed} of {expected_count} pass\n{}",
        failures.join("\n")
    );
}

fn failure(case: &Case) -> Option<String> {
    let robots = RobotsTxt::parse(&case.robots(), &dialect(&case.profile));
    let answer = ask(&robots, case.token(), &case.url());
    let Case { id, profile, expect, matched_line, why, .. } = case;
    (!case.accepts(answer)).then(|| {
        format!("{id} ({profile}): {answer:?} instead of {:?}: {why}", (expect, matched_line))
    })
}
