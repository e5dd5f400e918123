//! The denied-request log: what a record says, its chain, its files, and the writer that puts one
//! line in the file for each before the answer goes out. Decides nothing and knows no HTTP; it is
//! told what happened.

mod changed;
mod config;
pub mod evidence;
mod evidence_writer;
mod exhibits;
mod grounds;
mod head;
mod health;
mod journal;
mod keeper;
pub mod limits;
mod line;
mod lock;
mod node;
mod notice;
mod page;
mod place;
pub mod read;
mod record;
mod redact;
mod scribe;
pub mod segment;
mod start;
mod tend;
#[cfg(test)]
mod tests;
mod time;
mod watchdog;
mod words;
mod work;
mod writer;

pub use changed::{Changed, ChangesOmitted, Omission, SampledRequests, Side, Touched};
pub use config::{Config, OnFailure, Sync};
pub use exhibits::{ExhibitName, Naming};
pub use grounds::Grounds;
pub use head::{HEAD_NAME, read_head};
pub use health::Health;
pub use keeper::Inventory;
pub use line::{Content, Head, LineError, checked_hash, checked_seq, split};
pub use lock::is_written;
pub use node::Node;
pub use notice::{
    Change, ChangedEvent, ChangesOmittedEvent, Gap, GapEvent, How, Notice, Pruned, PrunedEvent,
    Recorded, SettingsChanged, SettingsEvent, Started, StartedEvent, Stopped, StoppedEvent, Torn,
    TornEvent, Totals, TotalsEvent, Who,
};
pub use record::{Client, Exemption, Group, Profile, Record, Robots, Rule, mended, new_id};
pub use segment::FILE_NAME;
pub use start::check;
pub use time::{parse as parse_time, print as print_time};
pub use words::{AgentSource, Event, RobotsStatus};

pub use crate::policy::reason::Reason;
pub use writer::{CloseError, Desk, ForgetError, OpenError, WriteError, Writer, Written};
