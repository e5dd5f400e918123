//! The meaning of a robots.txt by section of RFC 9309; then the project's own decisions. The many
//! cases are in `tests/conformance`; these are the ones to read.

use super::Directive::{Allow, Disallow};
use super::{Dialect, Directive, IgnoredBecause, Path, RobotsTxt, WholeSite};

/// The decision for the crawler `zebra`: the line of the rule and its effect; `None` if no rule
/// decides.
#[track_caller]
fn decides(robots: &str, path: &str, expected: impl Into<Option<(u32, Directive)>>) {
    decides_as(&Dialect::RFC9309, robots, "zebra", path, expected);
}

#[track_caller]
fn decides_as(
    dialect: &Dialect,
    robots: &str,
    token: &str,
    path: &str,
    expected: impl Into<Option<(u32, Directive)>>,
) {
    let robots = RobotsTxt::parse(robots.as_bytes(), dialect);
    let rule = robots
        .group(Some(token))
        .and_then(|group| group.rule_for(&Path::new(path.as_bytes(), dialect)));
    assert_eq!(rule.map(|rule| (rule.line, rule.directive)), expected.into(), "{path}");
}

mod section_2_2_1_the_user_agent_line {
    use super::*;

    #[test]
    fn groups_of_one_token_are_one_group_in_any_case() {
        let robots = "user-agent: ZEBRA\ndisallow: /a\n\nuser-agent: lion\nuser-agent: Zebra\ndisallow: /b\n";
        decides(robots, "/a", (2, Disallow));
        decides(robots, "/b", (6, Disallow));
    }

    #[test]
    fn a_token_is_neither_prefix_nor_substring() {
        decides("user-agent: zebra-images\nuser-agent: z\ndisallow: /\n", "/", None);
    }

    #[test]
    fn the_default_group_is_for_those_without_one_of_their_own() {
        let robots = "user-agent: *\ndisallow: /\n\nuser-agent: lion\n";
        decides(robots, "/", (2, Disallow));
        decides_as(&Dialect::RFC9309, robots, "lion", "/", None);
    }

    #[test]
    fn without_a_token_only_the_default_group_applies() {
        let robots = RobotsTxt::parse(b"user-agent: a\nuser-agent: *\n", &Dialect::RFC9309);
        let group = robots.group(None).expect("the default group");
        assert_eq!((group.name(), group.line()), ("*", 2));
        assert!(RobotsTxt::parse(b"user-agent: a\n", &Dialect::RFC9309).group(None).is_none());
    }

    #[test]
    fn a_group_is_named_as_the_file_names_it() {
        let robots =
            RobotsTxt::parse(b"user-agent: *\n\nUser-Agent: ZeBra/1.0\n", &Dialect::RFC9309);
        let group = robots.group(Some("zebra")).expect("a group of its own");
        assert_eq!((group.name(), group.line()), ("ZeBra", 3));
    }
}

mod section_2_2_2_allow_and_disallow {
    use super::*;

    #[test]
    fn the_most_bytes_decide_and_allow_between_equals() {
        let robots = "user-agent: *\ndisallow: /a/b\nallow: /a\nallow: /a/b\ndisallow: /a/b/c\n";
        decides(robots, "/a/x", (3, Allow));
        decides(robots, "/a/b", (4, Allow));
        decides(robots, "/a/b/c", (5, Disallow));
        decides(robots, "/b", None);
    }

    #[test]
    fn percent_encoding_is_compared_by_value() {
        let robots = "user-agent: *\ndisallow: /%62%61%7A\ndisallow: /ツ\ndisallow: /x?u=http://\n";
        decides(robots, "/baz", (2, Disallow));
        decides(robots, "/%E3%83%84", (3, Disallow));
        decides(robots, "/x?u=http%3A%2F%2F", (4, Disallow));
    }
}

mod section_2_2_3_special_characters {
    use super::*;

    #[test]
    fn a_star_is_any_bytes_and_a_final_dollar_the_end() {
        let robots = "user-agent: *\ndisallow: /*.php$\ndisallow: /a/*/b\n";
        decides(robots, "/x.php", (2, Disallow));
        decides(robots, "/x.php.php", (2, Disallow));
        decides(robots, "/x.php?", None);
        decides(robots, "/a//b/c", (3, Disallow));
        decides(robots, "/a/b", None);
    }

