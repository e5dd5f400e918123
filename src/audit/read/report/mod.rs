//! The report of a period: counts over the lines of a log, in one pass and bounded memory. Nothing
//! here is printed; [`Report`] is data, and its JSON is a public interface.

mod events;
mod finish;
mod keys;
mod logs;
mod missing;
mod paced;
mod series;
mod site;
mod stretches;
mod summary;
mod survey;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod time_member;
mod usage;
mod verified;
mod writers;

pub use events::{Events, EventsByReason};
pub use finish::Request;
pub use keys::{
    AgentKey, ClientKey, ExemptionKey, NodeKey, OriginKey, PacedKey, ProfileKey, RuleKey,
};
pub use logs::{Log, NamedLog};
pub use missing::{LostRecords, Missing};
pub use paced::{PacedLine, PacedLines, PacedRequests, PacedTotals};
pub use series::{Bucket, ByReason, OverTime};
pub use site::Version;
pub use summary::*;
pub use survey::Survey;
pub use tally::Top;
pub use verified::Verified;
pub use writers::Writers;
