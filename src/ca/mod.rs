//! The local certificate authority, which authenticates intercepted connections. It is generated
//! once, at the first start, and kept in the state directory; or the operator provides one. It
//! signs a short-lived leaf certificate for each host, without blocking the event loop, and keeps
//! it in a bounded cache.
//!
//! The CA's key is never printed, logged, exported or sent, and no key of a leaf is ever written.

mod authority;
mod certificate;
mod error;
mod leaf;
mod leaves;
pub mod limits;
mod root;
mod signer;
mod storage;
#[cfg(test)]
mod tests;
mod tickets;
mod trust;

pub use authority::{Authority, Source};
pub use certificate::{Certificate, pem, print_date};
pub use error::{CA_REMEDY, CaError, CertificateError};
pub use leaves::{Leaves, Stats};
pub use trust::{CLIENTS, Client};
