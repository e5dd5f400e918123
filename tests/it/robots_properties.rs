//! The engine against naive readings of the same rules, on generated files and paths.

use courtesy::robots::{Dialect, Directive, Path, RobotsTxt, STEPS_MAX, Steps, Verdict};
use proptest::prelude::*;

use crate::properties::naive::{self, Rule};
use crate::testkit::hostile;

const DIALECTS: [Dialect; 5] = [
    Dialect::RFC9309,
    Dialect::GOOGLE,
    Dialect::GOOGLE_2019,
    Dialect::DRAFT_REP_00,
    Dialect::KOSTER_1996,
];

/// Few characters, so that rules match; whole triplets and halves of them, so that they meet.
const PATTERN: &str =
    "[/*](a|b|/|\\?|\\*|\\*|\\$|:|%|2|F|\"|é|%2[fF]|%3F|%61|%25|%2[A4]|%3a|%22|%C3%A9){0,8}\\$?";
const PATH: &str =
    "/(a|b|/|\\?|\\*|\\$|:|%|2|F|\"|é|%2[fF]|%3F|%61|%25|%2[A4]|%3a|%22|%C3%A9){0,10}";

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let directive = prop_oneof![Just(Directive::Allow), Just(Directive::Disallow)];
    let rule = (directive, PATTERN)
        .prop_map(|(directive, pattern)| Rule { directive, pattern: pattern.into() });
    prop::collection::vec(rule, 1..5)
}

/// The file that has these rules, all in one group; or each in a group of its own, which is the same.
fn file(rules: &[Rule], groups: bool) -> String {
    let begin = "user-agent: *\n";
    let lines = rules.iter().map(|rule| {
        let group = if groups { begin } else { "# no group\n" };
        format!("{group}{:?}: {}\n", rule.directive, String::from_utf8_lossy(&rule.pattern))
    });
    std::iter::once(begin.to_owned()).chain(lines).collect()
}

fn decide(robots: &RobotsTxt, path: &[u8]) -> Option<(u32, Directive)> {
    let rule = robots.group(None)?.rule_for(&Path::new(path, robots.dialect()))?;
    Some((rule.line, rule.directive))
}

