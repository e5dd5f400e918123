//! The log of denials.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::audit::checkpoint::KEY_NAME;
use crate::audit::{self, AllowedLines, KeptClients, OnFailure, Sync};
use crate::config::units;
use crate::config::values::{NodeName, Retain, RetainSize};
use crate::policy::exemption::PathPattern;

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
    /// The size at which a file of records is closed.
    #[serde(with = "units::size")]
    pub rotate_size: u64,
    /// How long closed files are kept.
    pub retain: Retain,
    /// The size of the log and its evidence.
    pub retain_size: RetainSize,
    /// Of which allowed requests there is a line; absent: of none, and of all of a run.
    pub allowed: Option<AllowedLines>,
    /// What records say of the client.
    pub clients: KeptClients,
    /// Whether the values of a URL's query are replaced by keyed hashes.
    pub redact_query: bool,
    /// Paths of which parts are replaced by keyed hashes.
    pub redact_paths: Vec<PathPattern>,
    /// The command that each checkpoint is given to, and its arguments; empty: none.
    pub publish: Vec<String>,
    /// The name of this proxy in its records; absent: that of its host.
    pub node: Option<NodeName>,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            dir: None,
            sync: Sync::Batch,
            on_failure: OnFailure::Deny,
            rotate_size: 128 * MIB,
            retain: Retain(None),
            retain_size: RetainSize(None),
            allowed: None,
            clients: KeptClients::Plain,
            redact_query: false,
            redact_paths: Vec::new(),
            publish: Vec::new(),
            node: None,
        }
    }
}

impl Audit {
    /// The directory of the records, where `state_dir` is that of the state.
    pub fn dir(&self, state_dir: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| state_dir.join("audit"))
    }

    /// The configuration of the log of denials, where `state_dir` is the directory of the state. Its
    /// node is to be set.
    pub fn build(&self, state_dir: &Path) -> audit::Config {
        audit::Config {
            dir: self.dir(state_dir),
            sync: self.sync,
            on_failure: self.on_failure,
            rotate_size: self.rotate_size,
            retain: self.retain.0,
            retain_size: self.retain_size.0,
            clients: self.clients,
            redact_query: self.redact_query,
            redact_paths: self.redact_paths.clone(),
            node: None,
            key: (!state_dir.as_os_str().is_empty()).then(|| state_dir.join(KEY_NAME)),
        }
    }
}

/// `[store]`: the file of the state directory.
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
