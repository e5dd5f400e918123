//! What the code that reads and writes a client's connection shares with the code that handles its
//! requests: the context and the state of the connection, the response body, interim responses, the
//! memory of a request.

pub mod body;
pub mod connection_context;
pub mod connection_state;
pub mod drain;
pub mod footprint;
pub mod interim;
pub mod interim_queue;
pub mod target_form;
