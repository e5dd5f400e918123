//! On whose behalf something goes out, and which client's turn it takes where clients take turns.

use crate::types::client_key::ClientKey;
use std::sync::atomic::{AtomicBool, Ordering};

/// On whose behalf a request goes out.
#[derive(Clone, Copy, Debug)]
pub enum Asker<'a> {
    Client(&'a ClientKey),
    /// A fetch of a robots.txt, which all clients share. A client began it, and its name is looked up
    /// in that client's turn.
    Robots(&'a ClientKey, &'a Queued),
}

/// Whether something has waited in a queue of the proxy's own, so that what it waited for on the way to
/// the site had less than its time.
#[derive(Debug, Default)]
pub struct Queued(AtomicBool);

impl Asker<'_> {
    /// Whose slots of an origin it takes.
    pub(super) const fn for_slots(&self) -> &ClientKey {
        match self {
            Self::Client(key) => key,
            Self::Robots(..) => &ClientKey::Proxy,
        }
    }

    /// Whose look-ups of names and connection attempts it takes.
    pub(super) const fn client(&self) -> &ClientKey {
        match self {
            Self::Client(key) | Self::Robots(key, _) => key,
        }
    }

    /// It is in a queue of the proxy's own.
    pub(super) fn is_queued(&self) {
        if let Self::Robots(_, queued) = self {
            queued.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a> From<&'a ClientKey> for Asker<'a> {
    fn from(key: &'a ClientKey) -> Self {
        Self::Client(key)
    }
}

impl Queued {
    /// Whether it has waited in such a queue.
    pub fn has_waited(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
