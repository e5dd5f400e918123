//! The local certificate authority: what an intercepted connection is authenticated with. It is made
//! once, at first start, and kept in the state directory; or it is the operator's own. For each host
//! it signs a short-lived leaf certificate, without holding the event loop up, and keeps it in a bounded cache.
//!
//! Its key is never printed, logged, exported or sent, and no key of a leaf is ever written.

mod authority;
mod certificate;
mod error;
mod leaf;
mod leaves;
pub mod limits;
mod root;
mod storage;
#[cfg(test)]
mod tests;
mod tickets;
mod trust;

pub use authority::{Authority, Source};
pub use certificate::{Certificate, pem, print_date};
pub use error::{CURE, CaError, MintError};
pub use leaves::{Leaves, Stats};
pub use trust::{CLIENTS, Client};
