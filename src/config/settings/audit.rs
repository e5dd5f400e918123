//! Output to disk and standard error: records, notices of changes, the store, log lines.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::OnFailure;
use crate::audit::Sync;
use crate::config::enums::LogFormat;
use crate::config::enums::LogLevel;
use crate::config::names::NodeName;
use crate::config::units;
use crate::config::values::Retain;
use crate::config::values::RetainSize;
use crate::watch::{Changes, PaceRecords};

const MIB: u64 = 1 << 20;

/// `[audit]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// The directory of the denial records; absent: `audit` in the state directory.
    pub dir: Option<PathBuf>,
    /// When records are synchronised to the disk.
    pub sync: Sync,
    /// How requests are answered while records cannot be written.
    pub on_failure: OnFailure,
    /// The timeout of one disk operation.
    #[serde(with = "units::duration")]
    pub write_timeout: Duration,
    /// The size at which a file of records is closed.
    #[serde(with = "units::size")]
    pub rotate_size: u64,
    /// The age at which a file of records is closed.
    #[serde(with = "units::duration")]
    pub rotate_age: Duration,
    /// How long closed files are kept.
    pub retain: Retain,
    /// The size of the log and its evidence.
    pub retain_size: RetainSize,
    /// Whether the values of a URL's query are replaced by keyed hashes.
    pub redact_query: bool,
    /// The name of this proxy in its records; absent: that of its host.
    pub node: Option<NodeName>,
    /// Whether the delays that robots.txt files ask for are recorded.
    pub pace: PaceRecords,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            dir: None,
            sync: Sync::Batch,
            on_failure: OnFailure::Deny,
            write_timeout: Duration::from_secs(10),
            rotate_size: 128 * MIB,
            rotate_age: Duration::from_hours(24),
            retain: Retain(None),
            retain_size: RetainSize(None),
            redact_query: false,
            node: None,
            pace: PaceRecords::Changes,
        }
    }
}

/// Changes of robots.txt files.
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

/// `[store]`: the store on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    pub enabled: bool,
    /// Bytes on the disk.
    #[serde(with = "units::size")]
    pub max_size: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self { enabled: true, max_size: 1024 * MIB }
    }
}

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
