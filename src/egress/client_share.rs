//! For which client a request goes out: the one whose share of DNS lookups, connection attempts and
//! memory it takes.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::types::ClientKey;

/// The client that a request goes out for, or the fetch of a robots.txt that a client began.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    key: &'a ClientKey,
    /// Set for a fetch of robots.txt, which all clients share. The client whose request began it
    /// pays for its DNS lookup and its connection attempts.
    robots: Option<&'a QueueWait>,
}

/// Whether a fetch has waited in one of the proxy's own queues, so that the origin had less than
/// the whole timeout to respond.
#[derive(Debug, Default)]
pub struct QueueWait(AtomicBool);

impl<'a> Requester<'a> {
    /// A client.
    pub const fn client(key: &'a ClientKey) -> Self {
        Self { key, robots: None }
    }

    /// A fetch of robots.txt that a client began.
    pub const fn robots(key: &'a ClientKey, wait: &'a QueueWait) -> Self {
        Self { key, robots: Some(wait) }
    }

    /// The client whose memory the request takes; a robots.txt is read for all.
    pub(super) const fn for_memory(&self) -> &'a ClientKey {
        match self.robots {
            None => self.key,
            Some(_) => &ClientKey::Proxy,
        }
    }

    /// The client whose DNS lookups and connection attempts the request takes.
    pub(super) const fn client_key(&self) -> &'a ClientKey {
        self.key
    }

    /// Whether it is a fetch of robots.txt.
    pub(super) const fn is_for_robots_txt(&self) -> bool {
        self.robots.is_some()
    }

    /// Notes that the request waits in one of the proxy's own queues.
    pub(super) fn note_queued(&self) {
        if let Some(wait) = self.robots {
            wait.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a> From<&'a ClientKey> for Requester<'a> {
    fn from(key: &'a ClientKey) -> Self {
        Self::client(key)
    }
}

impl QueueWait {
    /// Whether the fetch has waited in such a queue.
    pub fn has_waited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
