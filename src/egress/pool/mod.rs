//! Connections kept between exchanges, and the limit on exchanges with one origin.

mod idle;
mod lease;
mod slots;
mod worker_pool;

pub use lease::{Lease, Rights};
pub use slots::Slots;
pub use worker_pool::{Pool, Pools};
