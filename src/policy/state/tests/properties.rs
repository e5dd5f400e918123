//! Properties that hold for any sequence of results.

use proptest::prelude::*;

use super::*;

/// Thirty years in milliseconds: longer than anything is kept.
const DECADES: u64 = 1_000_000_000_000;

fn any_profile() -> impl Strategy<Value = Profile> {
    prop::sample::select(Profile::ALL.to_vec())
}

fn any_result() -> impl Strategy<Value = AccessResult> {
    let seconds = || prop::option::of(any::<u64>().prop_map(Duration::from_secs));
    let freshness = (seconds(), seconds(), any::<bool>())
        .prop_map(|(max_age, expires_in, no_cache)| Freshness { max_age, expires_in, no_cache });
    let status = (100_u16..1000, seconds())
        .prop_map(|(code, retry_after)| Cause::Status { code, retry_after });
    prop_oneof![
        freshness.clone().prop_map(good_with),
        freshness.prop_map(|freshness| AccessResult::NotModified { freshness }),
        status.prop_map(AccessResult::Without),
        Just(AccessResult::Without(Cause::RedirectLoop)),
        Just(AccessResult::Without(Cause::TooManyRedirects { limit: 5 })),
        Just(timeout()),
    ]
}

/// The result, the time since the previous one (also a clock that jumps to any date), and the
/// jitter.
fn any_history() -> impl Strategy<Value = Vec<(AccessResult, Duration, f64)>> {
    let gap = prop_oneof![0..86_400_u64 * 40, 0..600_u64].prop_map(Duration::from_secs);
    prop::collection::vec((any_result(), gap, 0.0..=1.0), 1..30)
}

proptest! {
    #[test]
    fn right_after_any_result_the_policy_is_current(
        profile in any_profile(),
        history in prop::collection::vec((any_result(), 0..Timestamp::LAST.millis() - DECADES, any::<f64>()), 1..20),
    ) {
        let mut site = Site { profile, ..Site::new("rfc9309") };
        for (result, millis, jitter) in history {
            // Any date short of the last, which nothing can follow.
            let now = Timestamp::from_millis(millis);
            let circumstances = Circumstances { now, jitter, site_up: true };
            site.state = site.state.after(&site.profile, &result, &circumstances, |snapshot| {
                Arc::new(RobotsTxt::parse(&snapshot.body, &site.profile.dialect))
            });
            prop_assert!(matches!(site.state.policy_status(&site.profile, now), PolicyStatus::Current(_)));
        }
    }

    #[test]
    fn what_transitions_lead_to_is_possible(
        profile in any_profile(),
        history in prop::collection::vec((any_result(), 0..Timestamp::LAST.millis(), any::<f64>()), 1..20),
    ) {
        let mut state = RobotsState::Unknown;
        for (result, millis, jitter) in history {
            let circumstances = Circumstances { now: Timestamp::from_millis(millis), jitter, site_up: true };
            state = state.after(&profile, &result, &circumstances, |snapshot| {
                Arc::new(RobotsTxt::parse(&snapshot.body, &profile.dialect))
            });
            prop_assert!(state.is_possible(&profile), "{state:?}");
        }
    }

    #[test]
    fn unreachable_never_allows_early(profile in any_profile(), history in any_history()) {
        let rule = profile.outage.clone();
        let earliest = if rule.without_copy == Access::Allow { rule.pause } else { rule.after_time };
        let mut site = Site { profile, ..Site::new("rfc9309") };
        let mut failing_since: Option<Timestamp> = None;
        for (result, gap, jitter) in history {
            site = site.later(gap);
            let circumstances = Circumstances { now: site.now, jitter, site_up: true };
            site.state = site.state.after(&site.profile, &result, &circumstances, |snapshot| {
                Arc::new(RobotsTxt::parse(&snapshot.body, &site.profile.dialect))
            });
            if !matches!(site.state, RobotsState::Unreachable(_)) {
                failing_since = None;
                continue;
            }
            let lasting = site.now.since(*failing_since.get_or_insert(site.now));
            let opens = matches!(site.state.policy_status(&site.profile, site.now), PolicyStatus::Current(Policy::AllowAll(_)));
            prop_assert!(!opens || lasting >= earliest, "opened after {lasting:?}");
        }
    }

    #[test]
    fn nothing_is_fresh_beyond_the_cap_of_its_profile(profile in any_profile(), result in any_result()) {
        let cap = profile.lifetimes.ceiling.max(profile.lifetimes.unavailable).max(HOUR);
        let site = Site { profile, ..Site::new("rfc9309") }.after(&result).later(cap);
        prop_assert_eq!(site.says(), "due");
    }
}
