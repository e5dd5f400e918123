//! The wait of a request.

use std::time::Duration;

use super::refused::WaitReason;

/// How long a request waited for its turn, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub time: Duration,
    pub by: WaitReason,
    /// The line of the robots.txt, if a record of it is the reason.
    pub line: Option<u32>,
    /// The delay between two starts, if that is the reason.
    pub delay: Duration,
}
