//! Persistence: loads entries from disk, and queues them for writing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::disk::{self, Found};
use super::entry::Entry;
use super::knowledge::Knowledge;
use super::question::jitter;
use super::restore::Blobs;
use super::{Known, Store};
use crate::audit::limits::PROFILES_PER_ORIGIN_MAX;
use crate::policy::profile::Profile;
use crate::robots::{self, Dialect};
use crate::store::fetch::FetchIdentity;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// What is known of one origin, as shown to operators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub origin: String,
    #[serde(flatten)]
    pub knowledge: Knowledge,
    /// The number of lines of the file, if it was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
}

impl Report {
    pub(super) fn new(origin: String, knowledge: Knowledge, blobs: &Blobs) -> Self {
        let file = knowledge.good.as_ref().and_then(|good| blobs.get(&good.file.sha256));
        Self { origin, lines: file.map(|file| line_count(file)), knowledge }
    }
}

/// A final line end starts no further line.
fn line_count(file: &[u8]) -> usize {
    let is_open = file.last().is_some_and(|byte| !b"\r\n".contains(byte));
    robots::lines(file, &Dialect::RFC9309).count().saturating_sub(usize::from(!is_open))
}

impl Store {
    /// Sets the profiles in use, before the first lookup under them: a restored entry gets states
    /// under all of them, whichever is looked up first. Replaces the earlier ones.
    pub fn introduce<'a>(&self, profiles: impl IntoIterator<Item = &'a Arc<Profile>>) {
        let mut known = self.profiles();
        known.clear();
        for profile in profiles {
            if !known.contains(profile) && known.len() < PROFILES_PER_ORIGIN_MAX {
                known.push(Arc::clone(profile));
            }
        }
    }

    /// Finds `origin` in the compressed tier or on disk, also under `asking`, and makes it ready.
    pub(super) async fn recall(
        self: &Arc<Self>,
        origin: &Origin,
        asking: &Arc<Profile>,
        client: &ClientKey,
    ) -> Option<Arc<Entry>> {
        match self.unpack(origin, asking).await {
            Some(entry) => Some(entry),
            None => self.load(origin, asking, client).await,
        }
    }

    /// Loads `origin` from disk, also under `asking`.
    async fn load(
        self: &Arc<Self>,
        origin: &Origin,
        asking: &Arc<Profile>,
        client: &ClientKey,
    ) -> Option<Arc<Entry>> {
        let forgets = self.shelf().forgets;
        let (store, profile) = (Arc::clone(self), Arc::clone(asking));
        let revive = move |found| match found {
            Found::Waiting(entry) => Some(store.also_under(&profile, entry)),
            Found::Kept(knowledge, blobs) => store.revive(*knowledge, blobs, &profile),
        };
        let (entry, is_new) = self.disk.as_ref()?.find(origin, client, revive).await?;
        if is_new {
            self.keep(origin, &entry);
        }
        let _turn = self.make_room(&entry).await;
        let mut shelf = self.shelf();
        // An operator may have had this origin forgotten meanwhile.
        if shelf.forgets == forgets {
            shelf.cache.put(origin, Arc::clone(&entry));
        }
        Some(entry)
    }

    /// The restored entry, also under `asking`, and whether that profile was new.
    pub(super) fn revive(
        &self,
        knowledge: Knowledge,
        blobs: Blobs,
        asking: &Arc<Profile>,
    ) -> Option<(Arc<Entry>, bool)> {
        let mut profiles = self.profiles().clone();
        if !profiles.contains(asking) {
            profiles.push(Arc::clone(asking));
        }
        let entry = self.restore(knowledge, blobs, &profiles)?;
        Some(self.also_under(asking, entry))
    }

    /// The restored entry, under those of `profiles` that it has states for.
    pub(super) fn restore(
        &self,
        knowledge: Knowledge,
        mut blobs: Blobs,
        profiles: &[Arc<Profile>],
    ) -> Option<Arc<Entry>> {
        let digest = knowledge.good.as_ref().map(|good| good.file.sha256);
        if let Some((digest, body)) = digest.and_then(|it| Some((it, blobs.get_mut(&it)?))) {
            *body = self.parsed.share(digest.0, body);
        }
        let read = |snapshot: &_, dialect: &_| self.parsed.read(snapshot, dialect);
        Entry::restore(knowledge, &blobs, profiles, jitter(), &read).map(Arc::new)
    }

    fn also_under(&self, asking: &Arc<Profile>, entry: Arc<Entry>) -> (Arc<Entry>, bool) {
        if entry.is_under(asking) {
            return (entry, false);
        }
        let read = |snapshot: &_, dialect: &_| self.parsed.read(snapshot, dialect);
        (Arc::new(entry.with_profile(asking, jitter(), &read)), true)
    }

    /// Whether `entry` has a current result for the agent, so that no fetch is needed.
    pub(super) fn answers(
        &self,
        entry: &Entry,
        profile: &Arc<Profile>,
        agent: &FetchIdentity,
    ) -> bool {
        let view = entry.view(|| agent.clone());
        let held = view.state(profile);
        held.is_some_and(|held| Known::if_current(held, &view, self.clock.wall()).is_some())
    }

    /// Queues the entry of `origin` for writing to disk.
    pub(super) fn keep(&self, origin: &Origin, entry: &Arc<Entry>) {
        if let Some(disk) = &self.disk {
            disk.put(origin, entry);
        }
    }

    /// What is known of `origin`, in memory or on disk.
    pub async fn get(&self, origin: &Origin) -> Option<Report> {
        let report = |(knowledge, blobs)| Report::new(origin.to_string(), knowledge, &blobs);
        let (ready, packed) = {
            let shelf = self.shelf();
            (shelf.cache.peek(origin).cloned(), shelf.cache.packed(origin).cloned())
        };
        let held = ready.map(|entry| entry.keep());
        if let Some(held) = held.or_else(|| self.open(origin, &packed?)) {
            return Some(report(held));
        }
        let read = |found| {
            Some(match found {
                Found::Waiting(entry) => entry.keep(),
                Found::Kept(knowledge, blobs) => (*knowledge, blobs),
            })
        };
        self.disk.as_ref()?.find(origin, &ClientKey::Proxy, read).await.map(report)
    }

    /// Removes `origin` from memory and disk. Returns whether it was known. A fetch in flight will
    /// store it again.
    pub async fn forget(&self, origin: &Origin) -> bool {
        let was_known = self.get(origin).await.is_some();
        if let Some(disk) = &self.disk {
            disk.forget(origin);
        }
        let mut shelf = self.shelf();
        shelf.cache.remove(origin);
        shelf.flights.forget(origin);
        shelf.forgets += 1;
        was_known
    }

    /// The disk, if there is one.
    pub fn disk(&self) -> Option<&disk::Disk> {
        self.disk.as_ref()
    }

    /// The health of the disk.
    pub fn health(&self) -> disk::Health {
        self.disk.as_ref().map(disk::Disk::health).unwrap_or_default()
    }

    /// Flushes the write queue, and closes the file so that another process may open it.
    pub fn close(&self) {
        if let Some(disk) = &self.disk {
            disk.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_people_do() {
        for (file, count) in
            [("", 0), ("a", 1), ("a\n", 1), ("a\r\nb", 2), ("a\rb\r", 2), ("\n\n", 2)]
        {
            assert_eq!(line_count(file.as_bytes()), count, "{file:?}");
        }
    }
}
