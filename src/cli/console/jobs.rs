//! Readings of the whole log, one at a time, whose results are kept: a page that asks for one shows how far it has come,
//! and the result when it is there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::audit::read::Extent;
use crate::runtime::lock::Lock;

/// Results that are kept.
const RESULTS_MAX: usize = 8;

/// Readings that wait for the one that is under way.
const WAITING_MAX: usize = 8;

/// Readings by what they were asked for.
pub struct Jobs<T> {
    state: Arc<Lock<JobQueue<T>>>,
    progress: Arc<ReadSoFar>,
}

struct JobQueue<T> {
    /// The latest last.
    done: VecDeque<(String, Arc<T>)>,
    waiting: VecDeque<(String, Work<T>)>,
    /// What is under way; a thread works as long as there is something.
    running: Option<String>,
}

type Work<T> = Box<dyn FnOnce(&ReadSoFar) -> T + Send>;

/// How far a reading has come.
#[derive(Debug, Default)]
pub struct ReadSoFar {
    read: AtomicU64,
    total: AtomicU64,
}

/// What there is of a reading.
pub enum Reading<T> {
    Done(Arc<T>),
    /// Under way: percent of the bytes; of one that waits, 0.
    UnderWay(u64),
    /// Too many wait.
    Busy,
}

impl ReadSoFar {
    /// Notes it.
    pub fn at(&self, extent: Extent) {
        self.read.store(extent.read, Ordering::Relaxed);
        self.total.store(extent.total, Ordering::Relaxed);
    }

    fn percent(&self) -> u64 {
        let (read, total) = (self.read.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        (read.saturating_mul(100)).checked_div(total).unwrap_or(0).min(100)
    }
}

impl<T: Send + Sync + 'static> Jobs<T> {
    /// None yet.
    pub fn new() -> Self {
        let queue = JobQueue { done: VecDeque::new(), waiting: VecDeque::new(), running: None };
        Self { state: Arc::new(Lock::new(queue)), progress: Arc::default() }
    }

    /// The result of `key`; where there is none, `work` is begun, or waits for its turn.
    pub fn get(
        &self,
        key: &str,
        work: impl FnOnce(&ReadSoFar) -> T + Send + 'static,
    ) -> Reading<T> {
        let mut queue = self.state.lock();
        if let Some((_, result)) = queue.done.iter().find(|(known, _)| known == key) {
            return Reading::Done(Arc::clone(result));
        }
        if queue.running.as_deref() == Some(key) {
            return Reading::UnderWay(self.progress.percent());
        }
        if queue.waiting.iter().any(|(known, _)| known == key) {
            return Reading::UnderWay(0);
        }
        if queue.waiting.len() >= WAITING_MAX {
            return Reading::Busy;
        }
        queue.waiting.push_back((key.to_owned(), Box::new(work)));
        if queue.running.is_none() {
            queue.running = Some(String::new());
            let (state, progress) = (Arc::clone(&self.state), Arc::clone(&self.progress));
            tokio::task::spawn_blocking(move || work_off(&state, &progress));
        }
        Reading::UnderWay(0)
    }
}

/// One after the other, until none waits.
fn work_off<T>(state: &Lock<JobQueue<T>>, progress: &ReadSoFar) {
    loop {
        let (key, work) = {
            let mut queue = state.lock();
            let Some((key, work)) = queue.waiting.pop_front() else {
                queue.running = None;
                return;
            };
            queue.running = Some(key.clone());
            (key, work)
        };
        progress.at(Extent { read: 0, total: 0 });
        let result = Arc::new(work(progress));
        let mut queue = state.lock();
        queue.done.push_back((key, result));
        if queue.done.len() > RESULTS_MAX {
            queue.done.pop_front();
        }
    }
}
