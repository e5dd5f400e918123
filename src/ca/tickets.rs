//! TLS session tickets: one key per process, which survives a new leaf, and tickets that are valid
//! for one host only.

use std::sync::Arc;

use rustls::server::ProducesTickets;

use crate::types::origin::Host;

/// Prefixes each ticket with its host, and accepts only its own. rustls compares the server names
/// of both handshakes, too; but a client that connects to an address sends none, so two addresses
/// would be the same.
#[derive(Debug)]
pub(super) struct HostTickets {
    /// Preceded by its length, so that no host is a prefix of another.
    mark: Vec<u8>,
    tickets: Arc<dyn ProducesTickets>,
}

impl HostTickets {
    /// Tickets of `host`, made by `tickets`.
    pub fn new(host: &Host, tickets: Arc<dyn ProducesTickets>) -> Self {
        let name = host.to_string();
        let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        Self { mark: [&[length], name.as_bytes()].concat(), tickets }
    }
}

impl ProducesTickets for HostTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(&[&self.mark, plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.tickets.decrypt(cipher)?;
        plain.strip_prefix(&*self.mark).map(<[u8]>::to_vec)
    }
}
