//! What a site asks of the pace of a crawler: by its robots.txt, and by the responses to requests.
//! How the values are read: `docs/reference/pace.md`.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::profile::{Obedience, Profile};
use crate::robots::{DelayRecord, Group, Obeyed, OutsideVisitTime, RobotsTxt, TimeOfDay};
use crate::types::http_time;
use crate::types::timestamp::Timestamp;

/// The field by which an origin tells how much of a quota is left.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Requests left in a quota below which the rest is spread over its time.
const QUOTA_LOW: u64 = 5;
/// One part in so many of a quota, below which the rest is spread, too.
const QUOTA_LOW_SHARE: u64 = 10;

/// The time between two requests that a robots.txt asks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SitePace {
    /// As it is kept.
    pub delay: Duration,
    pub record: DelayRecord,
    /// The line of the record, 1-based.
    pub line: u32,
    /// The record asks for more than is kept (D-PCAP).
    pub clamped: bool,
}

/// What the RateLimit fields of a response ask for (draft-ietf-httpapi-ratelimit-headers-11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// A quota is exhausted: nothing is to be sent for this long.
    pub hold: Option<Duration>,
    /// A quota is low: the delay that spreads it, and how long it applies.
    pub spread: Option<(Duration, Duration)>,
    /// The most concurrent requests, and how long that applies.
    pub concurrent: Option<(u64, Duration)>,
}

/// The delay that `robots` asks of `group` at `now` under `profile`, at most `delay_max` unless the
/// profile has a bound of its own. `None`: none.
pub fn site_pace(
    robots: &RobotsTxt,
    group: Option<&Group<'_>>,
    profile: &Profile,
    delay_max: Duration,
    now: Timestamp,
) -> Option<SitePace> {
    let knobs = &profile.pace;
    let obeyed = Obeyed {
        crawl_delay: knobs.crawl_delay == Obedience::Obey,
        request_rate: knobs.request_rate == Obedience::Obey,
    };
    let asked = robots.pace(group).delay(obeyed, time_of_day(now))?;
    let max = knobs.delay_max.unwrap_or(delay_max);
    Some(SitePace {
        delay: asked.delay.min(max),
        record: asked.record,
        line: asked.line,
        clamped: asked.delay > max,
    })
}

/// When the next Visit-time begins, if `now` is outside of those of `group` and `profile` obeys
/// them.
pub fn outside_visit_time(
    robots: &RobotsTxt,
    group: Option<&Group<'_>>,
    profile: &Profile,
    now: Timestamp,
) -> Option<OutsideVisitTime> {
    let is_obeyed = profile.pace.visit_time == Obedience::Obey;
    is_obeyed.then(|| robots.pace(group).outside_visit_time(time_of_day(now))).flatten()
}

/// The time of Retry-After in a 429 or 503 (RFC 9110 §10.2.3), at most `max`. `None`: it is absent,
/// malformed, zero or past, and the back-off decides.
pub fn retry_after(
    status: StatusCode,
    headers: &HeaderMap,
    now: Timestamp,
    max: Duration,
) -> Option<Duration> {
    let is_asked =
        matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let asked = is_asked.then(|| http_time::retry_after(headers, now)).flatten()?;
    (!asked.is_zero()).then(|| asked.min(max))
}

