//! Log lines for clients that do not speak HTTP to the proxy's port. They are answered with 400,
//! but few of them show the response, so the log says which address to configure.

use std::num::NonZeroUsize;

use lru::LruCache;
use tracing::warn;

use crate::clients::Client;
use crate::proxy::framing::foreign_protocol::ForeignProtocol;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// The latest clients that are remembered as logged, for a protocol other than HTTP.
const CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Logs each client once.
#[derive(Debug)]
pub struct ForeignProtocolLog(Lock<LruCache<ClientKey, ()>>);

impl Default for ForeignProtocolLog {
    fn default() -> Self {
        Self(Lock::new(LruCache::sparse(CLIENTS_MAX)))
    }
}

impl ForeignProtocolLog {
    /// Logs that `client` speaks `protocol`, unless that client has a line already.
    pub fn log(&self, client: &Client, protocol: ForeignProtocol) {
        let before = self.0.lock().put(client.key(), ());
        if before.is_none() {
            warn!(client = %client.address, "a client does not speak HTTP: {}", protocol.detail());
        }
    }
}
