//! Whether a request may be forwarded: the gate, the rules of the operator, and the records of
//! denials.

pub mod decision_context;
pub mod enforce;
pub mod gate;
pub mod permit_pace;
#[cfg(test)]
mod replay_tests;
pub mod revocation;
pub mod rules;
