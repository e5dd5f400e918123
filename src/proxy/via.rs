//! Through whom a message has come (RFC 9110 §7.6.3).

use http::Version;
use http::header::{HeaderMap, HeaderValue, VIA};

/// Our name in `Via` (RFC 9110 §7.6.3): a pseudonym, and a comment by which this very process
/// recognises its own messages.
#[derive(Clone, Debug)]
pub struct Via {
    /// For messages received in HTTP/1.0, HTTP/1.1 and HTTP/2: made once, they cost a message nothing.
    entries: Option<[HeaderValue; 3]>,
    mark: String,
}

impl Via {
    /// With `None` requests and responses pass without a `Via` of ours. A pseudonym is a token.
    pub fn new(pseudonym: Option<&str>, mark: &str) -> Self {
        let mark = format!("({mark})");
        let entry = |pseudonym: &str, version| {
            HeaderValue::try_from(format!("{version} {pseudonym} {mark}"))
                .expect("a token is visible ASCII")
        };
        let entries =
            pseudonym.map(|pseudonym| ["1.0", "1.1", "2"].map(|version| entry(pseudonym, version)));
        Self { entries, mark }
    }

    /// Appends our entry; the protocol is the one the message was received by.
    pub fn append(&self, fields: &mut HeaderMap, received: Version) {
        let Some([http10, http11, http2]) = &self.entries else { return };
        let entry = match received {
            Version::HTTP_10 => http10,
            Version::HTTP_2 => http2,
            _ => http11,
        };
        fields.append(VIA, entry.clone());
    }

    /// Whether the request has passed through this very process before.
    pub fn is_looping(&self, fields: &HeaderMap) -> bool {
        let has_mark = |value: &HeaderValue| {
            memchr::memmem::find(value.as_bytes(), self.mark.as_bytes()).is_some()
        };
        fields.get_all(VIA).iter().any(has_mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_back_to_this_process_is_a_loop() {
        let ours = Via::new(Some("courtesy"), "a1");
        let other = Via::new(Some("courtesy"), "b2");
        let mut map = HeaderMap::new();
        map.append(VIA, HeaderValue::from_static("1.0 edge"));
        other.append(&mut map, Version::HTTP_11);
        assert!(!ours.is_looping(&map));
        ours.append(&mut map, Version::HTTP_10);
        assert!(ours.is_looping(&map));
        assert_eq!(map.get_all(VIA).iter().next_back().unwrap(), "1.0 courtesy (a1)");
    }
}
