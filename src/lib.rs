//! courtesy: a crawler politeness proxy.
#![forbid(unsafe_code)]

pub mod agent;
pub mod audit;
pub mod cli;
pub mod clock;
pub mod config;
pub mod egress;
pub mod fetch;
pub mod glob;
pub mod limits;
pub mod moment;
pub mod origin;
pub mod policy;
pub mod proxy;
pub mod robots;
pub mod server;
pub mod store;
pub mod text;
