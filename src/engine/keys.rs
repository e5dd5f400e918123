//! The keys of an engine, one hash tag for each lane: all that is shared of an origin, and of the
//! lane that it shares with the other scheme of its host, is in one slot of a cluster.

use std::borrow::Cow;

use sha2::{Digest, Sha256 as Hash};

use super::files::Sha256;
use crate::types::origin::Origin;
use crate::types::sanitize::hex;

/// The major format of keys and scripts. Another one is another data set.
const MAJOR: &str = "1";
/// A longer name of a group is stored as its digest.
const GROUP_BYTES_MAX: usize = 64;

/// The keys under one prefix.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// The keys of the proxies whose `engine.prefix` this is.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}:{MAJOR}") }
    }

    /// A key of an origin: `known` or `lease`.
    pub fn of(&self, origin: &Origin, name: &str) -> Vec<u8> {
        let (lane, scheme) = (origin.lane(), origin.scheme().as_str());
        let own = if *lane == *origin { String::new() } else { format!("{scheme}:") };
        format!("{}:{{{lane}}}:{own}{name}", self.prefix).into_bytes()
    }

    /// A key of the lane of an origin: `pace` or `presence`.
    pub fn of_lane(&self, origin: &Origin, name: &str) -> Vec<u8> {
        format!("{}:{{{}}}:{name}", self.prefix, origin.lane()).into_bytes()
    }

    /// The key of a file.
    pub fn file(&self, sha256: &Sha256) -> Vec<u8> {
        format!("{}:file:{}", self.prefix, hex(sha256)).into_bytes()
    }

    /// The key of the process that has a name.
    pub fn name(&self, name: &str) -> Vec<u8> {
        self.cluster(&format!("name:{}", group(name)))
    }

    /// A key of the proxies themselves: `members`, `about`, `epoch` or `heads`.
    pub fn cluster(&self, name: &str) -> Vec<u8> {
        format!("{}:{{cluster}}:{name}", self.prefix).into_bytes()
    }
}

/// The name of a group as it is stored.
pub(super) fn group(name: &str) -> Cow<'_, str> {
    if name.len() <= GROUP_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("#{}", hex(&Hash::digest(name.as_bytes())[..16])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    #[test]
    fn all_keys_of_a_lane_have_one_hash_tag() {
        let keys = Keys::new("courtesy");
        for (scheme, authority, tag, own) in [
            (Scheme::Https, "example.com:8443", "https://example.com:8443", ""),
            (Scheme::Http, "example.com:8080", "http://example.com:8080", ""),
            (Scheme::Http, "example.com:443", "http://example.com:443", ""),
            (Scheme::Https, "example.com", "https://example.com", ""),
            (Scheme::Http, "example.com", "https://example.com", "http:"),
        ] {
            let origin = Origin::from_authority(scheme, authority).unwrap();
            let known = String::from_utf8(keys.of(&origin, "known")).unwrap();
            assert_eq!(known, format!("courtesy:1:{{{tag}}}:{own}known"));
            let pace = String::from_utf8(keys.of_lane(&origin, "pace")).unwrap();
            assert_eq!(pace, format!("courtesy:1:{{{tag}}}:pace"));
        }
        assert_eq!(keys.cluster("epoch"), b"courtesy:1:{cluster}:epoch");
        let file = String::from_utf8(keys.file(&[0xab; 32])).unwrap();
        assert_eq!(file, format!("courtesy:1:file:{}", "ab".repeat(32)));
    }

    #[test]
    fn a_long_name_of_a_group_is_stored_as_its_digest() {
        assert_eq!(group("examplebot"), "examplebot");
        let (one, other) = ("x".repeat(65), "y".repeat(6500));
        assert_eq!(group(&one).len(), 33);
        assert_ne!(group(&one), group(&other));
    }
}
