//! Changes of robots.txt files: when a fetch brings another file, or another state, for an origin that is in use, a
//! notice of it comes into the log of denials, with both files as evidence, and how many of the requests that were
//! allowed of late it would deny.

mod reservoir;
mod sample;
#[cfg(test)]
mod tests;

pub use sample::{Offer, Sampled, Samples, without_values};
