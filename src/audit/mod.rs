//! The log of denied requests: the records and their hash chain (`record`), the writer that appends
//! a line for each before the response is sent (`write`), the readers (`read`), and the evidence
//! that records name (`evidence`). Decides nothing and depends on no HTTP.

mod config;
pub mod evidence;
pub mod limits;
mod private_file;
pub mod read;
mod record;
pub mod segment;
#[cfg(test)]
mod tests;
mod write;

pub use config::{Config, OnFailure, Sync};
pub use evidence::{BlobName, EvidenceIndex};
pub use record::chain::{AnyLine, Content, Head, LineError, checked_hash, checked_seq, split};
pub use record::chain_head::{HEAD_NAME, read_head, read_log_id};
pub use record::change_record::{
    Changed, ChangesOmitted, Omission, SampledRequests, Side, Touched,
};
pub use record::denial_record::{
    Client, Exemption, Group, Profile, Record, Rule, new_id, read_as_clause,
};
pub use record::event::{AgentSource, Event, RobotsStatus};
pub use record::evidence_refs::EvidenceRefs;
pub use record::line_kind::LineKind;
pub use record::meta_event::{
    ChangedEvent, ChangesOmittedEvent, EvidenceLostEvent, GapEvent, PacedEvent, PrunedEvent,
    RewoundEvent, SettingsEvent, StartedEvent, StoppedEvent, TornEvent, TotalsEvent,
};
pub use record::meta_record::{
    EvidenceLost, Gap, Notice, Pruned, Recorded, Rewound, StartMode, Started, Stopped, Torn, Totals,
};
pub use record::node::Node;
pub use record::paced_record::{PaceExemption, Paced};
pub use record::robots_record::Robots;
pub use record::settings_record::{Change, ReloadTrigger, SettingsChanged};
pub use record::shared_robots::SharedRobots;
pub use record::time::{parse as parse_time, print as print_time};
pub use segment::FILE_NAME;
pub use write::handle::WriterHandle;
pub use write::health::Health;
pub use write::lock::is_written;
pub use write::message::{CloseError, ForgetError, OpenError, WriteError, Written};
pub use write::recover::check;
pub use write::writer::Writer;

pub use crate::policy::reason::Reason;
