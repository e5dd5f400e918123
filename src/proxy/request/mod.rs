//! Reading a request's head: its target, and the headers that an intermediary treats in its own
//! way.

pub mod char_class;
pub mod destination;
pub mod expect;
pub mod header_set;
pub mod hop_by_hop;
mod host_and_agent;
pub mod max_forwards;
pub mod negotiate;
pub mod prefer;
pub mod target;
pub mod upgrade_protocol;
pub mod via;
