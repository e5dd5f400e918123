//! What a site asks of the pace of a crawler: by its robots.txt, and by the responses to requests.
//! How the values are read: `docs/reference/pace.md`.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parser};

use super::profile::{Obedience, Profile};
use crate::robots::{DelayRecord, Group, OutsideVisitTime, RobotsTxt, TimeOfDay};
use crate::types::http_time;
use crate::types::timestamp::Timestamp;

/// The field by which an origin tells how much of a quota is left, since the seventh draft.
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The prefixes of three fields each, `Limit`, `Remaining` and `Reset`: of the drafts before, and of
/// what was in use before there was a draft.
const TRIPLES: [[HeaderName; 3]; 3] = [
    [
        HeaderName::from_static("ratelimit-limit"),
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ],
    [
        HeaderName::from_static("x-ratelimit-limit"),
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderName::from_static("x-ratelimit-reset"),
    ],
    [
        HeaderName::from_static("x-rate-limit-limit"),
        HeaderName::from_static("x-rate-limit-remaining"),
        HeaderName::from_static("x-rate-limit-reset"),
    ],
];

/// From so many seconds on, the time of a quota is no time from now but a date since 1970.
const EPOCH_MIN: f64 = 1e8;
/// From so many on, in milliseconds.
const EPOCH_MILLIS_MIN: f64 = 1e11;

/// Requests left in a quota below which the rest is spread over its time.
const QUOTA_LOW: u64 = 5;
/// One part in so many of a quota, below which the rest is spread, too.
const QUOTA_LOW_SHARE: u64 = 10;

/// The time between two requests that a robots.txt asks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SitePace {
    /// As it is kept.
    pub delay: Duration,
    /// As the record asks, which may be more (D-PCAP).
    pub asked: Duration,
    pub record: DelayRecord,
    /// The line of the record, 1-based.
    pub line: u32,
    /// An exemption sets the delay, whatever the record asks.
    pub is_exempted: bool,
}

impl SitePace {
    /// Whether the record asks for more than is kept (D-PCAP).
    pub fn is_clamped(&self) -> bool {
        !self.is_exempted && self.asked > self.delay
    }
}

/// What the RateLimit fields of a response ask for (draft-ietf-httpapi-ratelimit-headers, in the
/// forms of all its versions, and the `X-` fields before it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// A quota is exhausted: nothing is to be sent for this long.
    pub hold: Option<Duration>,
    /// A quota is low: the delay that spreads it, and how long it applies.
    pub spread: Option<(Duration, Duration)>,
    /// The most concurrent requests, and how long that applies.
    pub concurrent: Option<(u64, Duration)>,
}

