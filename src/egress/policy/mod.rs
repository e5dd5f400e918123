//! Which hosts and addresses egress may contact.

mod address;
mod address_block;
mod host_rules;

pub use address::{AddressPolicy, Prohibited};
pub use address_block::AddressBlock;
pub use host_rules::HostRules;