    #[test]
    fn an_encoded_star_or_dollar_is_literal() {
        let robots = "user-agent: *\ndisallow: /%2A\ndisallow: /b%24\n";
        decides(robots, "/*", (2, Disallow));
        decides(robots, "/a", None);
        decides(robots, "/b$c", (3, Disallow));
    }
}

mod our_choices {
    use super::*;

    #[test]
    fn one_parsed_copy_can_serve_every_worker() {
        fn is_shared<T: Send + Sync + 'static>() {}
        is_shared::<RobotsTxt>();
    }

    #[test]
    fn an_encoded_slash_is_a_slash_in_the_query_but_not_in_the_path() {
        let robots = "user-agent: *\ndisallow: /*%2Fb\n";
        decides(robots, "/a/b", None);
        decides(robots, "/a%2fb", (2, Disallow));
        decides(robots, "/?a/b", (2, Disallow));
    }

    #[test]
    fn a_percent_sign_that_encodes_nothing_is_no_part_of_a_triplet() {
        let robots = "user-agent: *\ndisallow: /%\ndisallow: /a*41\n";
        decides(robots, "/%zz", (2, Disallow));
        decides(robots, "/%25", None);
        decides(robots, "/a%%341", (3, Disallow));
        decides(robots, "/a%C3%B1%F4%10", None);
    }

    #[test]
    fn a_record_of_another_kind_does_not_end_a_run_of_user_agent_lines() {
        let robots = "user-agent: zebra\ncrawl-delay: 5\nuser-agent: lion\ndisallow: /a\n";
        decides(robots, "/a", (4, Disallow));
        decides_as(&Dialect::GOOGLE_2019, robots, "zebra", "/a", None);
    }

    #[test]
    fn lines_without_effect_are_kept_with_the_reason() {
        let body =
            "allow: /\nuser-agent: *\nnonsense\ndisalow: /\ndisallow: a\n# fine\ndisallow:\n";
        let robots = RobotsTxt::parse(body.as_bytes(), &Dialect::RFC9309);
        let ignored: Vec<_> =
            robots.ignored_lines().map(|ignored| (ignored.line, ignored.because)).collect();
        let expected = [
            (1, IgnoredBecause::OutsideGroups),
            (3, IgnoredBecause::NoRecord),
            (4, IgnoredBecause::UnknownKey),
            (5, IgnoredBecause::MatchesNothing),
        ];
        assert_eq!(ignored, expected);
    }

    #[test]
    fn of_very_many_ignored_lines_the_first_are_kept_and_all_counted() {
        let robots = RobotsTxt::parse("<p>\n".repeat(10_000).as_bytes(), &Dialect::RFC9309);
        assert_eq!((robots.ignored_lines().count(), robots.ignored_count()), (100, 10_000));
    }

    #[test]
    fn other_records_can_be_read_of_the_file_and_of_a_group() {
        let body =
            "Sitemap: /s.xml\nuser-agent: a\nCrawl-Delay: 5 # s\n\nuser-agent: *\ncrawl-delay: 9\n";
        let robots = RobotsTxt::parse(body.as_bytes(), &Dialect::RFC9309);
        let all: Vec<_> =
            robots.records().map(|record| (record.line, record.key, record.value)).collect();
        let expected =
            [(1, "sitemap", &b"/s.xml"[..]), (3, "crawl-delay", b"5"), (6, "crawl-delay", b"9")];
        assert_eq!(all, expected);
        // For rules this is one run of user-agent lines; a delay belongs to those immediately
        // before it.
        let lines = |token| -> Vec<u32> {
            robots
                .group(token)
                .into_iter()
                .flat_map(|group| group.records())
                .map(|record| record.line)
                .collect()
        };
        assert_eq!(lines(Some("a")), [3]);
        assert_eq!(lines(None), [6]);
    }

    #[test]
    fn a_whole_site_is_decided_only_where_no_path_could_differ() {
        let whole_site = |rules: &str| {
            let robots =
                RobotsTxt::parse(format!("user-agent: *\n{rules}").as_bytes(), &Dialect::RFC9309);
            robots.group(None).expect("a group").whole_site()
        };
        assert_eq!(whole_site(""), WholeSite::Allowed);
        assert_eq!(whole_site("disallow:\nallow: /a\n"), WholeSite::Allowed);
        assert_eq!(whole_site("disallow: /a\ndisallow: /*\n"), WholeSite::Disallowed);
        assert_eq!(whole_site("disallow: /\nallow: /a\n"), WholeSite::Mixed);
        assert_eq!(whole_site("disallow: /$\n"), WholeSite::Mixed);
    }
}
