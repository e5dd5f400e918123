//! The program's own log, on standard error.

use serde::{Deserialize, Serialize};

use crate::config::enums::{LogFormat, LogLevel};

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info }
    }
}
