//! Sets clients up to use the proxy and to trust its authority, by environment variables. The table
//! of variables is a pure function of a [`ClientSetup`]; [`set_up`] finds out what it holds on this
//! machine and writes the [`trust_files`]; [`print`] formats variables for shells and programs.
//!
//! No variable works for all clients, and some clients follow none: `courtesy doctor` tries them.

mod discover;
mod java;
mod php;
pub mod print;
mod setup;
mod trust_files;
mod variables;
mod write;

pub use discover::{set_up, set_up_for_command};
pub use setup::{ClientSetup, TrustFiles, reachable};
pub use variables::{Variable, variables};

#[cfg(test)]
mod tests;
