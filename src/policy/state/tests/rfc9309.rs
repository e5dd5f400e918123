//! RFC 9309 §2.3.1 and §2.4, and our choices where it says MAY.

use super::*;

#[test]
fn nothing_is_known_of_an_origin_never_asked() {
    assert_eq!(Site::new("rfc9309").says(), "due");
}

#[test]
fn every_state_follows_every_result() {
    let (found, gone, down) = (good(), status(404), status(503));
    for (history, expected) in [
        (vec![&found], "rules"),
        (vec![&gone], "allow: unavailable"),
        (vec![&down], "disallow: unreachable"),
        (vec![&found, &found], "rules"),
        (vec![&found, &gone], "allow: unavailable"),
        (vec![&found, &down], "rules"),
        (vec![&gone, &found], "rules"),
        (vec![&gone, &gone], "allow: unavailable"),
        (vec![&gone, &down], "disallow: unreachable"),
        (vec![&down, &found], "rules"),
        (vec![&down, &gone], "allow: unavailable"),
        (vec![&down, &down], "disallow: unreachable"),
        (vec![&found, &down, &gone], "allow: unavailable"),
        (vec![&found, &gone, &down], "disallow: unreachable"),
        (vec![&found, &down, &down], "rules"),
    ] {
        let site = history.into_iter().fold(Site::new("rfc9309"), Site::after);
        assert_eq!(site.says(), expected);
    }
}

#[test]
fn an_outage_keeps_its_beginning_and_its_copy() {
    let site = Site::new("rfc9309").after(&good()).later(DAY).after(&timeout());
    let site = site.later(HOUR).after(&status(500));
    let RobotsState::Unreachable(outage) = &site.state else { panic!("{:?}", site.state) };
    assert_eq!((outage.since, outage.failures), (START.plus(DAY), 2));
    assert!(outage.copy.is_some());
}

#[test]
fn section_2_4_a_copy_is_fresh_for_24_hours() {
    let site = Site::new("rfc9309").after(&good()).later(DAY - MINUTE);
    assert_eq!(site.says(), "rules");
    assert_eq!(site.later(MINUTE).says(), "due");
}

#[test]
fn section_2_4_cache_control_shortens_but_never_lengthens() {
    let lives =
        |freshness, age| Site::new("rfc9309").after(&good_with(freshness)).later(age).says();
    let max_age =
        |seconds| Freshness { max_age: Some(Duration::from_secs(seconds)), ..Default::default() };
    assert_eq!(lives(max_age(3600), HOUR - MINUTE), "rules");
    assert_eq!(lives(max_age(3600), HOUR), "due");
    assert_eq!(lives(max_age(604_800), DAY), "due");
    // A fetch for every request would harm the site: at least five minutes.
    assert_eq!(lives(max_age(0), 4 * MINUTE), "rules");
    assert_eq!(lives(max_age(0), 5 * MINUTE), "due");
    let no_cache = Freshness { no_cache: true, ..max_age(3600) };
    assert_eq!(lives(no_cache, 5 * MINUTE), "due");
    let expires = Freshness { expires_in: Some(HOUR), ..Default::default() };
    assert_eq!(lives(expires, HOUR), "due");
    assert_eq!(lives(Freshness { max_age: Some(2 * HOUR), ..expires }, HOUR), "rules");
}

#[test]
fn a_copy_confirmed_is_fresh_again() {
    let confirmed = AccessResult::NotModified { freshness: Freshness::default() };
    let site = Site::new("rfc9309").after(&good()).later(DAY).after(&confirmed).later(DAY - MINUTE);
    assert_eq!(site.says(), "rules");
    let site =
        Site::new("rfc9309").after(&good()).after(&status(503)).later(HOUR).after(&confirmed);
    assert_eq!(site.state.word(), "rules");
}

#[test]
fn a_304_that_nobody_asked_for_is_no_file() {
    let confirmed = AccessResult::NotModified { freshness: Freshness::default() };
    assert_eq!(Site::new("rfc9309").after(&confirmed).says(), "disallow: unreachable");
    assert_eq!(
        Site::new("rfc9309").after(&status(404)).after(&confirmed).says(),
        "disallow: unreachable"
    );
}

#[test]
fn section_2_3_1_4_thirty_days_without_a_copy_open() {
    assert_eq!(Site::new("rfc9309").failing_for(29).says(), "disallow: unreachable");
    assert_eq!(Site::new("rfc9309").failing_for(30).says(), "allow: long unreachable");
}

