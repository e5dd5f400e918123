//! How long an origin is left alone.

use super::*;

const BACK_OFF: HoldLength =
    HoldLength::BackOff { first: seconds(10), max: seconds(35), jitter: 0 };

impl Three {
    fn hold(&self, length: HoldLength) -> Duration {
        let cause = HoldCause::BackOff;
        now(self.a.set_hold(HoldRequest { origin: &self.site, length, status: 429, cause })).left
    }
}

#[test]
fn back_offs_in_a_row_double_up_to_their_bound() {
    let three = Three::new();
    for left in [10, 20, 35, 35] {
        assert_eq!(three.hold(BACK_OFF), seconds(left));
        three.clock.advance(seconds(left));
    }
    three.clock.advance(seconds(1));
    assert!(now(three.b.reset_backoff(&three.site)));
    assert!(!now(three.b.reset_backoff(&three.site)));
    assert_eq!(three.hold(BACK_OFF), seconds(10));
}

#[test]
fn failures_while_a_hold_lasts_are_one_event_and_a_time_counts() {
    let three = Three::new();
    assert_eq!(three.hold(BACK_OFF), seconds(10));
    three.clock.advance(seconds(1));
    assert_eq!(three.hold(BACK_OFF), seconds(9));
    assert_eq!(three.hold(HoldLength::For(seconds(5))), seconds(9));
    assert_eq!(three.hold(HoldLength::For(seconds(30))), seconds(30));
    assert!(!now(three.b.reset_backoff(&three.site)), "the hold lasts");
    three.clock.advance(seconds(30));
    assert_eq!(three.hold(BACK_OFF), seconds(20), "the second in a row");
}

#[test]
fn a_streak_ends_by_itself_after_the_longest_back_off() {
    let three = Three::new();
    three.hold(BACK_OFF);
    three.clock.advance(seconds(10 + 36));
    assert_eq!(three.hold(BACK_OFF), seconds(10));
}

#[test]
fn the_random_part_is_a_tenth_at_most_and_no_hold_exceeds_the_longest() {
    let lengths = [(500, ms(10_500)), (1000, seconds(11)), (u16::MAX, seconds(11))];
    for (jitter, left) in lengths {
        let length = HoldLength::BackOff { first: seconds(10), max: seconds(35), jitter };
        assert_eq!(Three::new().hold(length), left);
    }
    assert_eq!(Three::new().hold(HoldLength::For(Duration::MAX)), seconds(3600));
}

#[test]
fn a_hold_can_be_ended() {
    let three = Three::new();
    three.hold(BACK_OFF);
    assert!(now(three.b.end_hold(&three.site)));
    assert!(!now(three.b.end_hold(&three.site)));
    assert_eq!(now(three.c.announce_presence(&three.site)).hold, None);
    assert_eq!(three.hold(BACK_OFF), seconds(10));
}
