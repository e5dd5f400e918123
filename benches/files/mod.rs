//! Files and questions about them: the real ones of `tests/conformance`, and hostile ones.

#[path = "../../tests/testkit/stored.rs"]
mod stored;

use courtesy::robots::path_of_url;
use stored::Matrix;

/// The crawler that asks where it is of no interest which.
pub const TOKEN: &str = "polite-crawler";

/// Lines, groups or rules of a hostile file: about as many as 500 KiB have room for.
const HOSTILE_LINES: usize = 24_000;
const HOSTILE_PATH_BYTES: usize = 8 * 1024;

/// A robots.txt, and what each crawler may have.
pub struct File {
    pub name: String,
    /// The few files that are not UTF-8 are made so: one of the other crates reads nothing else.
    pub text: String,
    pub paths: Vec<String>,
    pub agents: Vec<Agent>,
}

/// A crawler, and for each of the paths whether it is allowed, as RFC 9309 has it.
pub struct Agent {
    pub token: String,
    pub answers: Vec<bool>,
}

/// The real files, with the questions and answers of `tests/it/conformance/real.rs`.
pub fn real() -> Vec<File> {
    let files = stored::files();
    stored::matrices().map(|matrix| file(&matrix, &files[&matrix.f])).collect()
}

fn file(matrix: &Matrix, bytes: &[u8]) -> File {
    let answers: Vec<bool> = matrix.rfc9309().bytes().map(|answer| answer == b'A').collect();
    let answers = answers.chunks(matrix.urls.len()).map(<[bool]>::to_vec);
    let path = |url: &String| String::from_utf8_lossy(&path_of_url(url.as_bytes())).into_owned();
    let agent = |(token, answers): (&String, Vec<bool>)| Agent { token: token.clone(), answers };
    File {
        name: matrix.f.clone(),
        text: String::from_utf8_lossy(bytes).into_owned(),
        paths: matrix.urls.iter().map(path).collect(),
        agents: matrix.agents.iter().zip(answers).map(agent).collect(),
    }
}

/// Files made to be dear, each with the path that makes it so.
pub fn hostile() -> Vec<File> {
    let long = |piece: &str| format!("/{}", piece.repeat(HOSTILE_PATH_BYTES / piece.len()));
    let rules = |pattern: &dyn Fn(usize) -> String| rules((0..HOSTILE_LINES).map(pattern));
    vec![
        one("24,000 rules", rules(&|n| format!("/section/{n}/")), "/section/x/page.html"),
        one("24,000 rules alike for 8 KB", rules(&|n| format!("/section/{n}/")), &long("section/")),
        one("200 stars, 8 KB path", rules_of_one(&format!("/{}b", "*a".repeat(200))), &long("a")),
        one("24,000 wildcard rules", rules(&|n| format!("/*a{n}*b$")), "/section/a/page.html?a=1"),
        one("24,000 wildcard rules, 8 KB path", rules(&|n| format!("/*aab{n}")), &long("ab")),
        one("24,000 groups of one agent", groups(), "/section/x/page.html"),
    ]
}

/// None of these files has a rule that matches its path.
fn one(name: &str, text: String, path: &str) -> File {
    let agents = vec![Agent { token: TOKEN.to_owned(), answers: vec![true] }];
    File { name: name.to_owned(), text, paths: vec![path.to_owned()], agents }
}

fn rules_of_one(pattern: &str) -> String {
    rules(std::iter::once(pattern.to_owned()))
}

fn rules(patterns: impl Iterator<Item = String>) -> String {
    let lines = patterns.map(|pattern| format!("disallow: {pattern}\n"));
    std::iter::once("user-agent: *\n".to_owned()).chain(lines).collect()
}

fn groups() -> String {
    (0..HOSTILE_LINES).map(|n| format!("user-agent: *\ndisallow: /{n}\n")).collect()
}
