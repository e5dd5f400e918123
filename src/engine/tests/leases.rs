//! Which proxy fetches, and whose result is kept.

use super::*;

#[test]
fn one_proxy_fetches_and_the_others_use_what_it_found() {
    let three = Three::new();
    let token = lease(three.lookup(&three.a, LeaseToken::default()));
    assert_eq!(three.lookup(&three.b, LeaseToken::default()), LookupOutcome::Wait(seconds(3)));
    three.clock.advance(seconds(1));
    assert!(now(three.a.renew_lease(&three.site, token)));
    three.clock.advance(seconds(2));
    assert_eq!(three.lookup(&three.b, LeaseToken::default()), LookupOutcome::Wait(seconds(1)));
    assert_eq!(three.publish(&three.a, token, b"found"), PublishOutcome::Stored);
    let newer = LookupOutcome::Newer { token, value: Bytes::from_static(b"found") };
    assert_eq!(three.lookup(&three.b, LeaseToken::default()), newer);
    let request =
        LookupRequest { origin: &three.site, have: token, may_fetch: false, is_used: false };
    assert_eq!(now(three.c.lookup(request)).outcome, LookupOutcome::Unchanged);
    assert!(lease(three.lookup(&three.b, token)) > token);
}

#[test]
fn a_holder_that_dies_costs_three_seconds() {
    let three = Three::new();
    let first = lease(three.lookup(&three.a, LeaseToken::default()));
    three.clock.advance(ms(2999));
    assert_eq!(three.lookup(&three.b, LeaseToken::default()), LookupOutcome::Wait(ms(1)));
    three.clock.advance(ms(1));
    assert!(lease(three.lookup(&three.b, LeaseToken::default())) > first);
}

#[test]
fn a_result_of_an_older_lease_never_covers_that_of_a_newer() {
    let three = Three::new();
    let first = lease(three.lookup(&three.a, LeaseToken::default()));
    three.clock.advance(seconds(10));
    let second = lease(three.lookup(&three.b, LeaseToken::default()));
    assert!(!now(three.a.renew_lease(&three.site, first)), "the lease has gone on");
    assert!(!now(three.a.release_lease(&three.site, first)));
    assert_eq!(three.publish(&three.b, second, b"new"), PublishOutcome::Stored);
    assert_eq!(three.publish(&three.a, first, b"old"), PublishOutcome::Superseded(second));
    assert_eq!(
        three.publish(&three.b, second, b"again"),
        PublishOutcome::Stored,
        "a value published twice"
    );
}

#[test]
fn a_lease_whose_response_was_lost_is_given_to_the_same_proxy_again() {
    let three = Three::new();
    let first = lease(three.lookup(&three.a, LeaseToken::default()));
    let second = lease(three.lookup(&three.a, LeaseToken::default()));
    assert!(second > first);
    assert!(!now(three.a.renew_lease(&three.site, first)));
    assert!(now(three.a.release_lease(&three.site, second)));
    assert!(lease(three.lookup(&three.b, LeaseToken::default())) > second);
}

#[test]
fn a_token_is_higher_than_any_before_also_if_the_clock_goes_back() {
    let three = Three::new();
    let mut last = LeaseToken::default();
    for at in [START, START - 1, START - 5_000_000, START + 1, START + 1] {
        three.clock.set(at);
        let token = lease(three.lookup(&three.a, last));
        assert!(token > last, "at {at}");
        assert_eq!(three.publish(&three.a, token, b""), PublishOutcome::Stored);
        last = token;
    }
}

#[test]
fn a_token_a_day_ahead_of_the_clock_is_damage() {
    let three = Three::new();
    let far = LeaseToken(START + 25 * 60 * 60 * 1_000_000);
    assert_eq!(
        three.publish(&three.a, far, b""),
        PublishOutcome::Superseded(LeaseToken::default())
    );
    assert_eq!(lease(three.lookup(&three.a, far)), LeaseToken(START));
}

#[test]
fn what_is_known_is_kept_for_as_long_as_is_set_and_files_apart_from_it() {
    let three = Three::new();
    let token = lease(three.lookup(&three.a, LeaseToken::default()));
    three.publish(&three.a, token, b"found");
    three.clock.advance(seconds(45 * 24 * 60 * 60));
    assert!(matches!(three.lookup(&three.b, LeaseToken::default()), LookupOutcome::Newer { .. }));
    three.clock.advance(ms(1));
    lease(three.lookup(&three.b, LeaseToken::default()));

    now(three.a.put_file([7; 32], Bytes::from_static(b"file")));
    assert_eq!(now(three.b.get_file([7; 32])), Some(Bytes::from_static(b"file")));
    assert_eq!(now(three.b.get_file([8; 32])), None);
    let large = Bytes::from(vec![0; Config::named("a").file_max + 1]);
    let refused = three.a.put_file([9; 32], large).as_mut().poll(&mut noop());
    assert!(matches!(refused, Poll::Ready(Err(error)) if error.kind == ErrorKind::TooLarge));
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
