//! The stream of a client, plain or TLS.

use tokio::io::{AsyncRead, AsyncWrite};

/// What a connection needs of its stream beside reading and writing.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin {
    /// Bytes that wait in the system to be sent, rounded down. `None` where the system does not
    /// tell.
    fn unsent_bytes(&self) -> Option<u32>;

    /// Whether closing the stream writes a message, as the `close_notify` of TLS (RFC 8446 §6.1).
    fn has_closing_message(&self) -> bool {
        false
    }
}
