//! The effect of a denial.

use crate::types::words::words;

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
