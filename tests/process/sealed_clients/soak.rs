//! Scrapy with 200 requests at a time in a sealed run, for as long as `COURTESY_TEST_SOAK` says:
//! nothing fails, and no descriptor, mount, process or file is left.

use std::time::Duration;

use super::in_world;

/// What the proxy may have open at the end beside what it had before: files of records have grown.
const DESCRIPTORS_SLACK: usize = 8;

/// What its memory may grow by, in KiB: that of records and of what is known of the origin.
const GROWTH_KIB: usize = 32 << 10;

const SOAK: &str = include_str!("soak.sh");

#[test]
fn a_crawl_with_200_requests_at_a_time_leaves_nothing() {
    let seconds = length().as_secs();
    let ended = in_world(&format!("SECONDS_LONG={seconds}"), SOAK);
    println!("{}", ended.said);
    ended.has("ended 0");
    ended.has("nothing is left");
    assert!(ended.said.contains("packets 0 bytes 0"), "other packets left: {}", ended.said);
    let [before, after] = ["before", "after"].map(|when| looked(&ended.said, when));
    assert!(before[0] > 20 && before[1] > 4096, "not the proxy: {}", ended.said);
    assert!(after[0] <= before[0] + DESCRIPTORS_SLACK, "{}", ended.said);
    assert!(after[1] <= before[1] + GROWTH_KIB, "{}", ended.said);
    let crawls: Vec<_> = ended.said.lines().filter(|line| line.starts_with("200: ")).collect();
    assert_eq!(crawls.len(), 2, "{}", ended.said);
    assert!(crawls.iter().all(|crawl| crawl.ends_with(", failed: 0")), "{}", ended.said);
    let denied: usize = crawls.iter().filter_map(|crawl| numbers(crawl).get(3).copied()).sum();
    assert_eq!(ended.records("denied").len(), denied, "a record for each 403: {}", ended.said);
    let around = ended.served.iter().find(|line| !line.ends_with(" via") && *line != "/robots.txt");
    assert_eq!(around, None);
}

/// Descriptors and KiB of the proxy.
#[track_caller]
fn looked(said: &str, when: &str) -> [usize; 2] {
    let line = said.lines().find(|line| line.starts_with(&format!("{when}: ")));
    let found = line.map(numbers).unwrap_or_default();
    found.try_into().unwrap_or_else(|found| panic!("{when}: {found:?} in {said}"))
}

fn numbers(line: &str) -> Vec<usize> {
    line.split([' ', ',', ':']).filter_map(|word| word.parse().ok()).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test has no settings to take it from")]
fn length() -> Duration {
    let text = std::env::var("COURTESY_TEST_SOAK").unwrap_or_else(|_| "8s".into());
    humantime::parse_duration(&text)
        .unwrap_or_else(|_| panic!("COURTESY_TEST_SOAK is {text:?}, such as 5m"))
}
