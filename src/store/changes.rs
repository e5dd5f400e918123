//! Notifies long-lived work (such as tunnels) of changes to the origin's rules, under which it was
//! permitted.

use std::fmt;
use std::sync::Arc;

use super::lookup::Lookup;
use super::origin_robots::OriginRobots;
use super::store_core::StoreCore;
use super::subscribers::Mailbox;
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

/// A subscription to changes of an origin; ends when dropped.
pub struct Changes {
    core: Arc<StoreCore>,
    origin: Origin,
    mailbox: Arc<Mailbox>,
}

impl Changes {
    /// Subscribes to what becomes known of `origin`. The first change is what is known now.
    pub(super) fn of(core: &Arc<StoreCore>, origin: &Origin) -> Self {
        let mailbox = Arc::default();
        let changes = Self { core: Arc::clone(core), origin: origin.clone(), mailbox };
        core.subscribers.add(origin, &changes.mailbox);
        // A fetch may have completed since the work was permitted.
        let entry = core.entries.lock().memory.peek(origin).cloned();
        if let Some(entry) = entry {
            changes.mailbox.deliver_first(entry);
        }
        changes
    }

    /// Waits for the next change and returns what is then known under `profile`, for an agent with
    /// this product token.
    pub async fn next(
        &self,
        profile: &Arc<Profile>,
        agent: Option<&str>,
        client: &Client,
    ) -> OriginRobots {
        let lookup = Lookup::new(&self.core, &self.origin, profile, agent, client);
        loop {
            let entry = self.mailbox.next().await;
            // An entry that is already due decides nothing.
            if let Some(known) = lookup.derive(&entry) {
                return known;
            }
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.core.subscribers.remove(&self.origin, &self.mailbox);
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("origin", &self.origin).finish_non_exhaustive()
    }
}
