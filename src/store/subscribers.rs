//! The subscribers to changes of origins. There is one list per origin; each completed fetch costs
//! a subscriber one decision, in its own task.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::entry::Entry;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// The subscribers of each origin, keyed by the address of their mailbox.
#[derive(Default)]
pub(super) struct Subscribers(Lock<HashMap<Origin, HashMap<usize, Arc<Mailbox>>>>);

/// The newest entry that the subscriber has not seen yet. Older ones are overwritten.
#[derive(Default)]
pub(super) struct Mailbox {
    entry: Lock<Option<Arc<Entry>>>,
    arrived: Notify,
}

impl Subscribers {
    /// Delivers `entry` to the subscribers of `origin`.
    pub(super) fn notify(&self, origin: &Origin, entry: &Arc<Entry>) {
        let mailboxes: Vec<_> = match self.0.lock().get(origin) {
            Some(mailboxes) => mailboxes.values().cloned().collect(),
            None => return,
        };
        mailboxes.iter().for_each(|mailbox| mailbox.deliver(Arc::clone(entry)));
    }

    pub(super) fn add(&self, origin: &Origin, mailbox: &Arc<Mailbox>) {
        let mut origins = self.0.lock();
        origins.entry(origin.clone()).or_default().insert(address(mailbox), Arc::clone(mailbox));
    }

    pub(super) fn remove(&self, origin: &Origin, mailbox: &Arc<Mailbox>) {
        let mut origins = self.0.lock();
        if let Some(mailboxes) = origins.get_mut(origin) {
            mailboxes.remove(&address(mailbox));
            if mailboxes.is_empty() {
                origins.remove(origin);
            }
        }
    }
}

/// The address identifies the mailbox as long as it is in the list.
fn address(mailbox: &Arc<Mailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

impl Mailbox {
    fn deliver(&self, entry: Arc<Entry>) {
        *self.entry.lock() = Some(entry);
        self.arrived.notify_one();
    }

    /// Delivers `entry` unless a newer one has been delivered.
    pub(super) fn deliver_first(&self, entry: Arc<Entry>) {
        self.entry.lock().get_or_insert(entry);
        self.arrived.notify_one();
    }

    /// Waits for the next entry.
    pub(super) async fn next(&self) -> Arc<Entry> {
        loop {
            if let Some(entry) = self.entry.lock().take() {
                return entry;
            }
            self.arrived.notified().await;
        }
    }
}
