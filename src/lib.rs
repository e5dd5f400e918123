//! courtesy: a crawler politeness proxy.
#![forbid(unsafe_code)]

pub mod moment;
