//! Connections kept between exchanges.

mod idle;
mod lease;
mod worker_pool;

pub use lease::Lease;
pub use worker_pool::{Pool, Pools};