fn agrees(
    rules: &[Rule],
    path: &str,
    dialect: &Dialect,
    naive: naive::Reading,
) -> Result<(), TestCaseError> {
    // The n-th rule, from 0, stands on line 2n + 3.
    let expected = naive::decide(rules, path.as_bytes(), naive)
        .map(|(n, directive)| (n as u32 * 2 + 3, directive));
    for groups in [false, true] {
        let robots = RobotsTxt::parse(file(rules, groups).as_bytes(), dialect);
        prop_assert_eq!(decide(&robots, path.as_bytes()), expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn rfc9309_agrees_with_a_naive_matcher(rules in rules(), path in PATH) {
        agrees(&rules, &path, &Dialect::RFC9309, naive::Reading::Rfc9309)?;
    }

    /// The ending is past the `?`: no dot segment can follow there.
    #[test]
    fn what_decides_on_a_beginning_decides_whatever_follows(
        rules in rules(), begin in "/(a|b|/|%2F|%61|é){0,4}\\?(a|b|/|%2F|%3F|=){0,4}", end in PATH,
        dialect in prop::sample::select(DIALECTS.to_vec()),
    ) {
        let robots = RobotsTxt::parse(file(&rules, true).as_bytes(), &dialect);
        let group = robots.group(None).expect("the file has one");
        if let Some(foreseen) = group.rule_for_beginning(&Path::new(begin.as_bytes(), &dialect)) {
            let foreseen = foreseen.map(|rule| (rule.line, rule.directive));
            prop_assert_eq!(decide(&robots, format!("{begin}{end}").as_bytes()), foreseen);
        }
    }

    /// Where `/` and `?` are not `%2F` and `%3F`, and where they are: before the `?`, across it, after it.
    #[test]
    fn rfc9309_agrees_about_encoded_slashes(
        pattern in "/a?\\*{0,2}(a|/|%2F|%3F){0,2}\\??\\*?(a|/|%2F|%3F){0,2}\\*?(%2F|%3F)?\\$?",
        path in "/(a|/|%2F|%3F){0,2}\\?(a|/|\\?|%2F|%3F){0,4}",
    ) {
        let rule = Rule { directive: Directive::Disallow, pattern: pattern.into() };
        agrees(&[rule], &path, &Dialect::RFC9309, naive::Reading::Rfc9309)?;
    }

    #[test]
    fn google_agrees_with_a_naive_matcher(rules in rules(), path in PATH) {
        let dialect = Dialect { index_allows_directory: false, ..Dialect::GOOGLE };
        agrees(&rules, &path, &dialect, naive::Reading::Google)?;
    }

    #[test]
    fn equivalent_spellings_of_a_url_are_decided_alike(rules in rules(), path in PATH, upper in any::<bool>()) {
        let robots = RobotsTxt::parse(file(&rules, false).as_bytes(), &Dialect::RFC9309);
        let respelled = naive::respell(path.as_bytes(), upper);
        prop_assert_eq!(decide(&robots, path.as_bytes()), decide(&robots, respelled.as_bytes()), "{}", respelled);
    }

    #[test]
    fn any_bytes_are_a_robots_txt_and_any_a_path(
        body in prop::collection::vec(any::<u8>(), 0..400),
        path in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        reads(&body, &path)?;
    }

    #[test]
    fn line_like_bytes_are_parsed_without_panic(
        body in "((user-agent|allow|Disallow|sitemap|x)(:| )[*/$%a-c\u{0}\u{1}\t-]{0,6}[#\r\n\u{feff}]{0,2}){0,12}",
        path in "[/*?%$a-c\u{1}]{0,6}",
    ) {
        reads(body.as_bytes(), path.as_bytes())?;
    }
}

/// Neither reading nor deciding panics, and what is kept is in proportion to what was read.
fn reads(body: &[u8], path: &[u8]) -> Result<(), TestCaseError> {
    for dialect in &DIALECTS {
        let robots = RobotsTxt::parse(body, dialect);
        let lines = body.iter().filter(|byte| b"\r\n".contains(byte)).count() as u32 + 1;
        for token in [None, Some("a-b"), Some("x1")] {
            let rule =
                robots.group(token).and_then(|group| group.rule_for(&Path::new(path, dialect)));
            prop_assert!(rule.is_none_or(|rule| (1..=lines).contains(&rule.line)));
        }
        prop_assert!(robots.records().all(|record| (1..=lines).contains(&record.line)));
        prop_assert!(robots.ignored_lines().count() <= robots.ignored_count());
        prop_assert!(robots.weight() <= 1_000 + 40 * body.len());
    }
    Ok(())
}

/// Enough rules with wildcards that their literals are searched for at once, after few of them.
const FILLERS: usize = 300;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn among_many_rules_the_same_one_decides(
        rules in prop::collection::vec("/\\*(a|b|\\*|%2F|\\?){1,6}\\$?", 1..60), path in "/(a|b|%2F|/|\\?){0,30}",
    ) {
        let rule = |pattern: &String| Rule { directive: Directive::Disallow, pattern: pattern.clone().into() };
        let rules: Vec<Rule> = rules.iter().map(rule).collect();
        let few = file(&rules, false);
        // They are tried before the others, as far as they may match, and do not.
        let fillers: String = (0..FILLERS).map(|n| format!("disallow: /*{}bba$\n", "ab".repeat(20 + n % 20))).collect();
        let decided = [few.clone(), few + &fillers].map(|file| {
            let robots = RobotsTxt::parse(file.as_bytes(), &Dialect::RFC9309);
            decide(&robots, path.as_bytes())
        });
        prop_assert_eq!(decided[0], decided[1]);
        prop_assert_eq!(decided[0], naive::decide(&rules, path.as_bytes(), naive::Reading::Rfc9309).map(|(n, directive)| (n as u32 * 2 + 3, directive)));
    }
}

/// What a decision about each of them takes, and whether it comes to one.
#[test]
fn l7_no_file_and_path_take_more_steps_than_a_decision_may() {
    let shapes = hostile::shapes();
    assert_eq!(shapes.len(), 25);
    for shape in shapes {
        let robots = RobotsTxt::parse(shape.file.as_bytes(), &Dialect::RFC9309);
        let group = robots.group(None).expect("a group for everybody");
        let path = Path::new(shape.path.as_bytes(), robots.dialect());
        let mut steps = Steps::of_decision();
        let decided = group.rule_within(&path, &mut steps);
        // The one search that is beyond it may pass over the whole of the path.
        let most = STEPS_MAX + 10 * shape.path.len() as u64;
        println!(
            "{}: {} steps, {decided:?}, {} bytes kept",
            shape.name,
            steps.spent(),
            robots.weight()
        );
        assert!(steps.spent() <= most, "{}: {}", shape.name, steps.spent());
        assert_ne!(decided.map(|rule| rule.is_some()), Ok(true), "{}", shape.name);
        assert!(robots.weight() <= 20 * shape.file.len(), "{}: {}", shape.name, robots.weight());
        // By a count alone: it comes out the same each time.
        let mut again = Steps::of_decision();
        assert_eq!((group.rule_within(&path, &mut again), again.spent()), (decided, steps.spent()));
    }
}

#[test]
fn l7_what_takes_too_many_steps_is_denied_and_says_so() {
    let shape = hostile::shapes()
        .into_iter()
        .find(|shape| shape.name == "short words")
        .expect("it is there");
    let robots = RobotsTxt::parse(shape.file.as_bytes(), &Dialect::RFC9309);
    let decision = robots.decide(None, shape.path.as_bytes());
    assert_eq!(decision.verdict, Verdict::Disallow);
    assert_eq!(decision.basis.word(), "undecided");
    let expected = "the rules of the group \"*\" (line 1) take too many steps for this URL";
    assert_eq!(decision.basis.to_string(), expected);
}
