//! Restarted in each state of the machine (RFC 9309 §2.3.1, §2.4), at other dates: the first request
//! gets what the machine says, and the site sees no fetch that is not due.

use serde_json::Value;

use crate::testkit::processes::{Place, RULES, Robots, Serve, Site, until};

/// Two requests through a proxy: for a path that the rules close, and for one that they leave open.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    private: u16,
    open: u16,
}

const BY_THE_RULES: Said = Said { private: 403, open: 200 };
const ALL_CLOSED: Said = Said { private: 403, open: 403 };
const ALL_OPEN: Said = Said { private: 200, open: 200 };

/// One site and what is known of it.
struct Story {
    site: Site,
    place: Place,
}

impl Story {
    /// It begins with a site that answers so when it is first asked.
    #[track_caller]
    fn begin(robots: Robots, expected: &Said) -> Self {
        let story = Self { site: Site::start(move |_| robots.clone()), place: Place::new("") };
        story.at("+0", expected, 1)
    }

    /// From now on the site answers so.
    fn site(self, robots: Robots) -> Self {
        self.site.says(robots);
        self
    }

    /// A proxy that starts `ahead` of now answers as `expected`, and by then the site has been asked
    /// for its robots.txt so many times in all.
    #[track_caller]
    fn at(self, ahead: &str, expected: &Said, fetches: u32) -> Self {
        let serve = self.place.serve_at(ahead);
        assert_eq!(&self.ask(&serve), expected, "at {ahead}");
        assert_eq!(self.site.fetches(), fetches, "fetches at {ahead}: {}", serve.said());
        serve.stop();
        self
    }

    fn ask(&self, serve: &Serve) -> Said {
        let [private, open] =
            ["/private/a", "/open"].map(|path| serve.get(&self.site.url(path)).status);
        Said { private, open }
    }

    /// The last record.
    fn record(&self) -> Value {
        self.place
            .log()
            .lines
            .into_iter()
            .rfind(|line| line["event"] == "denied")
            .expect("a record")
    }
}

fn rules() -> Robots {
    Robots::File(RULES.to_owned())
}

fn everything() -> Robots {
    Robots::File("User-agent: *\nDisallow: /\n".to_owned())
}

#[test]
fn a_fresh_copy_serves_without_a_fetch() {
    Story::begin(rules(), &BY_THE_RULES).site(everything()).at("+1h", &BY_THE_RULES, 1).at(
        "+21h",
        &BY_THE_RULES,
        1,
    );
}

#[test]
fn a_copy_near_its_end_serves_while_it_is_refreshed() {
    let story = Story::begin(rules(), &BY_THE_RULES).site(everything());
    let serve = story.place.serve_at("+23h");
    assert_eq!(serve.get(&story.site.url("/open")).status, 200, "the copy serves");
    until("the file is asked for", || story.site.fetches() == 2);
    until("what came holds", || serve.get(&story.site.url("/open")).status == 403);
    serve.stop();
    // What came then is fresh for a day of its own.
    story.at("+40h", &ALL_CLOSED, 2);
}

#[test]
fn a_stale_copy_decides_nothing_before_it_is_confirmed() {
    Story::begin(rules(), &BY_THE_RULES).site(everything()).at("+25h", &ALL_CLOSED, 2);
}

#[test]
fn a_site_without_a_file_stays_open_for_a_day() {
    Story::begin(Robots::Status(404), &ALL_OPEN).site(rules()).at("+21h", &ALL_OPEN, 1).at(
        "+25h",
        &BY_THE_RULES,
        2,
    );
}

#[test]
fn an_unreachable_file_closes_the_site_until_the_next_try() {
    let story = Story::begin(Robots::Status(503), &ALL_CLOSED).at("+5", &ALL_CLOSED, 1);
    let before = story.record();
    // The first wait is 30 s.
    let story = story.at("+40", &ALL_CLOSED, 2);
    let after = story.record();
    assert_eq!(after["reason"], "robots_unreachable");
    assert_eq!(after["robots"]["since"], before["robots"]["since"], "the outage is the same one");
    assert_eq!([&before["robots"]["failures"], &after["robots"]["failures"]], [1, 2]);
    story.site(rules()).at("+10m", &BY_THE_RULES, 3);
}

#[test]
fn the_last_good_copy_serves_while_the_file_is_unreachable() {
    Story::begin(rules(), &BY_THE_RULES)
        .site(Robots::Status(503))
        .at("+25h", &BY_THE_RULES, 2)
        .at("+1501m", &BY_THE_RULES, 3)
        .at("+28d", &BY_THE_RULES, 4)
        .site(everything())
        .at("+29d", &ALL_CLOSED, 5);
}

/// RFC 9309 §2.3.1.4: thirty days, and they must have been seen.
#[test]
fn thirty_days_of_an_outage_are_counted_over_restarts() {
    let mut story = Story::begin(Robots::Status(503), &ALL_CLOSED);
    for (day, fetches) in [(8, 2), (16, 3), (24, 4), (29, 5)] {
        story = story.at(&format!("+{day}d"), &ALL_CLOSED, fetches);
    }
    story.at("+31d", &ALL_OPEN, 6).site(rules()).at("+32d", &BY_THE_RULES, 7);
}

#[test]
fn days_that_nobody_saw_are_not_counted() {
    Story::begin(Robots::Status(503), &ALL_CLOSED)
        .at("+5d", &ALL_CLOSED, 2)
        .at("+31d", &ALL_CLOSED, 3)
        .at("+32d", &ALL_CLOSED, 4);
}

#[test]
fn f16_a_clock_that_was_set_back_neither_frees_a_site_nor_locks_it() {
    Story::begin(rules(), &BY_THE_RULES)
        .at("+10d", &BY_THE_RULES, 2)
        // What was learnt in the future cannot be dated, so it is asked for again.
        .at("+0", &BY_THE_RULES, 3)
        .site(Robots::Status(503))
        .at("+2d", &BY_THE_RULES, 4);
    Story::begin(Robots::Status(503), &ALL_CLOSED)
        .at("+20d", &ALL_CLOSED, 2)
        .at("+0", &ALL_CLOSED, 3)
        .site(rules())
        .at("+1h", &BY_THE_RULES, 4);
}

/// The date of a machine whose clock has failed: hyper formats it for itself.
#[test]
fn f16_a_date_that_http_cannot_write_ends_no_request() {
    Story::begin(rules(), &BY_THE_RULES).at("+8000y", &BY_THE_RULES, 2).at(
        "+8001y",
        &BY_THE_RULES,
        3,
    );
}
