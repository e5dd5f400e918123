//! How the log is to be kept.

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
    /// How long the disk may take for one thing that is asked of it; then it counts as one that cannot be
    /// written.
    pub write_timeout: Duration,
    /// Bytes after which a segment is closed.
    pub rotate_size: u64,
    /// The age of its first line after which a segment is closed.
    pub rotate_age: Duration,
    /// How long closed segments are kept; none: for ever.
    pub retain: Option<Duration>,
    /// How many bytes the log and its evidence may take before the oldest closed segments go; none: any
    /// number.
    pub retain_size: Option<u64>,
    /// Whether the values of queries are replaced by keyed hashes.
    pub redact_query: bool,
    /// What this proxy is called in its lines; none: not at all.
    pub node: Option<Node>,
}

/// The settings as they are now: the writer, its thread and the keeper read them at each use.
pub(super) type Current = Arc<ArcSwap<Config>>;

words! {
    /// When what was written is brought to the disk itself: what a power cut may take. A killed process
    /// loses nothing in either case.
    pub enum Sync {
        /// Before the answer.
        Each = "each",
        /// At most 100 ms after it.
        Batch = "batch",
        /// When the system likes.
        None = "none",
    }
}

words! {
    /// What becomes of requests while records cannot be written.
    pub enum OnFailure {
        /// Denials go on without a record, and so does what is forwarded.
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
