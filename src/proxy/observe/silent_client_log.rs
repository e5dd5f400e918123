//! Log lines for clients of transparent listeners that have connected to an origin, and send nothing:
//! in their protocol the server speaks first, so their port is one that should not be redirected. They
//! have asked for nothing that could be denied, and have no record.

use std::num::NonZeroUsize;

use lru::LruCache;
use tracing::info;

use crate::clients::Client;
use crate::runtime::lock::Lock;

/// The latest destinations that are remembered as logged. Each costs a client
/// `limits.handshake_timeout`.
const DESTINATIONS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Logs each destination once.
#[derive(Debug)]
pub struct SilentClientLog(Lock<LruCache<Box<str>, ()>>);

impl Default for SilentClientLog {
    fn default() -> Self {
        Self(Lock::new(LruCache::sparse(DESTINATIONS_MAX)))
    }
}

impl SilentClientLog {
    /// Logs that `client` has sent nothing to `destination`, a host and a port, in time, unless that has
    /// a line already.
    pub fn log(&self, client: &Client, destination: &str) {
        if self.is_first(destination) {
            let client = client.address;
            info!(%client, "a client has connected to {destination} and sent nothing: closed");
        }
    }

    fn is_first(&self, destination: &str) -> bool {
        self.0.lock().put(destination.into(), ()).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_destination_is_logged_once() {
        let log = SilentClientLog::default();
        let [one, other] = ["192.0.2.1:80", "192.0.2.1:443"];
        let first: Vec<_> = [one, one, other, one, other].map(|it| log.is_first(it)).into();
        assert_eq!(first, [true, false, true, false, false]);
    }
}
