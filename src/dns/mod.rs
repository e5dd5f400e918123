//! The name server of a network that has no other: of `courtesy run --sealed`. Each name that exists
//! has an address that stands for it there, so that a connection to that address has a name as well.
//! What exists is known from the proxy's own resolver; no address of an origin gets inside.

mod limits;
mod serve;
mod stand_ins;
mod stub;

pub use serve::NameServer;
pub use stand_ins::StandIns;
