//! Notifies long-lived work (such as tunnels) of changes to the origin's rules, under which it was
//! permitted. There is one list of subscribers per origin; each landed fetch costs a subscriber one
//! decision, in its own task.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::entry::Entry;
use super::question::Question;
use super::{Known, Store};
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

/// The subscribers of each origin, keyed by the address of their mailbox.
#[derive(Default)]
pub(super) struct Subscribers(Mutex<HashMap<Origin, HashMap<usize, Arc<News>>>>);

/// The newest entry that the subscriber has not seen yet. Older ones are overwritten.
#[derive(Default)]
struct News {
    entry: Mutex<Option<Arc<Entry>>>,
    came: Notify,
}

/// A subscription to changes of an origin; ends when dropped.
pub struct Changes {
    store: Arc<Store>,
    origin: Origin,
    news: Arc<News>,
}

impl Store {
    /// Subscribes to what becomes known of `origin`. The first change is what is known now.
    pub fn changes(self: &Arc<Self>, origin: &Origin) -> Changes {
        let changes =
            Changes { store: Arc::clone(self), origin: origin.clone(), news: Arc::default() };
        self.subscribers.add(origin, &changes.news);
        // A fetch may have landed since the work was permitted.
        let entry = self.shelf().cache.peek(origin).cloned();
        if let Some(entry) = entry {
            changes.news.tell_first(entry);
        }
        changes
    }
}

impl Changes {
    /// Waits for the next change and returns what is then known under `profile`, for an agent with
    /// this product token.
    pub async fn next(
        &self,
        profile: &Arc<Profile>,
        agent: Option<&str>,
        client: &Client,
    ) -> Known {
        let question = Question::new(&self.origin, profile, agent, client);
        loop {
            let entry = self.news.next().await;
            // An entry that is already due decides nothing.
            if let Some(known) = self.store.derive(&entry, &question).await {
                return known;
            }
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.store.subscribers.remove(&self.origin, &self.news);
    }
}

impl Subscribers {
    /// Notifies the subscribers of `origin`.
    pub(super) fn tell(&self, origin: &Origin, entry: &Arc<Entry>) {
        let followed: Vec<_> = match self.lock().get(origin) {
            Some(followers) => followers.values().cloned().collect(),
            None => return,
        };
        followed.iter().for_each(|news| news.tell(Arc::clone(entry)));
    }

    fn add(&self, origin: &Origin, news: &Arc<News>) {
        self.lock().entry(origin.clone()).or_default().insert(key(news), Arc::clone(news));
    }

    fn remove(&self, origin: &Origin, news: &Arc<News>) {
        let mut followed = self.lock();
        if let Some(followers) = followed.get_mut(origin) {
            followers.remove(&key(news));
            if followers.is_empty() {
                followed.remove(origin);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Origin, HashMap<usize, Arc<News>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address identifies the mailbox as long as it is in the list.
fn key(news: &Arc<News>) -> usize {
    Arc::as_ptr(news).addr()
}

impl News {
    fn tell(&self, entry: Arc<Entry>) {
        *self.entry() = Some(entry);
        self.came.notify_one();
    }

    /// Delivers `entry` unless a newer one has been delivered.
    fn tell_first(&self, entry: Arc<Entry>) {
        self.entry().get_or_insert(entry);
        self.came.notify_one();
    }

    async fn next(&self) -> Arc<Entry> {
        loop {
            if let Some(entry) = self.entry().take() {
                return entry;
            }
            self.came.notified().await;
        }
    }

    fn entry(&self) -> std::sync::MutexGuard<'_, Option<Arc<Entry>>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("origin", &self.origin).finish_non_exhaustive()
    }
}
