//! TLS to origins.

mod connector;
mod error;
mod roots;
mod stream;
mod verifier;

pub use connector::{Tls, TlsConnection, Versions, connector, is_tls_name};
pub use error::{alert_received, client_certificate, tls_error};
pub use roots::{Roots, RootsError};
pub use stream::{PlaintextStream, PollReadable};
