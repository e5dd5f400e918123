//! HTTP/2 to origins: connections that many exchanges share.

mod calm_watch;
mod connection;
mod convert;
mod empty_frames;
mod handshake;
mod pool;
mod window;

pub use connection::{Http2Connection, Http2Stream};
pub use convert::{to_http1, to_http2};
pub use handshake::handshake;
pub use pool::{Http2Pool, Opening};
pub use window::Window;
