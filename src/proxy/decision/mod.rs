//! Whether a request may be forwarded: the gate, the rules of the operator, and the records of
//! denials.

pub mod decision_context;
pub mod enforce;
pub mod gate;
mod paced_notice;
pub mod permit_pace;
mod recheck;
#[cfg(test)]
mod replay_tests;
pub mod request_info;
pub mod revocation;
pub mod robots_summary_cache;
pub mod rules;
