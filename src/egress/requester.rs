//! On whose behalf a request goes out: decides whose turn it takes where clients take turns.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::types::client_key::ClientKey;

/// On whose behalf a request goes out.
#[derive(Clone, Copy, Debug)]
pub enum Requester<'a> {
    /// A client.
    Client(&'a ClientKey),
    /// A fetch of robots.txt, which all clients share. The client whose request began it pays for
    /// its DNS lookup and its connection attempts.
    Robots(&'a ClientKey, &'a QueueWait),
}

/// Whether a fetch has waited in one of the proxy's own queues, so that the origin had less than
/// the whole timeout to respond.
#[derive(Debug, Default)]
pub struct QueueWait(AtomicBool);

impl Requester<'_> {
    /// The client whose memory the request takes; a robots.txt is read for all.
    pub(super) const fn for_memory(&self) -> &ClientKey {
        match self {
            Self::Client(key) => key,
            Self::Robots(..) => &ClientKey::Proxy,
        }
    }

    /// The client whose DNS lookups and connection attempts the request takes.
    pub(super) const fn client(&self) -> &ClientKey {
        match self {
            Self::Client(key) | Self::Robots(key, _) => key,
        }
    }

    /// Notes that the request waits in one of the proxy's own queues.
    pub(super) fn note_queued(&self) {
        if let Self::Robots(_, wait) = self {
            wait.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a> From<&'a ClientKey> for Requester<'a> {
    fn from(key: &'a ClientKey) -> Self {
        Self::Client(key)
    }
}

impl QueueWait {
    /// Whether the fetch has waited in such a queue.
    pub fn has_waited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
