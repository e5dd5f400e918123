//! Real robots.txt files, each asked about a matrix of crawlers and URLs.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};

use courtesy::robots::RobotsTxt;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cases::{Verdict, ask, dialect, octets, open};

const FILES: usize = 3_837;
const ANSWERS_PER_DIALECT: usize = 369_274;
/// Failures that are worth printing.
const PRINTED_MAX: usize = 20;

#[derive(Deserialize)]
struct File {
    f: String,
    robots: Option<String>,
    robots_b64: Option<String>,
}

/// `google` and `rfc9309` are the rows of the matrix, one agent after the other: a letter for each URL.
#[derive(Deserialize)]
struct Matrix {
    f: String,
    agents: Vec<String>,
    urls: Vec<String>,
    google: String,
    rfc9309: String,
}

#[test]
fn answers_of_googles_matcher_about_real_files() {
    run("google", |matrix| &matrix.google);
}

#[test]
fn answers_by_rfc9309_about_real_files() {
    run("rfc9309", |matrix| if matrix.rfc9309 == "=" { &matrix.google } else { &matrix.rfc9309 });
}

#[track_caller]
fn run(profile: &str, answers: fn(&Matrix) -> &str) {
    let files: HashMap<String, File> =
        lines("real-files.jsonl.gz").map(|file: File| (file.f.clone(), file)).collect();
    assert_eq!(files.len(), FILES, "the real files are not complete");
    let dialect = dialect(profile);
    let (mut asked, mut failures) = (0, Vec::new());
    for matrix in lines::<Matrix>("real-cases.jsonl.gz") {
        let file = &files[&matrix.f];
        let robots = RobotsTxt::parse(&octets(&file.robots, &file.robots_b64, &None), &dialect);
        let questions =
            matrix.agents.iter().flat_map(|agent| matrix.urls.iter().map(move |url| (agent, url)));
        let expected = answers(&matrix).bytes();
        assert_eq!(expected.len(), matrix.agents.len() * matrix.urls.len(), "{}", matrix.f);
        for ((agent, url), expected) in questions.zip(expected) {
            let (verdict, line) = ask(&robots, Some(agent), url.as_bytes());
            asked += 1;
            if (verdict == Verdict::Allow) != (expected == b'A') {
                failures.push(format!("{} {agent} {url}: {verdict:?} by line {line:?}", matrix.f));
            }
        }
    }
    let passed = asked - failures.len();
    failures.truncate(PRINTED_MAX);
    assert!(failures.is_empty(), "{profile}: {passed} of {asked} pass\n{}", failures.join("\n"));
    assert_eq!(asked, ANSWERS_PER_DIALECT, "the real cases are not complete");
}

fn lines<T: DeserializeOwned>(name: &str) -> impl Iterator<Item = T> {
    BufReader::new(GzDecoder::new(open(name))).lines().map(|line| {
        serde_json::from_str(&line.expect("a readable file")).expect("a line of the expected form")
    })
}
