//! Any fields say how long an answer may be kept, or do not: `max-age=0` and `no-store` beside them
//! always count, an `Age` never lengthens anything, and a number of seconds is that number.

use std::time::Duration;

use courtesy::store::fetch::probe::times;
use courtesy::types::timestamp::Timestamp;
use http::header::{AGE, CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Field lines.
pub fn holds(bytes: &[u8]) {
    let mut fields = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    }
    let (freshness, retry) = times(&fields, NOW);
    if let Some(seconds) = number(&fields, &RETRY_AFTER) {
        assert_eq!(retry, Some(Duration::from_secs(seconds)));
    }

    let mut older = fields.clone();
    older.insert(AGE, HeaderValue::from_static("86400"));
    let unaged = {
        let mut fields = fields.clone();
        fields.remove(AGE);
        times(&fields, NOW).0
    };
    assert!(freshness.max_age <= unaged.max_age && times(&older, NOW).0.max_age <= unaged.max_age);

    let with = |directive: &'static str| {
        let mut fields = fields.clone();
        fields.append(CACHE_CONTROL, HeaderValue::from_static(directive));
        times(&fields, NOW).0
    };
    assert_eq!(with("max-age=0").max_age, Some(Duration::ZERO));
    assert!(with("no-store").no_cache && with("private, No-Cache").no_cache);
    assert_eq!(with("no-store").max_age, freshness.max_age);
}

/// The value of the first such field, where it is a number that fits.
fn number(fields: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let text = fields.get(name)?.to_str().ok()?.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
