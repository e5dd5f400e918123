//! The thread that looks at lanes when the time of a waiting request may have come. It is started
//! with the first such request.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Weak};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use super::tick::Tick;
use crate::runtime::clock::{Clock, monotonic, monotonic_micros};
use crate::runtime::lock::{Lock, wait_timeout_while};
use crate::types::timestamp::Timestamp;

/// The longest sleep of the thread.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// What the timer wakes.
pub(super) trait TimerTask: fmt::Debug + Send + Sync {
    /// Its time has come.
    fn wake(self: Arc<Self>, now: Tick);
}

/// Ends its thread when dropped.
#[derive(Debug)]
pub(super) struct Timer(Arc<State>);

#[derive(Debug)]
struct State {
    clock: TickClock,
    due: Lock<Due>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Due {
    /// By time, and by number.
    tasks: BTreeMap<(Tick, u64), Weak<dyn TimerTask>>,
    is_started: bool,
    is_over: bool,
}

impl Timer {
    pub(super) fn new(clock: TickClock) -> Self {
        Self(Arc::new(State { clock, due: Lock::default(), changed: Condvar::new() }))
    }

    /// Wakes the task of this number at that time.
    pub(super) fn wake_at(&self, at: Tick, number: u64, task: Weak<dyn TimerTask>) {
        let mut due = self.0.due.lock();
        // One that is due is overslept where the clock has been advanced by hand.
        let now = self.0.clock.now();
        let is_first = due.first().is_none_or(|first| at < first || first <= now);
        due.tasks.insert((at, number), task);
        if !due.is_started {
            let state = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("pace".into());
            due.is_started = thread.spawn(move || state.run()).is_ok();
        } else if is_first {
            self.0.changed.notify_one();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.due.lock().is_over = true;
        self.0.changed.notify_one();
    }
}

impl State {
    fn run(&self) {
        while let Some(due) = self.next() {
            let now = self.clock.now();
            due.iter().filter_map(Weak::upgrade).for_each(|task| task.wake(now));
        }
    }

    /// Waits for those that are due; `None`: the timer is over.
    fn next(&self) -> Option<Vec<Weak<dyn TimerTask>>> {
        let mut due = self.due.lock();
        while !due.is_over {
            let now = self.clock.now();
            let first = due.first();
            if first.is_some_and(|first| first <= now) {
                let later = due.tasks.split_off(&(now, u64::MAX));
                let due = std::mem::replace(&mut due.tasks, later);
                return Some(due.into_values().collect());
            }
            let sleep = first.map_or(SLEEP_MAX, |first| first.since(now));
            let may_sleep = |due: &mut Due| {
                let is_due = first.is_some_and(|first| first <= self.clock.now());
                !due.is_over && due.first() == first && !is_due
            };
            due = wait_timeout_while(&self.changed, due, sleep, may_sleep);
        }
        None
    }
}

impl Due {
    fn first(&self) -> Option<Tick> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }
}

/// The time since the start of the process, by the monotonic clock.
#[derive(Clone, Debug)]
pub(super) struct TickClock {
    start: Instant,
    /// The start, in microseconds.
    start_micros: u64,
    clock: Arc<dyn Clock>,
}

impl TickClock {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        // In this order no sleep until a tick ends before that.
        let start_micros = monotonic_micros();
        Self { start: monotonic(), start_micros, clock }
    }

    pub(super) fn now(&self) -> Tick {
        let micros = monotonic_micros().saturating_sub(self.start_micros);
        Tick::from_micros(micros) + self.clock.advanced()
    }

    pub(super) fn instant(&self, at: Tick) -> tokio::time::Instant {
        let after = Duration::from_micros(at.micros()).saturating_sub(self.clock.advanced());
        (self.start + after.min(Duration::from_secs(u32::MAX.into()))).into()
    }

    pub(super) fn date(&self) -> Timestamp {
        self.clock.wall()
    }
}
