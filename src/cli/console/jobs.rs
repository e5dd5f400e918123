//! Readings of the whole log, one at a time, whose results are kept: a page that asks for one shows how far it has come,
//! and the result when it is there.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::audit::read::Extent;
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;

/// Results that are kept.
const RESULTS_MAX: usize = 8;

/// How long a result is fresh at least, and how many times as long as it took to make: so a log that is looked at all the
/// time is read for a twentieth of the time.
const FRESH_MIN: Duration = Duration::from_secs(30);
const FRESH_FACTOR: u32 = 20;

/// Readings that wait for the one that is under way.
const WAITING_MAX: usize = 8;

/// Readings by what they were asked for.
pub struct Jobs<T> {
    state: Arc<Lock<JobQueue<T>>>,
    progress: Arc<ReadSoFar>,
}

struct JobQueue<T> {
    /// The latest last.
    done: VecDeque<Done<T>>,
    waiting: VecDeque<(String, Work<T>)>,
    /// What is under way; a thread works as long as there is something.
    running: Option<String>,
}

/// A result, and until when it is shown without being made again.
struct Done<T> {
    key: String,
    result: Arc<T>,
    fresh_until: Instant,
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

    /// The result of `key`; where there is none, `work` is begun, or waits for its turn. One that is no longer fresh
    /// is shown while it is made again: the log may have grown.
    pub fn get(
        &self,
        key: &str,
        work: impl FnOnce(&ReadSoFar) -> T + Send + 'static,
    ) -> Reading<T> {
        let mut queue = self.state.lock();
        let known = queue.done.iter().find(|done| done.key == key);
        let Some(known) = known else { return self.begin(&mut queue, key, work) };
        let (result, is_fresh) = (Arc::clone(&known.result), monotonic() < known.fresh_until);
        if !is_fresh {
            self.begin(&mut queue, key, work);
        }
        Reading::Done(result)
    }

    /// From now on nothing that was made is shown.
    pub fn forget(&self) {
        self.state.lock().done.clear();
    }

    fn begin(
        &self,
        queue: &mut JobQueue<T>,
        key: &str,
        work: impl FnOnce(&ReadSoFar) -> T + Send + 'static,
    ) -> Reading<T> {
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
            if !in_background(move || work_off(&state, &progress)) {
                queue.running = None;
                queue.waiting.clear();
                return Reading::Busy;
            }
        }
        Reading::UnderWay(0)
    }
}

/// The least that a thread can have of the processor, beside others (`nice(2)`).
const NICE: i32 = 19;

/// Does something on a thread of its own that the system serves after all others: requests to the proxy go before who
/// reads its log. False: there can be no thread, and nothing is done.
pub fn in_background(work: impl FnOnce() + Send + 'static) -> bool {
    let work = move || {
        // Of this thread alone, as Linux has it. Where it is not permitted, it is a thread like others.
        let _ = rustix::process::nice(NICE);
        work();
    };
    std::thread::Builder::new().name("console-read".into()).spawn(work).is_ok()
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
        let begun = monotonic();
        // One that panics, which the terminal shows, is begun again when it is asked for again.
        let Ok(result) = panic::catch_unwind(AssertUnwindSafe(|| work(progress))) else { continue };
        let now = monotonic();
        let fresh_until = now + FRESH_MIN.max((now - begun) * FRESH_FACTOR);
        let mut queue = state.lock();
        queue.done.retain(|done| done.key != key);
        queue.done.push_back(Done { key, result: Arc::new(result), fresh_until });
        if queue.done.len() > RESULTS_MAX {
            queue.done.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// What there is of it, with work that counts how often it is done.
    fn ask(jobs: &Jobs<String>, key: &'static str, done: &Arc<AtomicU64>) -> Option<String> {
        let done = Arc::clone(done);
        let work = move |_: &ReadSoFar| {
            done.fetch_add(1, Ordering::Relaxed);
            key.to_owned()
        };
        match jobs.get(key, work) {
            Reading::Done(result) => Some((*result).clone()),
            Reading::UnderWay(_) | Reading::Busy => None,
        }
    }

    #[tokio::test]
    async fn each_reading_is_done_once_and_one_at_a_time() {
        let (jobs, done) = (Jobs::new(), Arc::new(AtomicU64::new(0)));
        let (go, wait) = mpsc::channel::<()>();
        let (tell, begun) = mpsc::channel::<()>();
        let work = move |so_far: &ReadSoFar| {
            so_far.at(Extent { read: 1, total: 4 });
            tell.send(()).unwrap();
            wait.recv().unwrap();
            "first".to_owned()
        };
        assert!(matches!(jobs.get("first", work), Reading::UnderWay(0)));
        begun.recv().unwrap();
        assert!(matches!(jobs.get("first", |_| unreachable!()), Reading::UnderWay(25)));
        for _ in 0..2 {
            assert_eq!(ask(&jobs, "second", &done), None);
        }
        assert_eq!(done.load(Ordering::Relaxed), 0, "the first is under way");
        go.send(()).unwrap();
        while ask(&jobs, "second", &done).is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(&jobs, "first", &done).as_deref(), Some("first"));
        assert_eq!(done.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn too_many_that_wait_are_refused() {
        let jobs: Jobs<String> = Jobs::new();
        let (go, wait) = mpsc::channel::<()>();
        let (tell, begun) = mpsc::channel::<()>();
        let work = move |_: &ReadSoFar| {
            tell.send(()).unwrap();
            wait.recv().unwrap();
            String::new()
        };
        jobs.get("first", work);
        begun.recv().unwrap();
        for number in 0..WAITING_MAX {
            assert!(matches!(
                jobs.get(&number.to_string(), |_| String::new()),
                Reading::UnderWay(0)
            ));
        }
        assert!(matches!(jobs.get("more", |_| String::new()), Reading::Busy));
        go.send(()).unwrap();
        while !matches!(jobs.get("7", |_| String::new()), Reading::Done(_)) {
            tokio::task::yield_now().await;
        }
        assert_eq!(jobs.state.lock().done.len(), RESULTS_MAX, "the oldest is forgotten");
    }

    #[tokio::test]
    async fn one_that_panics_keeps_no_other_from_being_done() {
        let (jobs, done) = (Jobs::new(), Arc::new(AtomicU64::new(0)));
        jobs.get("first", |_| panic!("as it is meant to"));
        while ask(&jobs, "second", &done).is_none() {
            tokio::task::yield_now().await;
        }
        while ask(&jobs, "first", &done).is_none() {
            tokio::task::yield_now().await;
        }
    }
}
