//! The words of the project as types: what origins, agents and times are called. Pure.

pub mod agent;
pub mod client_key;
pub mod duration_text;
pub mod glob;
pub mod http_time;
pub mod limits;
pub mod log_id;
pub mod loop_token;
pub mod origin;
pub mod problem;
mod problem_texts;
pub mod sanitize;
pub mod timestamp;
pub mod words;
