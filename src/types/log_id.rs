//! The identity of an audit log.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::sanitize::{from_hex, hex};

/// 16 random bytes, in hexadecimal where they are written. Of two logs, both the first of one proxy
/// and the one that was begun in its place, each has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// Parses 32 digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Serialize for LogId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LogId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("it is no identity of a log"))
    }
}
