//! The `Via` header (RFC 9110 §7.6.3), and loops that it shows.

use http::Version;
use http::header::{HeaderMap, HeaderValue, VIA};

/// The proxy's entry in `Via`: a pseudonym, and a comment by which this process recognises its own
/// messages.
#[derive(Clone, Debug)]
pub struct Via {
    /// For messages received by HTTP/1.0, HTTP/1.1 and HTTP/2. They are made once, not per message.
    entries: Option<[HeaderValue; 3]>,
    mark: String,
}

impl Via {
    /// An entry with a `pseudonym`, which is a token; with `None` no entry is appended.
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

    /// Appends the entry, with the protocol that the message was received by.
    pub fn append(&self, headers: &mut HeaderMap, version: Version) {
        let Some([http10, http11, http2]) = &self.entries else { return };
        let entry = match version {
            Version::HTTP_10 => http10,
            Version::HTTP_2 => http2,
            _ => http11,
        };
        headers.append(VIA, entry.clone());
    }

    /// Whether the request has passed through this process before.
    pub fn is_looping(&self, headers: &HeaderMap) -> bool {
        let has_mark = |value: &HeaderValue| {
            memchr::memmem::find(value.as_bytes(), self.mark.as_bytes()).is_some()
        };
        headers.get_all(VIA).iter().any(has_mark)
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
