//! The name server of `courtesy run --sealed`, whose network has no other. It gives each name that
//! exists a virtual address (tor's VirtualAddrNetwork): a connection to that address is then known
//! to be for the name. Whether a name exists is asked of the proxy's own resolver (`egress/dns`);
//! the addresses of origins never get into the sealed network.

mod limits;
mod response;
mod server;
mod virtual_addresses;

pub use server::NameServer;
pub use virtual_addresses::VirtualAddresses;
