//! Who is told when something else becomes known of an origin: what goes on for longer than a request, and is
//! permitted by what was known when it began. One list for each origin that has such; a fetch that lands costs
//! those of its origin one decision each, in their own tasks.

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

/// All who want to be told, by origin, and each by the address of its news.
#[derive(Default)]
pub(super) struct Subscribers(Mutex<HashMap<Origin, HashMap<usize, Arc<News>>>>);

/// What one of them has not heard yet: the last of it, and no more.
#[derive(Default)]
struct News {
    entry: Mutex<Option<Arc<Entry>>>,
    came: Notify,
}

/// What becomes known of an origin; ends when dropped.
pub struct Changes {
    store: Arc<Store>,
    origin: Origin,
    news: Arc<News>,
}

impl Store {
    /// What is known of `origin` now, and whatever becomes known of it afterwards.
    pub fn changes(self: &Arc<Self>, origin: &Origin) -> Changes {
        let changes =
            Changes { store: Arc::clone(self), origin: origin.clone(), news: Arc::default() };
        self.subscribers.add(origin, &changes.news);
        // Something may have become known since it was permitted.
        let entry = self.shelf().cache.peek(origin).cloned();
        if let Some(entry) = entry {
            changes.news.tell_first(entry);
        }
        changes
    }
}

impl Changes {
    /// Waits for the next change, and returns what is known then under `profile`, for an agent with this
    /// product token.
    pub async fn next(
        &self,
        profile: &Arc<Profile>,
        agent: Option<&str>,
        client: &Client,
    ) -> Known {
        let question = Question::new(&self.origin, profile, agent, client);
        loop {
            let entry = self.news.next().await;
            // What is due already says nothing.
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
    /// Tells all who follow `origin` that this is known of it now.
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

/// It is there as long as its entry in the list.
fn key(news: &Arc<News>) -> usize {
    Arc::as_ptr(news).addr()
}

impl News {
    fn tell(&self, entry: Arc<Entry>) {
        *self.entry() = Some(entry);
        self.came.notify_one();
    }

    /// Unless something newer has been told.
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
