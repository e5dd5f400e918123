//! The status of a denial.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::config::units;

/// `[deny]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deny {
    #[serde(with = "units::status")]
    pub status: StatusCode,
    /// The status of a denial because robots.txt is unreachable.
    #[serde(with = "units::status")]
    pub unreachable_status: StatusCode,
}

impl Default for Deny {
    fn default() -> Self {
        Self { status: StatusCode::FORBIDDEN, unreachable_status: StatusCode::FORBIDDEN }
    }
}
