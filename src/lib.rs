//! courtesy: a crawler politeness proxy.
#![forbid(unsafe_code)]

pub mod agent;
pub mod clock;
pub mod egress;
pub mod fetch;
pub mod limits;
pub mod moment;
pub mod origin;
pub mod policy;
pub mod robots;
pub mod store;
