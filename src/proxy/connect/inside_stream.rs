//! The streams of an intercepted connection, plain and TLS.

use tokio_rustls::server::TlsStream;

use super::rewind::Rewind;
use crate::egress::PlaintextStream;
use crate::proxy::connection::client_socket::ClientSocket;
use crate::proxy::connection::client_stream::ClientStream;

/// The client's own stream, whose first bytes have been read to recognize the protocol.
pub type Stream = Rewind<ClientSocket>;

/// TLS that ends here. Boxed: it is large, and moved often.
pub type Secured = PlaintextStream<Box<TlsStream<Stream>>>;

impl<S: ClientStream> ClientStream for Rewind<S> {
    fn unsent_bytes(&self) -> Option<u32> {
        self.get_ref().unsent_bytes()
    }
}

impl ClientStream for Secured {
    fn unsent_bytes(&self) -> Option<u32> {
        self.get_ref().get_ref().0.unsent_bytes()
    }

    fn has_closing_message(&self) -> bool {
        true
    }
}
