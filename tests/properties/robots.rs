//! Any bytes are a robots.txt: reading them never panics in any dialect, every line number is one of
//! the file's, and RFC 9309 decides as the naive reader does.

use courtesy::robots::{Dialect, Path, RobotsTxt};

use super::input::Input;
use super::reader;

const DIALECTS: [Dialect; 5] = [
    Dialect::RFC9309,
    Dialect::GOOGLE,
    Dialect::GOOGLE_2019,
    Dialect::DRAFT_REP_00,
    Dialect::KOSTER_1996,
];

/// A token and a path, each after its length, then the file.
pub fn holds(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (token, path) = (input.bytes(), input.bytes());
    let file = input.0;
    let token = courtesy::types::agent::product_token(token);
    let path = [b"/", path].concat();

    let lines = file.iter().filter(|byte| b"\r\n".contains(byte)).count() as u32 + 1;
    for dialect in &DIALECTS {
        let robots = RobotsTxt::parse(file, dialect);
        let rule = robots.group(token).and_then(|group| group.rule_for(&Path::new(&path, dialect)));
        assert!(rule.is_none_or(|rule| (1..=lines).contains(&rule.line)));
        assert!(robots.records().all(|record| (1..=lines).contains(&record.line)));
        assert!(robots.ignored_lines().all(|ignored| (1..=lines).contains(&ignored.line)));
        assert!(robots.ignored_lines().count() <= robots.ignored_count());
        assert!(robots.weight() <= 1_000 + 40 * file.len(), "what is kept is in proportion");
    }

    let robots = RobotsTxt::parse(file, &Dialect::RFC9309);
    let decided =
        robots.group(token).and_then(|group| group.rule_for(&Path::new(&path, robots.dialect())));
    let decided = decided.map(|rule| (rule.line, rule.directive));
    assert_eq!(decided, reader::decide(file, token, &path));
}
