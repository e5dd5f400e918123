//! A clock that is changed while an origin is known, and states that no transition can have made.

use super::*;
use crate::policy::state::Unreachable;

impl Site {
    /// The clock is set back.
    fn earlier(mut self, by: Duration) -> Self {
        self.now = Timestamp::from_millis(
            self.now.millis() - u64::try_from(by.as_millis()).expect("a date"),
        );
        self
    }

    fn outage(&self) -> &Unreachable {
        self.state.outage().expect("an outage")
    }
}

#[test]
fn what_is_from_the_future_is_due() {
    for result in [good(), status(404), status(503)] {
        let site = Site::new("rfc9309").after(&result);
        assert_eq!(site.earlier(DAY).says(), "due", "{result:?}");
    }
}

#[test]
fn an_outage_from_the_future_begins_now() {
    let site = Site::new("rfc9309").failing_for(5).earlier(400 * DAY).after(&status(503));
    assert_eq!((site.outage().since, site.outage().tried), (site.now, site.now));
    assert_eq!(site.says(), "disallow: unreachable");
}

#[test]
fn f16_a_jump_ahead_counts_as_no_more_than_the_longest_gap() {
    // Twenty-five days were observed, and the clock says thirty-six: too long a gap without an
    // attempt.
    let site = Site::new("rfc9309").failing_for(25).later(11 * DAY).after(&status(503));
    assert_eq!(site.says(), "disallow: unreachable");
    // Nine more days are plausible. When the clock is corrected, so is the outage.
    let site = Site::new("rfc9309").failing_for(25).later(9 * DAY).after(&status(503));
    assert_eq!(site.says(), "allow: long unreachable");
    let site = site.earlier(9 * DAY);
    assert_eq!(site.says(), "due");
    let site = site.after(&status(503));
    assert_eq!(site.says(), "disallow: unreachable");
}

#[test]
fn a_copy_from_the_future_does_not_outlast_its_file() {
    let site = Site::new("draft-rep-00").after(&good()).later(HOUR).after(&status(404));
    assert_eq!(site.says(), "rules");
    let site = Site::new("draft-rep-00").after(&good()).earlier(400 * DAY).after(&status(404));
    assert_eq!(site.says(), "allow: unavailable");
}

#[test]
fn a_state_that_cannot_be_is_told_from_one_that_can() {
    let profile = profile("rfc9309");
    let failing = Site::new("rfc9309").failing_for(3);
    let outage = || failing.outage().clone();
    let possible = |outage| RobotsState::Unreachable(outage).is_possible(&profile);
    assert!(possible(outage()));
    assert!(!possible(Unreachable { failures: 0, ..outage() }));
    assert!(!possible(Unreachable { since: outage().tried.plus(DAY), ..outage() }));
    assert!(!possible(Unreachable { next_try: outage().tried.plus(2 * HOUR), ..outage() }));
    let missing = Cause::Status { code: 404, retry_after: None };
    assert!(!possible(Unreachable { cause: missing.clone(), ..outage() }), "a 404 is no outage");
    let gone = |cause, days| RobotsState::Unavailable {
        cause,
        at: START,
        fresh_until: START.plus(days * DAY),
        copy: None,
    };
    assert!(gone(missing.clone(), 1).is_possible(&profile));
    assert!(!gone(missing, 2).is_possible(&profile));
    assert!(!gone(outage().cause, 1).is_possible(&profile), "a 503 opens nothing");
    assert!(!RobotsState::Unknown.is_possible(&profile));
}

#[test]
fn an_outage_goes_on_under_a_profile_of_the_same_meanings() {
    let site = Site::new("rfc9309").failing_for(29);
    let before = RobotsState::Unreachable(site.outage().before_last_failure(None));
    let mut other = Site { state: before, now: site.now, ..Site::new("rfc9309") };
    other.profile.outage.retry_max = HOUR;
    let other = other.after(&status(503));
    assert_eq!((other.outage().since, other.outage().failures), (START, site.outage().failures));
    assert_eq!(other.says(), "disallow: unreachable");
    assert_eq!(other.later(DAY).after(&status(503)).says(), "allow: long unreachable");
}
