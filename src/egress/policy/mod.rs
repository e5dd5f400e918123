//! Which hosts and addresses egress may contact.

mod address;
mod address_block;
mod host_rules;
mod private;

pub use address::{AddressPolicy, Prohibition};
pub use address_block::AddressBlock;
pub use host_rules::HostRules;
pub use private::{METADATA_BLOCKS, PRIVATE_BLOCKS, is_private};
