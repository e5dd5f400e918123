//! The logs of a report on several: each has a chain of its own.

use serde::Serialize;

use super::summary::Log;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedLog {
    /// Its directory.
    pub dir: String,
    #[serde(flatten)]
    pub log: Log,
}

impl Log {
    /// The sum of several logs. A chain has a head and a first line, several have none.
    pub(super) fn together(logs: &[NamedLog]) -> Self {
        let all = || logs.iter().map(|named| &named.log);
        Self {
            head: None,
            first_seq: None,
            lines: all().map(|log| log.lines).fold(0, u64::saturating_add),
            since: all().filter_map(|log| log.since).min(),
            until: all().filter_map(|log| log.until).max(),
        }
    }
}
