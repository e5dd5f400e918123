//! Asks this crate, `robotxt` and `texting_robots` the same questions, and prints who answered as the
//! RFC does: the tables and examples of RFC 9309 themselves, and what ten public test suites assert of
//! it (`tests/conformance` of the repository, which no package has).
//!
//! `cargo run -p courtesy-robots --example compare`

use std::fmt::Write as _;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use courtesy_robots::{Dialect, RobotsTxt, Verdict, path_of_url};
use serde_json::Value;

/// A question of one source, and its answer.
struct Case {
    robots: String,
    token: String,
    path: String,
    is_allowed: bool,
}

type Engine = fn(&Case) -> bool;

const ENGINES: [(&str, Engine); 3] = [
    ("courtesy-robots", |case| {
        let robots = RobotsTxt::parse(case.robots.as_bytes(), &Dialect::RFC9309);
        robots.decide(Some(&case.token), case.path.as_bytes()).verdict == Verdict::Allow
    }),
    ("robotxt", |case| {
        robotxt::Robots::parse(case.robots.as_bytes(), case.token.as_str()).is_allowed(&case.path)
    }),
    ("texting_robots", |case| {
        texting_robots::Robot::new(&case.token, case.robots.as_bytes())
            .expect("it takes the file")
            .allowed(&case.path)
    }),
];

/// The cases of `file` about RFC 9309 whose source begins with `source`, as far as they are text.
fn cases(file: &str, source: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let values = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a case"));
    let of_source = |case: &Value| {
        case["profile"] == "rfc9309"
            && case["agent_kind"] == "token"
            && case["source"].as_str().is_some_and(|name| name.starts_with(source))
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let case = |case: Value| {
        let url = text(&case["url"])?;
        Some(Case {
            robots: text(&case["robots"])?,
            token: text(&case["agent"])?,
            path: String::from_utf8(path_of_url(url.as_bytes()).into_owned()).ok()?,
            is_allowed: case["expect"] == "allow",
        })
    };
    values.filter(of_source).filter_map(case).collect()
}

fn main() {
    // Files on which an engine panics are wrong answers, without a word on the terminal.
    std::panic::set_hook(Box::new(|_| {}));
    println!(
        "{:<28}{:>7}{:>17}{:>10}{:>16}",
        "", "asked", ENGINES[0].0, ENGINES[1].0, ENGINES[2].0
    );
    let mut wrong = String::new();
    for (name, file, source) in [
        ("RFC 9309 itself", "seeds.jsonl", "seed 000"),
        ("ten public test suites", "suites.jsonl", ""),
    ] {
        let cases = cases(file, source);
        let right = ENGINES.map(|(engine, asks)| {
            let is_right = |case: &&Case| {
                let answer = catch_unwind(|| asks(case));
                let is_right = answer.as_ref().is_ok_and(|answer| *answer == case.is_allowed);
                if !is_right && source == "seed 000" {
                    let Case { robots, token, path, is_allowed } = case;
                    let right = if *is_allowed { "allow" } else { "disallow" };
                    writeln!(wrong, "{engine}: {path} for {token} is to be {right} by {robots:?}")
                        .expect("text");
                }
                is_right
            };
            cases.iter().filter(is_right).count()
        });
        println!("{name:<28}{:>7}{:>17}{:>10}{:>16}", cases.len(), right[0], right[1], right[2]);
    }
    print!("\nWrong about RFC 9309 itself:\n{wrong}");

    let robots = "User-agent: *\nAllow: /p\nDisallow: /private/\n";
    let case = Case {
        robots: robots.to_owned(),
        token: "ExampleBot".to_owned(),
        path: "/private/a".to_owned(),
        is_allowed: false,
    };
    println!("\nWhat each says of {} by {robots:?}:", case.path);
    let file = RobotsTxt::parse(robots.as_bytes(), &Dialect::RFC9309);
    let decision = file.decide(Some(&case.token), case.path.as_bytes());
    println!("{}: {}, {}", ENGINES[0].0, decision.verdict, decision.basis);
    for (engine, asks) in &ENGINES[1..] {
        println!("{engine}: allowed = {}", asks(&case));
    }
}
