//! The compiled pattern decides as the naive matcher does, in RFC 9309's reading and in Google's; a URL
//! spelt in another way is decided alike; what decides about a beginning decides whatever follows.

use courtesy::robots::{Dialect, Directive, Path, RobotsTxt};

use super::naive::{self, Reading, Rule};

const PATTERNS_MAX: usize = 8;

/// The path, then a pattern on each line, allowed and disallowed in turn.
pub fn holds(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| b"\r\n".contains(byte));
    let path = [b"/", lines.next().unwrap_or_default()].concat();
    let directives = [Directive::Disallow, Directive::Allow].into_iter().cycle();
    let patterns = lines.map(fit).filter(|pattern| matches!(pattern.first(), Some(b'/' | b'*')));
    let rules: Vec<Rule> = patterns
        .zip(directives)
        .take(PATTERNS_MAX)
        .map(|(pattern, directive)| Rule { directive, pattern })
        .collect();

    agrees(&rules, &path, &Dialect::RFC9309, Reading::Rfc9309);
    let google = Dialect { index_allows_directory: false, ..Dialect::GOOGLE };
    agrees(&rules, &path, &google, Reading::Google);

    let robots = RobotsTxt::parse(&file(&rules), &Dialect::RFC9309);
    for upper in [false, true] {
        let respelled = naive::respell(&path, upper);
        assert_eq!(decide(&robots, &path), decide(&robots, respelled.as_bytes()), "{respelled}");
    }
    if path.contains(&b'?') {
        foresees(&robots, &path);
    }
}

/// A path with a `?`: no dot segment can follow.
fn foresees(robots: &RobotsTxt, path: &[u8]) {
    let query = path.iter().position(|byte| *byte == b'?').expect("there is one");
    let decided = decide(robots, path);
    for end in query + 1..path.len() {
        // The bytes of a triplet are not parted: `%2` and `F` are not what `%2F` is.
        if path[..end].ends_with(b"%") || path[..end - 1].ends_with(b"%") {
            continue;
        }
        let begin = Path::new(&path[..end], robots.dialect());
        if let Some(foreseen) =
            robots.group(None).and_then(|group| group.rule_for_beginning(&begin))
        {
            assert_eq!(
                decided,
                foreseen.map(|rule| (rule.line, rule.directive)),
                "after {end} bytes"
            );
        }
    }
}

fn agrees(rules: &[Rule], path: &[u8], dialect: &Dialect, reading: Reading) {
    // The n-th rule, from 0, stands on line n + 2.
    let expected =
        naive::decide(rules, path, reading).map(|(n, directive)| (n as u32 + 2, directive));
    let robots = RobotsTxt::parse(&file(rules), dialect);
    assert_eq!(decide(&robots, path), expected, "{rules:?}, {reading:?}");
}

fn decide(robots: &RobotsTxt, path: &[u8]) -> Option<(u32, Directive)> {
    let rule = robots.group(None)?.rule_for(&Path::new(path, robots.dialect()))?;
    Some((rule.line, rule.directive))
}

fn file(rules: &[Rule]) -> Vec<u8> {
    let mut file = b"user-agent: *\n".to_vec();
    for rule in rules {
        file.extend(match rule.directive {
            Directive::Allow => &b"allow: "[..],
            Directive::Disallow => b"disallow: ",
        });
        file.extend(&rule.pattern);
        file.push(b'\n');
    }
    file
}

/// Without what would be no part of a pattern on a line of a file.
fn fit(line: &[u8]) -> Vec<u8> {
    line.iter().copied().filter(|byte| !byte.is_ascii_control() && !b" #".contains(byte)).collect()
}
