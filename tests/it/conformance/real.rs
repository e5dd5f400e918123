//! Real robots.txt files, each asked about a matrix of crawlers and URLs.

use courtesy::robots::RobotsTxt;

use crate::conformance::cases::{Verdict, ask, dialect};
use crate::testkit::stored::{self, Matrix};

const FILES: usize = 3_837;
const ANSWERS_PER_DIALECT: usize = 369_274;
/// Failures that are worth printing.
const PRINTED_MAX: usize = 20;

#[test]
fn answers_of_googles_matcher_about_real_files() {
    run("google", Matrix::google);
}

#[test]
fn answers_by_rfc9309_about_real_files() {
    run("rfc9309", Matrix::rfc9309);
}

#[track_caller]
fn run(profile: &str, answers: fn(&Matrix) -> &str) {
    let files = stored::files();
    assert_eq!(files.len(), FILES, "the real files are not complete");
    let dialect = dialect(profile);
    let (mut asked, mut failures) = (0, Vec::new());
    for matrix in stored::matrices() {
        let robots = RobotsTxt::parse(&files[&matrix.f], &dialect);
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
