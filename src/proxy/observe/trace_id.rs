//! The trace that a request belongs to (W3C Trace Context).

use http::HeaderName;
use http::header::HeaderMap;

/// W3C Trace Context §3.2.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace of a valid `traceparent` header (W3C Trace Context §3.2.2): version, trace, parent and
/// flags in lower-case hexadecimal digits. What a later version appends is ignored.
pub fn trace_id(headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let (field, None) = (given.next()?.as_bytes(), given.next()) else { return None };
    let (known, rest) = field.split_at_checked(55)?;
    let mut parts = known.split(|byte| *byte == b'-');
    let [version, trace, parent, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let is_hex = |part: &[u8], length| {
        part.len() == length && part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &[u8], length| is_hex(part, length) && part.iter().any(|byte| *byte != b'0');
    let ends = rest.is_empty() || version != b"00" && rest[0] == b'-';
    let is_valid = is_hex(version, 2)
        && version != b"ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2);
    (is_valid && ends).then(|| String::from_utf8_lossy(trace).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[track_caller]
    fn traced(fields: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(TRACEPARENT, field.parse().unwrap());
        }
        trace_id(&headers)
    }

    #[test]
    fn a_valid_traceparent_names_its_trace() {
        for valid in [
            "00-{}-00f067aa0ba902b7-01",
            "00-{}-00f067aa0ba902b7-00",
            "cc-{}-00f067aa0ba902b7-01-what",
        ] {
            assert_eq!(traced(&[&valid.replace("{}", TRACE)]).as_deref(), Some(TRACE), "{valid}");
        }
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let wrong = [
            "",
            "00",
            "00-{}-00f067aa0ba902b7",
            "00-{}-00f067aa0ba902b7-01-what",
            "00-{}-00f067aa0ba902b7-011",
            "ff-{}-00f067aa0ba902b7-01",
            "00-{}-0000000000000000-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-{}-00f067aa0ba902b7-zz",
            "00_{}_00f067aa0ba902b7_01",
        ];
        for wrong in wrong {
            assert_eq!(traced(&[&wrong.replace("{}", TRACE)]), None, "{wrong}");
        }
        let valid = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(traced(&[&valid, &valid]), None, "given twice");
        assert_eq!(traced(&[]), None);
    }
}
