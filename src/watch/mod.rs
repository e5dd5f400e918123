//! Watches for changes of robots.txt files: when a fetch brings another file or state for an origin
//! in use, writes a notice to the log of denials, with both files as evidence, and with the number
//! of recently allowed requests that the new one would deny. The same thread writes the notices of
//! files that decide and of delays that they ask for. And counts what is asked of each site (`site_counts`).
//!
//! No request and no fetch waits for it. At its end a fetch queues what is to be compared for a
//! thread of its own; if the queue is full, the change is counted, and the count is logged.

mod budget;
mod compare;
mod noticed;
mod sample;
mod site_counts;
mod thread;

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use tokio::sync::mpsc;

use crate::audit::Notice;
use crate::audit::evidence::Blob;
use crate::policy::change::Kind;
use crate::policy::profile::Profile;
use crate::runtime::lock::Lock;
use crate::store::{FetchEvent, FetchListener};
use crate::types::ClientKey;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;
use compare::{HeldBytes, Pending};
pub use noticed::{FileKey, PacedKey};
use noticed::{Noticed, Noting, Today};
pub use sample::{Candidate, Sampled, Samples, without_values};
pub use site_counts::{DecidingRobots, SiteBatch, SiteKey, SiteRow, SiteTable};
pub use thread::Watching;

/// Changes that wait to be compared and written, and bytes of the files that they hold.
const CHANGES_WAITING_MAX: usize = 2048;
const CHANGES_WAITING_BYTES_MAX: usize = 64 << 20;

/// What the thread writes.
#[derive(Debug)]
enum Work {
    Compare(Pending),
    /// Of a delay or a file, with its number of the day.
    Daily {
        number: u64,
        notice: Box<Notice>,
        blobs: Vec<Blob>,
        _held: HeldBytes,
    },
}

/// Follows the changes of all origins.
#[derive(Debug)]
pub struct Watch {
    is_redacted: AtomicBool,
    samples: Samples,
    noticed: Lock<Noticed>,
    today: Today,
    /// What is counted of each site.
    pub sites: SiteTable,
    queue: mpsc::Sender<Work>,
    /// Until the thread takes it.
    pending: Lock<Option<mpsc::Receiver<Work>>>,
    /// Bytes of the files that wait.
    waiting: Arc<AtomicUsize>,
    counts: [AtomicU64; Kind::ALL.len()],
    /// Changes that did not fit into the queue: all, and those not logged yet.
    overload: AtomicU64,
    unsaid: AtomicU64,
    /// All that have no notice of their own although they mean something.
    omitted: AtomicU64,
}

impl Watch {
    /// `is_redacted`: whether the values of queries are left out.
    pub fn new(is_redacted: bool) -> Arc<Self> {
        let (queue, pending) = mpsc::channel(CHANGES_WAITING_MAX);
        Arc::new(Self {
            is_redacted: AtomicBool::new(is_redacted),
            samples: Samples::default(),
            noticed: Lock::default(),
            today: Today::default(),
            sites: SiteTable::default(),
            queue,
            pending: Lock::new(Some(pending)),
            waiting: Arc::default(),
            counts: Default::default(),
            overload: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
            omitted: AtomicU64::new(0),
        })
    }

    /// Takes over other settings. Drops samples with query values that are now to be redacted.
    pub fn change(&self, is_redacted: bool) {
        let was_redacted = self.is_redacted.swap(is_redacted, Relaxed);
        if is_redacted && !was_redacted {
            self.samples.clear();
        }
    }

    /// A request that `token` was allowed under `profile`: it may become a part of the sample.
    #[inline]
    pub fn sample_allowed(
        &self,
        origin: &Origin,
        path: &str,
        token: Option<&str>,
        profile: &Arc<Profile>,
    ) {
        let is_redacted = self.is_redacted.load(Relaxed);
        self.samples.note(Candidate { origin, path, token, profile, is_redacted });
    }

    /// A request to which the delay, or the file, of `key` applies: the first of a day has the notice that `make`
    /// makes, with `bytes` of evidence. Returns whether it has one, or will.
    pub fn note_today(
        &self,
        key: &impl Hash,
        client: impl FnOnce() -> ClientKey,
        (bytes, now): (usize, Timestamp),
        make: impl FnOnce() -> (Notice, Vec<Blob>),
    ) -> bool {
        let number = match self.today.take(key, client, bytes, now) {
            Noting::Noted => return true,
            Noting::NoRoom => return false,
            Noting::New(number) => number,
        };
        let held = HeldBytes::of(&self.waiting, bytes, CHANGES_WAITING_BYTES_MAX);
        let is_queued = held.is_some_and(|held| {
            let (notice, blobs) = make();
            let work = Work::Daily { number, notice: Box::new(notice), blobs, _held: held };
            self.queue.try_send(work).is_ok()
        });
        if !is_queued {
            self.today.forget(number);
        }
        is_queued
    }

    /// How many changes there were of each kind.
    pub fn counts(&self) -> [(Kind, u64); Kind::ALL.len()] {
        std::array::from_fn(|at| (Kind::ALL[at], self.counts[at].load(Relaxed)))
    }

    /// How many have no notice of their own, because there were too many or it could not be
    /// written.
    pub fn omitted(&self) -> u64 {
        self.omitted.load(Relaxed) + self.overload.load(Relaxed)
    }

    fn count(&self, kind: Kind) {
        if let Some(at) = Kind::ALL.iter().position(|it| *it == kind) {
            self.counts[at].fetch_add(1, Relaxed);
        }
    }

    /// The comparison that `fetch` needs, if any.
    fn pending(&self, fetch: FetchEvent) -> Option<Pending> {
        let change = fetch.changes.iter().find(|change| change.profile == fetch.profile)?;
        let is_new = self.noticed.lock().is_new(&fetch, change);
        is_new.then(|| Pending::new(fetch)).flatten()
    }
}

impl FetchListener for Watch {
    fn on_fetch(&self, fetch: FetchEvent) {
        let Some(mut pending) = self.pending(fetch) else { return };
        pending.held = HeldBytes::of(&self.waiting, pending.bytes(), CHANGES_WAITING_BYTES_MAX);
        if pending.held.is_none() || self.queue.try_send(Work::Compare(pending)).is_err() {
            self.overload.fetch_add(1, Relaxed);
            self.unsaid.fetch_add(1, Relaxed);
        }
    }
}
