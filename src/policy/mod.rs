//! Decides what a robots.txt means. Pure: time is an argument, nothing here does I/O, logs or
//! fails.
//!
//! [`access`] describes how a fetch ended, [`state`] what is known of an origin after it, and
//! [`profile`] holds, as one table of knobs, everything on which the published texts differ.
//! [`change`] classifies what a new file changes. [`exemption`] holds the operator's exemptions
//! from all of them. [`reason`] is the table of the reasons for denials.

pub mod access;
pub mod change;
pub mod decision;
pub mod exemption;
pub mod pace;
pub mod profile;
pub mod reason;
pub mod state;

use std::time::Duration;

use crate::types::words::words;

pub use crate::robots::RETRY_AFTER_MAX;

/// How far into the future something may have been learnt before the clock must have been set back
/// and what is known cannot be dated.
pub const CLOCK_SET_BACK_MAX: Duration = Duration::from_secs(5 * 60);

words! {
    /// Whether a denial is enforced, or only recorded.
    #[derive(Default)]
    pub enum Mode {
        #[default]
        Enforce = "enforce",
        /// Forward what would be denied, and record that it would be.
        Observe = "observe",
    }
}
