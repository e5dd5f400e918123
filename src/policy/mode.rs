//! The effect of a denial.

use serde::{Deserialize, Serialize};

/// Whether a denial is enforced, or only recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Enforce,
    /// Forward what would be denied, and record that it would be.
    Observe,
}
