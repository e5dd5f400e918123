//! Responses that the proxy makes itself.

mod excerpt;
mod page;
mod problem_json;
pub mod respond;
