//! The log of denied requests: the records and their hash chain (`record`), the writer that appends
//! a line for each before the response is sent (`write`), the readers (`read`), and the evidence
//! that records name (`evidence`). Decides nothing and depends on no HTTP.

pub mod checkpoint;
pub mod evidence;
pub mod read;
pub mod record;
pub mod segment;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod tree;
mod write;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::policy::exemption::PathPattern;
pub use crate::policy::reason::Reason;
use crate::types::words::words;
pub use evidence::{BlobName, EvidenceIndex};
pub use record::Node;
pub use record::chain::{AnyLine, Content, Head, LineError, checked_hash, checked_seq, split};
pub use record::change_record::{
    Change, Changed, ChangesOmitted, Omission, ReloadTrigger, SampledRequests, SettingsChanged,
    Side, Touched,
};
pub use record::client::{Client, ClientAddress, KeptClients};
pub use record::denial_record::{
    Allowed, Exemption, Group, PaceExemption, Paced, Profile, Record, Rule, new_id, read_as_clause,
};
pub use record::event::{
    AgentSource, AllowedEvent, AllowedReason, ChangedEvent, ChangesOmittedEvent, CheckpointEvent,
    CountsEvent, Event, EvidenceLostEvent, FileEvent, GapEvent, OperatedEvent, PacedEvent,
    PrunedEvent, PublishedEvent, PulseEvent, RewoundEvent, RobotsStatus, SettingsEvent,
    StartedEvent, StoppedEvent, TornEvent, TotalsEvent,
};
pub use record::line_kind::LineKind;
pub use record::meta_record::{
    Checkpointed, EvidenceLost, EvidenceRefs, Gap, Notice, Operated, Operation, Pruned, Published,
    Pulse, RecordedCounts, Rewound, RobotsFile, SiteCounts, StartMode, Started, Stopped, Torn,
    Totals,
};
pub use record::robots_record::{Robots, SharedRobots};
pub use record::time::{parse as parse_time, print as print_time};
pub use segment::{FILE_NAME, HEAD_NAME, read_head, read_key, read_log_id};
pub use write::health::Health;
pub use write::recover::{check, is_written};
pub use write::writer::Writer;
pub use write::writer_handle::{
    CloseError, ForgetError, OpenError, WriteError, WriterHandle, Written,
};

/// The settings of the log.
#[derive(Clone, Debug)]
pub struct Config {
    pub dir: PathBuf,
    pub sync: Sync,
    pub on_failure: OnFailure,
    /// Bytes after which a segment is closed.
    pub rotate_size: u64,
    /// How long closed segments are kept; none: for ever.
    pub retain: Option<Duration>,
    /// How many bytes the log and its evidence may take before the oldest closed segments are
    /// removed; none: no limit.
    pub retain_size: Option<u64>,
    /// What records say of the client.
    pub clients: KeptClients,
    /// Whether the values of queries are replaced by keyed hashes.
    pub redact_query: bool,
    /// Paths of which parts are replaced by keyed hashes.
    pub redact_paths: Vec<PathPattern>,
    /// The name of this proxy in its lines; none: its lines have no `node`.
    pub node: Option<Node>,
    /// The file of the key that signs checkpoints, made at the first start; none: there are none.
    pub key: Option<PathBuf>,
}

/// The current settings: the writer, its thread and retention read them at each use.
type CurrentConfig = Arc<ArcSwap<Config>>;

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

/// Of which allowed requests there is a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedLines {
    /// Of none: they are counted.
    Counts,
    /// Of one in so many, drawn at random.
    Sample(NonZeroU32),
    All,
}

impl AllowedLines {
    /// Whether the next one has a line.
    pub fn take(self) -> bool {
        match self {
            Self::Counts => false,
            Self::Sample(every) => fastrand::u32(..every.get()) == 0,
            Self::All => true,
        }
    }
}

impl Config {
    /// The defaults, in `dir`.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            sync: Sync::Batch,
            on_failure: OnFailure::Deny,
            rotate_size: 128 << 20,
            retain: None,
            retain_size: None,
            clients: KeptClients::Plain,
            redact_query: false,
            redact_paths: Vec::new(),
            node: None,
            key: None,
        }
    }
}

/// Profiles under which one origin is remembered. More can only come of reloaded settings.
pub const PROFILES_PER_ORIGIN_MAX: usize = 16;

/// Bytes of a URL that a denial record keeps. With the other bounds, and every byte of the texts
/// escaped at its worst, a record stays under [`RECORD_LINE_BYTES_MAX`].
pub const RECORD_URL_BYTES_MAX: usize = 8 << 10;

/// Bytes of a User-Agent, or of any other text of a request, that a denial record keeps.
pub const RECORD_TEXT_BYTES_MAX: usize = 2 << 10;

/// Bytes of a path pattern that a denial record keeps.
pub const RECORD_PATTERN_BYTES_MAX: usize = 2 << 10;

/// Bytes of one denial record, its line end included: what readers need to hold.
pub const RECORD_LINE_BYTES_MAX: usize = 64 << 10;

/// Records that wait for the writer; a request that would be one more waits itself.
pub const RECORDS_WAITING_MAX: usize = 1024;

/// The age of its first line at which a segment is closed: a day's records become a file that is
/// compressed and can be handed on, however few they are.
pub const ROTATE_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How often the place of the log is checked, and what could not be written is tried again, so that
/// it heals without traffic.
pub const AUDIT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Lines in a row that are nowhere, as those that an earlier version has pruned, and still have their place in the
/// tree of a log: each takes 32 bytes in its tiles.
pub const TREE_LINES_ABSENT_MAX: u64 = 1 << 24;

/// How often the files of a log are listed again because some were renamed meanwhile.
pub const LISTINGS_MAX: usize = 100;

/// Bytes of one blob that are read back; more than any `robots.max_size` in use.
pub const EVIDENCE_BYTES_MAX: u64 = 64 << 20;

/// Faults of a log that are described, and notes; the others are counted.
pub const FAULTS_DESCRIBED_MAX: usize = 20;

/// Captures that an archive of evidence is known to have; of more, one may be in it again.
pub const ARCHIVE_CAPTURES_MAX: usize = 800_000;

/// Pieces of evidence in a bundle.
pub const BUNDLE_ENTRIES_MAX: usize = 200_000;
