//! The `Expect` header (RFC 9110 §10.1.1).

use http::Version;
use http::header::{EXPECT, HeaderMap, HeaderValue};

use crate::proxy::outcome::rejection::Rejection;

/// Refuses an expectation other than `100-continue`. One in HTTP/1.0 is ignored.
pub fn check_expectation(headers: &HeaderMap, version: Version) -> Result<(), Rejection> {
    let mut expectations = headers.get_all(EXPECT).iter();
    let is_met = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if version < Version::HTTP_11 || expectations.all(is_met) {
        Ok(())
    } else {
        Err(Rejection::expectation_failed())
    }
}
