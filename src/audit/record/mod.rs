//! What the log says: the records of decisions, the notices of the log about itself, and the hash chain
//! that binds their lines.

pub mod chain;
pub mod change_record;
pub mod client;
pub mod denial_record;
pub mod event;
mod hidden_path;
pub mod line_kind;
pub mod meta_record;
pub mod raw_record;
pub mod redact;
pub mod robots_record;
pub mod time;
pub mod verifier_key;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Shared by all lines of a writer: to name it in each costs no memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(Arc<str>);

impl Node {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Node {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self(name.into()))
    }
}
