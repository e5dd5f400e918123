//! A client's connection: HTTP/1 or HTTP/2, read strictly, bounded in time.
//! `connection_state` is what it shares with the handling of its requests.

pub mod body;
pub mod client_io;
pub mod client_socket;
pub mod connection_state;
pub mod http1;
pub mod http2;
mod serve;
pub mod service;

pub use serve::{close_in_stages, serve};
pub use service::{Limits, Service};
