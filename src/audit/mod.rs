//! The denied-request log: what a record says, and the writer that puts one line in the file for
//! each before the answer goes out. Decides nothing and knows no HTTP; it is told what
//! happened.

mod journal;
mod record;
#[cfg(test)]
mod tests;
mod time;
mod words;
mod writer;

pub use record::{Client, Entry, Exemption, Group, Profile, Record, Robots, Rule, new_id};
pub use time::print as print_time;
pub use words::{AgentSource, Event, Reason, RobotsStatus};
pub use writer::{FILE_NAME, Health, OpenError, WriteError, Writer, Written};
