//! The freshness of a response (RFC 9111 §4.2, §5.2, §5.3), as facts. The profile decides what they
//! mean.

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, CACHE_CONTROL, EXPIRES};

use crate::policy::access::Freshness;
use crate::types::http_time::{date, date_of, seconds, text};
use crate::types::timestamp::Timestamp;

pub(super) fn freshness(headers: &HeaderMap, now: Timestamp) -> Freshness {
    let mut found = Freshness { expires_in: expires_in(headers, now), ..Freshness::default() };
    for directive in directives(headers) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-cache" | "no-store" => found.no_cache = true,
            // RFC 9111 §4.2.1: the shortest of several; an invalid number means stale.
            "max-age" => {
                let age = seconds(value.trim().trim_matches('"')).unwrap_or_default();
                found.max_age = Some(found.max_age.map_or(age, |known| known.min(age)));
            }
            _ => {}
        }
    }
    // RFC 9111 §4.2.3: time spent in caches counts.
    let age = text(headers, &AGE).and_then(seconds).unwrap_or_default();
    found.max_age = found.max_age.map(|max_age| max_age.saturating_sub(age));
    found
}

/// RFC 9111 §5.3: an invalid `Expires`, in particular "0", means already expired.
fn expires_in(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    headers.contains_key(EXPIRES).then(|| {
        let expires = text(headers, &EXPIRES).and_then(date);
        expires.map(|expires| date_of(headers, now).until(expires)).unwrap_or_default()
    })
}

fn directives(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(','))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HeaderName;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        fields.collect()
    }

    #[track_caller]
    fn check(
        fields: &[(&'static str, &'static str)],
        max_age: Option<u64>,
        expires: Option<u64>,
        no_cache: bool,
    ) {
        let expected = Freshness {
            max_age: max_age.map(Duration::from_secs),
            expires_in: expires.map(Duration::from_secs),
            no_cache,
        };
        assert_eq!(freshness(&headers(fields), NOW), expected, "{fields:?}");
    }

    #[test]
    fn cache_control_is_read_as_rfc_9111_says() {
        check(&[], None, None, false);
        check(&[("cache-control", "public, Max-Age=600")], Some(600), None, false);
        check(&[("cache-control", "max-age=\"600\"")], Some(600), None, false);
        check(&[("cache-control", "max-age=600, max-age=60")], Some(60), None, false);
        check(&[("cache-control", "max-age=-1")], Some(0), None, false);
        check(
            &[("cache-control", "max-age=99999999999999999999")],
            Some(u64::from(u32::MAX)),
            None,
            false,
        );
        check(&[("cache-control", "no-store")], None, None, true);
        check(&[("cache-control", "max-age=600,no-cache")], Some(600), None, true);
        check(&[("cache-control", "max-age=600"), ("age", "100")], Some(500), None, false);
    }

    #[test]
    fn expires_is_counted_from_the_answers_own_date() {
        const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[DATE, ("expires", "Sun, 06 Nov 1994 09:49:37 GMT")], None, Some(3600), false);
        check(&[DATE, ("expires", "Sun, 06 Nov 1994 07:49:37 GMT")], None, Some(0), false);
        check(&[DATE, ("expires", "0")], None, Some(0), false);
        // Relative to now without a `Date`.
        check(&[("expires", "Sun, 06 Nov 1994 09:49:37 GMT")], None, Some(0), false);
    }
}