/// The delay that `robots` asks of `group` at `now` under `profile`, at most `delay_max`. `None`:
/// none.
pub fn site_pace(
    robots: &RobotsTxt,
    group: Option<&Group<'_>>,
    profile: &Profile,
    delay_max: Duration,
    now: Timestamp,
) -> Option<SitePace> {
    let asked = robots.pace(group).delay(profile.pace.obeyed(), time_of_day(now))?;
    Some(SitePace {
        delay: asked.delay.min(delay_max),
        asked: asked.delay,
        record: asked.record,
        line: asked.line,
        is_exempted: false,
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

/// Whether a response may say something about the pace; most do not.
pub fn concerns_pace(status: StatusCode, headers: &HeaderMap) -> bool {
    if status.is_server_error() || retry_after_min(status).is_some() && has_retry_after(headers) {
        return true;
    }
    // Cheaper than a look for each name.
    status == StatusCode::TOO_MANY_REQUESTS || headers.keys().any(is_of_quota)
}

fn has_retry_after(headers: &HeaderMap) -> bool {
    headers.contains_key(http::header::RETRY_AFTER)
}

fn is_of_quota(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    matches!(name, [b'r', b'a', b't', b'e', ..] | [b'x', b'-', b'r', b'a', b't', b'e', ..])
}

/// Beyond which time a Retry-After holds; `None`: never with this status. A refusal, an overload
/// and a failure say when to come back. A redirection says when its target is there, for which a
/// second asks for no hold. With a 200, 401, 404 or 500 the field is noise.
const fn retry_after_min(status: StatusCode) -> Option<Duration> {
    match status.as_u16() {
        403 | 413 | 420 | 429 | 502..=504 | 509 | 529 | 530 => Some(Duration::ZERO),
        300..=399 => Some(Duration::from_secs(1)),
        _ => None,
    }
}

/// The time of Retry-After (RFC 9110 §10.2.3), at most `max`. `None`: it is absent, malformed, zero
/// or past, or means nothing with this status, and the back-off decides.
pub fn retry_after(
    status: StatusCode,
    headers: &HeaderMap,
    now: Timestamp,
    max: Duration,
) -> Option<Duration> {
    let min = retry_after_min(status)?;
    let asked = http_time::retry_after(headers, now)?;
    (asked > min).then(|| asked.min(max))
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
    if retry_after(status, headers, now, max).is_some() {
        return limit;
    }
    let mut quotas =
        if headers.contains_key(&RATELIMIT) { structured(headers) } else { Vec::new() };
    if quotas.is_empty() {
        quotas.extend(TRIPLES.iter().flat_map(|names| of_triple(headers, names)));
    }
    let since = http_time::date_of(headers, now);
    for Quota { rest, time, size, is_concurrency } in quotas {
        let time = time.after(since).min(max);
        let is_low = rest < QUOTA_LOW || size.is_some_and(|size| rest < size / QUOTA_LOW_SHARE);
        if is_concurrency {
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

/// What is left of a quota.
struct Quota {
    /// Requests.
    rest: u64,
    time: Reset,
    /// Requests in all.
    size: Option<u64>,
    /// It is of concurrent requests.
    is_concurrency: bool,
}

/// When a quota is whole again.
#[derive(Clone, Copy)]
enum Reset {
    In(Duration),
    At(Timestamp),
}

impl Reset {
    /// A number of seconds, or a date since 1970 in seconds or milliseconds.
    fn of(number: f64) -> Option<Self> {
        if !number.is_finite() || number < 0.0 {
            return None;
        }
        Some(if number < EPOCH_MIN {
            Self::In(Duration::from_millis((number * 1e3).ceil() as u64))
        } else if number < EPOCH_MILLIS_MIN {
            Self::At(Timestamp::from_millis((number * 1e3).ceil() as u64))
        } else {
            Self::At(Timestamp::from_millis(number.ceil() as u64))
        })
    }

    fn after(self, now: Timestamp) -> Duration {
        match self {
            Self::In(time) => time,
            Self::At(then) => now.until(then),
        }
    }
}

/// The quotas of `RateLimit`: a List of Strings with parameters, or in the seventh draft one
/// Dictionary. None where it is malformed.
fn structured(headers: &HeaderMap) -> Vec<Quota> {
    let policies: List = field(headers, &RATELIMIT_POLICY);
    if let Some(dictionary) = seventh(headers, &policies) {
        return vec![dictionary];
    }
    let limits: List = field(headers, &RATELIMIT);
    let quota = |item: &Item| {
        let policy =
            policies.iter().filter_map(quota_item).find(|it| it.bare_item == item.bare_item);
        let of_policy = |name| policy.and_then(|policy| number(policy.params.get(name)?));
        let time = number(item.params.get("t")?).and_then(Reset::of)?;
        Some(Quota {
            rest: whole(number(item.params.get("r")?)?)?,
            time,
            size: of_policy("q").and_then(whole),
            is_concurrency: policy.is_some_and(counts_concurrent_requests),
        })
    };
    limits.iter().filter_map(quota_item).filter_map(quota).collect()
}

/// `limit=10, remaining=0, reset=7`.
fn seventh(headers: &HeaderMap, policies: &List) -> Option<Quota> {
    let dictionary: Dictionary = field(headers, &RATELIMIT);
    let get = |name: &str| match dictionary.get(name)? {
        ListEntry::Item(item) => number(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    // Its policy is a list of numbers, each with a window: `10;w=1`.
    let window = || match policies.first()? {
        ListEntry::Item(item) => number(item.params.get("w")?),
        ListEntry::InnerList(_) => None,
    };
    Some(Quota {
        rest: whole(get("remaining")?)?,
        time: Reset::of(get("reset").or_else(window)?)?,
        size: get("limit").and_then(whole),
        is_concurrency: false,
    })
}

/// The quotas of three fields, of which each may list several.
fn of_triple(headers: &HeaderMap, [limit, remaining, reset]: &[HeaderName; 3]) -> Vec<Quota> {
    let rests = values(headers, remaining);
    if rests.is_empty() {
        return Vec::new();
    }
    let date = http_time::text(headers, reset).and_then(http_time::date);
    let (resets, sizes) = (values(headers, reset), values(headers, limit));
    let quota = |(at, rest): (usize, &Option<f64>)| {
        let of = |values: &[Option<f64>]| *values.get(at).or(values.last())?;
        Some(Quota {
            rest: whole((*rest)?)?,
            time: date.map(Reset::At).or_else(|| Reset::of(of(&resets)?))?,
            size: of(&sizes).and_then(whole),
            is_concurrency: false,
        })
    };
    rests.iter().enumerate().filter_map(quota).collect()
}

/// The numbers in all lines of a field, before their parameters.
fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<Option<f64>> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    let values = lines.flat_map(|line| line.split(','));
    values.map(|value| decimal(value.split(';').next()?.trim())).collect()
}

/// Digits with or without a fraction.
fn decimal(text: &str) -> Option<f64> {
    let is_decimal = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_decimal.then(|| text.parse().ok()).flatten()
}

/// A count of zero or more, downwards.
fn whole(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

fn time_of_day(now: Timestamp) -> TimeOfDay {
    TimeOfDay::from_millis(now.millis())
}

/// A structured field (RFC 9651); empty if it is malformed.
fn field<T: FieldType + Default>(headers: &HeaderMap, name: &HeaderName) -> T {
    let lines: Vec<&[u8]> =
        headers.get_all(name).into_iter().map(http::HeaderValue::as_bytes).collect();
    Parser::new(&lines.join(&b", "[..])).parse().unwrap_or_default()
}

/// A quota is named by a String.
fn quota_item(member: &ListEntry) -> Option<&Item> {
    match member {
        ListEntry::Item(item) if matches!(item.bare_item, BareItem::String(_)) => Some(item),
        ListEntry::Item(_) | ListEntry::InnerList(_) => None,
    }
}

/// An Integer or a Decimal.
fn number(item: &BareItem) -> Option<f64> {
    match item {
        BareItem::Integer(number) => Some(i64::from(*number) as f64),
        BareItem::Decimal(number) => Some(f64::from(*number)),
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
            "a;r=0;t=3",
            "\"a\";r=0;t=\"3\"",
            "\"a\";r=0;t=0",
            "(\"a\");r=0;t=3",
            "\"a\";r=0;t=3,",
        ] {
            assert_eq!(of("", limit), RateLimit::default(), "{limit}");
        }
    }

    /// Each form, where it comes from, and the hold in milliseconds that it asks for.
    #[test]
    fn an_exhausted_quota_rests_in_whatever_form_it_is_told() {
        let epoch = NOW.millis() / 1000;
        let [soon, millis] = [format!("{}", epoch + 40), format!("{}", (epoch + 40) * 1000)];
        let fraction = format!("{}.25", epoch + 40);
        let past = format!("{}", epoch - 40);
        type Case<'a> = (&'a str, &'a [(&'static str, &'a str)], Option<u64>);
        let cases: &[Case<'_>] = &[
            ("draft 11", &[("ratelimit", "\"a\";r=0;t=30")], Some(30_000)),
            (
                "draft 11, two lines",
                &[("ratelimit", "\"a\";r=0;t=3"), ("ratelimit", "\"b\";r=0;t=7")],
                Some(7000),
            ),
            ("draft 11, a fraction", &[("ratelimit", "\"a\";r=0;t=1.5")], Some(1500)),
            ("draft 7", &[("ratelimit", "limit=10, remaining=0, reset=7")], Some(7000)),
            ("draft 7, some left", &[("ratelimit", "limit=10, remaining=9, reset=7")], None),
            (
                "draft 7, its window",
                &[("ratelimit", "limit=10, remaining=0"), ("ratelimit-policy", "10;w=9")],
                Some(9000),
            ),
            (
                "drafts 0 to 6",
                &[
                    ("ratelimit-limit", "10"),
                    ("ratelimit-remaining", "0"),
                    ("ratelimit-reset", "50"),
                ],
                Some(50_000),
            ),
            (
                "draft 3, a policy",
                &[
                    ("ratelimit-limit", "10, 10;w=1, 50;w=60"),
                    ("ratelimit-remaining", "0"),
                    ("ratelimit-reset", "1"),
                ],
                Some(1000),
            ),
            (
                "without a limit",
                &[("ratelimit-remaining", "0"), ("ratelimit-reset", "50")],
                Some(50_000),
            ),
            ("some left", &[("ratelimit-remaining", "80"), ("ratelimit-reset", "50")], None),
            (
                "GitHub: an epoch",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &soon)],
                Some(40_000),
            ),
            (
                "Reddit: a fraction",
                &[("x-ratelimit-remaining", "0.0"), ("x-ratelimit-reset", "17.4")],
                Some(17_400),
            ),
            (
                "Twitter",
                &[("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", &soon)],
                Some(40_000),
            ),
            (
                "an epoch with a fraction",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &fraction)],
                Some(40_250),
            ),
            (
                "an epoch in milliseconds",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &millis)],
                Some(40_000),
            ),
            (
                "an epoch that is past",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &past)],
                None,
            ),
            (
                "a date",
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                    ("x-ratelimit-reset", "Sun, 06 Nov 1994 08:50:07 GMT"),
                ],
                Some(30_000),
            ),
            (
                "several",
                &[("x-ratelimit-remaining", "4, 0"), ("x-ratelimit-reset", "1, 60")],
                Some(60_000),
            ),
            (
                "bounded",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "99999999")],
                Some(3_600_000),
            ),
            (
                "bounded, an epoch",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "99999999999")],
                Some(3_600_000),
            ),
            ("no time", &[("x-ratelimit-remaining", "0")], None),
            ("no number", &[("x-ratelimit-remaining", "none"), ("x-ratelimit-reset", "5")], None),
            ("below zero", &[("x-ratelimit-remaining", "-1"), ("x-ratelimit-reset", "5")], None),
            ("of two kinds", &[("x-ratelimit-remaining", "0"), ("ratelimit-reset", "5")], None),
            (
                "Retry-After goes before it",
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5"), ("retry-after", "3")],
                None,
            ),
        ];
        for (whose, fields, hold) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *fields {
                headers.append(*name, HeaderValue::from_str(value).unwrap());
            }
            let status = StatusCode::TOO_MANY_REQUESTS;
            assert!(concerns_pace(StatusCode::OK, &headers), "{whose}");
            let found = rate_limit(status, &headers, NOW, MAX).hold;
            assert_eq!(found.map(|time| time.as_millis() as u64), *hold, "{whose}");
        }
    }

    #[test]
    fn retry_after_holds_where_a_status_says_so() {
        let after = |status: u16, value: &'static str| {
            let headers = [(http::header::RETRY_AFTER, HeaderValue::from_static(value))];
            let (status, headers) =
                (StatusCode::from_u16(status).unwrap(), headers.into_iter().collect());
            let found = retry_after(status, &headers, NOW, MAX);
            assert!(found.is_none() || concerns_pace(status, &headers), "{status}");
            found
        };
        for status in [403, 413, 420, 429, 502, 503, 504, 509, 529, 530] {
            assert_eq!(after(status, "1"), Some(SECOND), "{status}");
            assert_eq!(after(status, "0"), None, "{status}");
            assert_eq!(after(status, "31536000"), Some(MAX), "{status}");
        }
        for status in [301, 302, 303, 307, 308] {
            assert_eq!(
                (after(status, "1"), after(status, "2")),
                (None, Some(2 * SECOND)),
                "{status}"
            );
        }
        for status in [200, 202, 206, 400, 401, 404, 410, 500, 501] {
            assert_eq!(after(status, "60"), None, "{status}");
        }
    }
}
