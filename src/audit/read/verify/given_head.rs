//! A head that a log is to be held against, and where it comes from.

use crate::audit::Head;
use crate::types::LogId;

/// Where a head comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// It was published out of reach of those who write to the log.
    Published,
    /// A shared engine has seen it, with the beats of the proxy.
    Witnessed,
    /// It is in `head.json` beside the log, and can be forged together with it.
    Noted,
}

/// A head that a log is to be held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenHead {
    pub head: Head,
    /// The log that it is of, where it names one.
    pub log: Option<LogId>,
    pub source: HeadSource,
}

impl GivenHead {
    /// A head that was published.
    pub const fn published(head: Head) -> Self {
        Self { head, log: None, source: HeadSource::Published }
    }

    /// A head that a shared engine has seen.
    pub const fn witnessed(head: Head) -> Self {
        Self { head, log: None, source: HeadSource::Witnessed }
    }

    /// The same, of this log.
    pub fn of_log(self, log: Option<LogId>) -> Self {
        Self { log, ..self }
    }
}
