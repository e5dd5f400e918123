//! The preference `wait` of a request (RFC 7240 §4.3): how long its client waits for the response.

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;

use crate::types::http_time;

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The time that the client prefers to wait at most. The first counts (§2).
pub fn wait(headers: &HeaderMap) -> Option<Duration> {
    let fields = headers.get_all(&PREFER).iter().filter_map(|value| value.to_str().ok());
    let preferences = fields.flat_map(|value| value.split(','));
    let mut waits = preferences.filter_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("wait").then(|| http_time::seconds(value))
    });
    waits.next().flatten()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_first_wait_of_a_request_is_read() {
        for (value, expected) in [
            ("wait=5", Some(5)),
            ("respond-async, Wait=\"7\"", Some(7)),
            ("wait = 3; x=y, wait=9", Some(3)),
            ("wait", None),
            ("wait=soon, wait=2", None),
            ("waits=2", None),
            ("", None),
        ] {
            let headers = [(PREFER, HeaderValue::from_static(value))].into_iter().collect();
            assert_eq!(wait(&headers), expected.map(Duration::from_secs), "{value}");
        }
        assert_eq!(wait(&HeaderMap::new()), None);
    }
}
