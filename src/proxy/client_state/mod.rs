//! The state of a client's connection and of the request under way on it: its response body, its
//! interim responses, its memory.

pub mod body;
pub mod connection_context;
pub mod connection_state;
pub mod drain;
pub mod footprint;
pub mod interim;
pub mod interim_queue;
pub mod target_form;
