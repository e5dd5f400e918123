//! Notices of changes of robots.txt files.

use serde::{Deserialize, Serialize};

use crate::watch::Changes;

/// `[watch]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// The changes that have a notice in the log of denials.
    pub changes: Changes,
}

impl Default for Watch {
    fn default() -> Self {
        Self { changes: Changes::Meaning }
    }
}