/// What the RateLimit fields ask for, no time longer than `max`. Nothing where Retry-After says
/// when to come back, or where they are malformed.
pub fn rate_limit(
    status: StatusCode,
    headers: &HeaderMap,
    now: Timestamp,
    max: Duration,
) -> RateLimit {
    let mut limit = RateLimit::default();
    if !headers.contains_key(&RATELIMIT) || retry_after(status, headers, now, max).is_some() {
        return limit;
    }
    let policies = list(headers, &RATELIMIT_POLICY);
    for item in list(headers, &RATELIMIT).iter().filter_map(quota) {
        let (Some(rest), Some(time)) = (number(item, "r"), number(item, "t")) else { continue };
        let time = Duration::from_secs(time).min(max);
        let policy =
            policies.iter().filter_map(quota).find(|policy| policy.bare_item == item.bare_item);
        let size = policy.and_then(|policy| number(policy, "q"));
        let is_low = rest < QUOTA_LOW || size.is_some_and(|size| rest < size / QUOTA_LOW_SHARE);
        if policy.is_some_and(counts_concurrent_requests) {
            limit.concurrent = limit.concurrent.max(Some((rest, time)));
        } else if rest == 0 {
            limit.hold = limit.hold.max(Some(time));
        } else if is_low {
            let delay = time / u32::try_from(rest).unwrap_or(u32::MAX).saturating_add(1);
            limit.spread = limit.spread.max(Some((delay, time)));
        }
    }
    limit.hold = limit.hold.filter(|time| !time.is_zero());
    limit
}

fn time_of_day(now: Timestamp) -> TimeOfDay {
    TimeOfDay::from_millis(now.millis())
}

/// The members of a List field (RFC 9651 §3.1); none if it is malformed.
fn list(headers: &HeaderMap, name: &HeaderName) -> List {
    let lines: Vec<&[u8]> =
        headers.get_all(name).into_iter().map(http::HeaderValue::as_bytes).collect();
    Parser::new(&lines.join(&b", "[..])).parse().unwrap_or_default()
}

/// A quota is named by a String.
fn quota(member: &ListEntry) -> Option<&Item> {
    match member {
        ListEntry::Item(item) if matches!(item.bare_item, BareItem::String(_)) => Some(item),
        ListEntry::Item(_) | ListEntry::InnerList(_) => None,
    }
}

/// A parameter that is a number of zero or more.
fn number(item: &Item, name: &str) -> Option<u64> {
    match item.params.get(name)? {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    }
}

fn counts_concurrent_requests(policy: &Item) -> bool {
    matches!(policy.params.get("qu"), Some(BareItem::String(unit)) if unit.as_str() == "concurrent-requests")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
    const MAX: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    fn of(policy: &str, limit: &str) -> RateLimit {
        let fields = [(RATELIMIT_POLICY, policy), (RATELIMIT, limit)];
        let fields = fields.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
        rate_limit(StatusCode::OK, &fields.into_iter().collect(), NOW, MAX)
    }

    #[test]
    fn a_low_quota_is_spread_over_its_time() {
        let spread = |delay, time| RateLimit {
            spread: Some((SECOND * delay, SECOND * time)),
            ..RateLimit::default()
        };
        assert_eq!(of("", "\"a\";r=4;t=10"), spread(2, 10));
        assert_eq!(of("", "\"a\";r=5;t=10"), RateLimit::default());
        assert_eq!(of("\"a\";q=100;w=60", "\"a\";r=9;t=20"), spread(2, 20));
        assert_eq!(of("\"b\";q=100;w=60", "\"a\";r=9;t=20"), RateLimit::default());
        assert_eq!(of("", "\"a\";r=4;t=10, \"b\";r=1;t=60"), spread(30, 60));
    }

    #[test]
    fn concurrent_requests_are_no_quota_over_time() {
        let limit = of("\"c\";q=4;qu=\"concurrent-requests\"", "\"c\";r=2;t=30");
        let expected = RateLimit { concurrent: Some((2, SECOND * 30)), ..RateLimit::default() };
        assert_eq!(limit, expected);
    }

    #[test]
    fn malformed_fields_ask_for_nothing() {
        for limit in [
            "",
            "\"a\"",
            "\"a\";r=0",
            "\"a\";r=-1;t=5",
            "\"a\";r=0;t=1.5",
            "\"a\";r=0;t=0",
            "(\"a\");r=0;t=3",
            "\"a\";r=0;t=3,",
        ] {
            assert_eq!(of("", limit), RateLimit::default(), "{limit}");
        }
    }
}
