//! The settings of the log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::record::node::Node;
use crate::types::words::words;

/// The settings of the log.
#[derive(Clone, Debug)]
pub struct Config {
    pub dir: PathBuf,
    pub sync: Sync,
    pub on_failure: OnFailure,
    /// How long one operation on the disk may take before it counts as failed.
    pub write_timeout: Duration,
    /// Bytes after which a segment is closed.
    pub rotate_size: u64,
    /// The age of its first line after which a segment is closed.
    pub rotate_age: Duration,
    /// How long closed segments are kept; none: for ever.
    pub retain: Option<Duration>,
    /// How many bytes the log and its evidence may take before the oldest closed segments are
    /// removed; none: no limit.
    pub retain_size: Option<u64>,
    /// Whether the values of queries are replaced by keyed hashes.
    pub redact_query: bool,
    /// The name of this proxy in its lines; none: its lines have no `node`.
    pub node: Option<Node>,
}

/// The current settings: the writer, its thread and retention read them at each use.
pub(super) type CurrentConfig = Arc<ArcSwap<Config>>;

words! {
    /// When written lines are synced to the disk, and so what a power cut may take. A killed
    /// process loses nothing in any case.
    pub enum Sync {
        /// Before the response.
        Each = "each",
        /// At most 100 ms after the response.
        Batch = "batch",
        /// When the operating system writes its cache back.
        None = "none",
    }
}

words! {
    /// What happens to requests while records cannot be written.
    pub enum OnFailure {
        /// Requests are decided as before; denials have no record.
        Deny = "deny",
        /// Nothing is served until records can be written again.
        Stop = "stop",
    }
}

impl Config {
    /// The defaults, in `dir`.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            sync: Sync::Batch,
            on_failure: OnFailure::Deny,
            write_timeout: Duration::from_secs(10),
            rotate_size: 128 << 20,
            rotate_age: Duration::from_secs(24 * 60 * 60),
            retain: None,
            retain_size: None,
            redact_query: false,
            node: None,
        }
    }
}
