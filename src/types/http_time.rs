//! Times in header fields: dates (RFC 9110 §5.6.7), delta-seconds (RFC 9111 §1.2.2), Retry-After
//! (RFC 9110 §10.2.3).

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};

use crate::types::timestamp::Timestamp;

/// Retry-After, in seconds or as a date relative to the response's own `Date`; zero if that is past.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    seconds(value).or_else(|| Some(date_of(headers, now).until(date(value)?)))
}

/// The response's `Date`, or `now` without a valid one.
pub fn date_of(headers: &HeaderMap, now: Timestamp) -> Timestamp {
    text(headers, &DATE).and_then(date).unwrap_or(now)
}

/// The value of the first field of that name.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// RFC 9111 §1.2.2 delta-seconds: an overflow means a very long time, not an error.
pub fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))))
}

/// An HTTP date, in each of its three forms.
pub fn date(text: &str) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since_epoch = date.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Some(Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        fields.collect()
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (fields, expected) in [
            (vec![("retry-after", "120")], Some(120)),
            (vec![DATE, ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60)),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "-5")], None),
            (vec![], None),
        ] {
            assert_eq!(
                retry_after(&headers(&fields), NOW),
                expected.map(Duration::from_secs),
                "{fields:?}"
            );
        }
    }

    /// RFC 9110 §5.6.7.
    #[test]
    fn a_date_is_read_in_each_of_its_forms() {
        let expected = Some(Timestamp::from_millis(784_111_777_000));
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(date(text), expected, "{text}");
        }
        assert_eq!(
            date("Wednesday, 25-Nov-26 22:44:19 GMT"),
            date("Wed, 25 Nov 2026 22:44:19 GMT")
        );
        for text in ["", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT"] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
