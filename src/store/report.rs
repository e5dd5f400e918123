//! What is known of an origin, as shown to operators.

use serde::{Deserialize, Serialize};

use super::convert::Blobs;
use super::persisted::Persisted;
use crate::pace::{KeptHold, LaneView};
use crate::robots::{self, Dialect};
use crate::types::origin::Origin;

/// What is known of one origin, as shown to operators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub origin: String,
    #[serde(flatten)]
    pub persisted: Persisted,
    /// The number of lines of the file that [`Persisted::shown`] has, if it was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// When requests may start there, if that is not at once; of a running proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<LaneView>,
    /// What the engine has of it; of a running proxy that shares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<EngineReport>,
}

/// What the engine has of one origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Why the engine does not respond; the rest says nothing then.
    pub fault: Option<String>,
    /// What a proxy has published last.
    pub known: Option<Persisted>,
    /// How many proxies send requests there.
    pub proxies: usize,
    /// The hold that all proxies obey.
    pub hold: Option<KeptHold>,
}

impl Report {
    /// Of an origin that is not in this proxy's store.
    pub fn unknown(origin: &Origin) -> Self {
        Self::new(origin.to_string(), Persisted::default(), &Blobs::default())
    }

    pub(super) fn new(origin: String, persisted: Persisted, blobs: &Blobs) -> Self {
        let (_, shown) = persisted.clone().shown();
        let file = shown.good.as_ref().and_then(|good| blobs.get(&good.file.sha256));
        Self {
            origin,
            lines: file.map(|file| line_count(file)),
            persisted,
            pace: None,
            shared: None,
        }
    }
}

/// A final line end starts no further line.
fn line_count(file: &[u8]) -> usize {
    let is_open = file.last().is_some_and(|byte| !b"\r\n".contains(byte));
    robots::lines(file, &Dialect::RFC9309).count().saturating_sub(usize::from(!is_open))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_people_do() {
        let files = [("", 0), ("a", 1), ("a\n", 1), ("a\r\nb", 2), ("a\rb\r", 2), ("\n\n", 2)];
        for (file, count) in files {
            assert_eq!(line_count(file.as_bytes()), count, "{file:?}");
        }
    }
}
