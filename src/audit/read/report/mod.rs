//! The report of a period: counts over the lines of a log, in one pass and bounded memory. Nothing
//! here is printed; [`Report`] is data, and its JSON is a public interface.

mod events;
mod missing;
mod register;
mod series;
mod site;
mod summary;
mod survey;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;

pub use events::{Events, EventsByReason};
pub use missing::{Kill, Log, LostRecords, Missing, NamedLog, Writers};
pub use register::{ExemptionRegister, RegisterStatus, RegisteredExemption};
pub use series::{Bucket, ByReason, OverTime};
pub use site::{
    FetchedRow, FetchedSites, PacedLine, PacedLines, PacedRequests, PacedTotals, Version,
};
pub use summary::Verified;
pub use summary::*;
pub use survey::{Request, Survey};
pub use tally::{
    AgentKey, ClientKey, ExemptionKey, NodeKey, OriginKey, PacedKey, ProfileKey, RuleKey, Top,
};
pub use timeline::{ServiceHistory, ServiceState, Timeline, TimelineSettings, TimelineSpan};
