//! Moves bytes both ways between a client and an origin: [`relay`] between two sockets by
//! splice(2), [`copy`] between streams of any kind, TLS for example.

mod batching;
mod copy;
mod idle;
mod socket;
mod splice;

pub use copy::{copy, copy_one_way};
pub use idle::IdleTimer;
pub use socket::{read_ready, write_all};
pub use splice::{Pipes, relay};
