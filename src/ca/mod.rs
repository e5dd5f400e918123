//! The local certificate authority, which authenticates intercepted connections. It is generated
//! once, at the first start, and kept in the state directory; or the operator provides one. It
//! signs a short-lived leaf certificate for each host, without blocking the event loop, and keeps
//! it in a bounded cache.
//!
//! The CA's key is never printed, logged, exported or sent, and no key of a leaf is ever written.

mod authority;
mod certificate;
mod leaves;
mod storage;
#[cfg(test)]
mod tests;
mod trust;

pub use authority::{Authority, LEAF_LIFETIME, Source};
pub use certificate::{CA_REMEDY, CaError, Certificate, CertificateError, pem, print_date};
pub use leaves::{LEAVES_MAX, Leaves, Stats};
pub use trust::{Client, TABLE, TrialRow, VariableKind, VariableRow};