#[test]
fn section_2_4_a_copy_serves_however_long_the_file_is_unreachable() {
    assert_eq!(Site::new("rfc9309").after(&good()).failing_for(400).says(), "rules");
}

#[test]
fn an_outage_by_setting_ignores_the_copy_or_never_opens() {
    let mut site = Site::new("rfc9309").after(&good());
    site.profile.outage.copy = OutageCopy::Disallow;
    assert_eq!(site.failing_for(1).says(), "disallow: unreachable");
    let mut site = Site::new("rfc9309");
    site.profile.outage.after = Access::Disallow;
    assert_eq!(site.failing_for(40).says(), "disallow: long unreachable");
    let mut site = Site::new("rfc9309");
    site.profile.outage.after_time = 60 * DAY;
    assert_eq!(site.failing_for(59).says(), "disallow: unreachable");
}

#[test]
fn thirty_days_count_only_as_far_as_they_were_observed() {
    // Failed once, and no attempt for a month: the period starts anew.
    let site = Site::new("rfc9309").after(&status(503)).later(31 * DAY).after(&status(503));
    assert_eq!(site.state.since(), Some(START.plus(31 * DAY)));
    assert_eq!(site.says(), "disallow: unreachable");
    // A gap of more than ten days, however many attempts before it.
    let site = Site::new("rfc9309").failing_for(29).later(11 * DAY).after(&status(503));
    assert_eq!(site.says(), "disallow: unreachable");
    // Attempts every ten days count as an observation.
    let mut site = Site::new("rfc9309").after(&status(503));
    for expected in ["disallow: unreachable", "disallow: unreachable", "allow: long unreachable"] {
        site = site.later(10 * DAY).after(&status(503));
        assert_eq!(site.says(), expected);
    }
}

#[test]
fn failure_is_remembered_for_30_seconds_doubling_to_10_minutes() {
    let mut site = Site::new("rfc9309");
    for seconds in [30, 60, 120, 240, 480, 600, 600] {
        site = site.after(&timeout());
        let next = site.state.next_try().expect("a failed try is followed by another");
        assert_eq!(site.now.until(next), Duration::from_secs(seconds));
        site = site.later(Duration::from_secs(seconds));
        assert_eq!(site.says(), "due");
    }
}

#[test]
fn jitter_makes_a_try_up_to_a_quarter_earlier_whatever_it_is() {
    let rule = profile("rfc9309");
    for (jitter, seconds) in [(0.0, 600), (1.0, 450), (7.0, 450), (-1.0, 600), (f64::NAN, 600)] {
        let circumstances = Circumstances { now: START, jitter, site_up: true };
        let mut state = RobotsState::Unknown;
        for _ in 0..10 {
            state = state
                .after(&rule, &timeout(), &circumstances, |_| unreachable!("there is no file"));
        }
        assert_eq!(state.next_try(), Some(START.plus(Duration::from_secs(seconds))), "{jitter}");
    }
}

#[test]
fn retry_after_is_honoured_up_to_an_hour() {
    for (asked, expected) in [(120, 120), (1, 30), (3600, 3600), (86_400, 3600)] {
        let retry_after = Some(Duration::from_secs(asked));
        let result = AccessResult::Without(Cause::Status { code: 429, retry_after });
        let site = Site::new("rfc9309").after(&result);
        assert_eq!(site.says(), "disallow: unreachable");
        assert_eq!(site.state.next_try(), Some(START.plus(Duration::from_secs(expected))));
    }
}

#[test]
fn the_last_tenth_of_freshness_needs_a_refresh() {
    let needs = |site: &Site| site.state.needs_refresh(site.now);
    let site = Site::new("rfc9309").after(&good());
    assert!(!needs(&site));
    let site = site.later(DAY * 9 / 10 - MINUTE);
    assert!(!needs(&site));
    assert!(needs(&site.later(MINUTE)));
    assert!(!needs(&Site::new("rfc9309").after(&status(503))));
}

#[test]
fn f16_a_clock_set_back_asks_again_and_opens_nothing() {
    let mut site = Site::new("rfc9309").after(&good());
    site.now = Timestamp::from_millis(START.millis() - 1000);
    assert_eq!(site.says(), "rules");
    site.now = Timestamp::from_millis(START.millis() - 1000 * DAY.as_secs());
    assert_eq!(site.says(), "due");
    let mut site = Site::new("rfc9309").failing_for(30);
    site.now = START;
    assert_eq!(site.says(), "due");
    let site = site.after(&status(503));
    assert_eq!(site.says(), "disallow: unreachable");
    assert_eq!(site.state.since(), Some(START));
}
