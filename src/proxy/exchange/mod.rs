//! One exchange with a client: the state that it shares with its connection, its response body and
//! its interim responses.

pub mod body;
pub mod connection_context;
pub mod connection_state;
pub mod drain;
pub mod footprint;
pub mod interim;
pub mod interim_queue;
pub mod target_form;
