//! courtesy: a crawler politeness proxy.
#![forbid(unsafe_code)]

pub mod agent;
pub mod moment;
pub mod robots;
