//! The store on disk.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::units;
use crate::store::disk;

const MIB: u64 = 1 << 20;

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

impl Store {
    /// The store on disk, if it is enabled. `pending_max` are the bytes of its write queue.
    pub fn build(&self, state_dir: &Path, pending_max: usize) -> Option<disk::Config> {
        self.enabled.then(|| disk::Config {
            size_max: self.max_size,
            pending_max,
            ..disk::Config::new(state_dir.join(disk::FILE_NAME))
        })
    }
}
