//! Waker for a hyper connection that the exchange polls in its own task. It passes wake-ups on to
//! that task, except those that the task causes itself by what it does to the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

use crate::runtime::lock::Lock;

/// Wakes the registered task, unless it is muted.
#[derive(Debug)]
pub struct WakeRelay {
    state: AtomicU8,
    registered: Lock<Waker>,
}

const ACTIVE: u8 = 0;
const MUTED: u8 = 1;
/// Muted, and a wake-up was dropped.
const MISSED: u8 = 2;

impl WakeRelay {
    /// A relay without a registered task.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(ACTIVE),
            registered: Lock::new(Waker::noop().clone()),
        })
    }

    /// Registers the task to wake, in place of the one before.
    pub fn register(&self, task: &Waker) {
        self.registered.lock().clone_from(task);
    }

    /// Drops wake-ups from now on. Returns whether it was muted before and has dropped one.
    pub fn mute(&self) -> bool {
        self.state.swap(MUTED, Ordering::AcqRel) == MISSED
    }

    /// Passes wake-ups on again. Returns whether one was dropped meanwhile.
    pub fn unmute(&self) -> bool {
        self.state.swap(ACTIVE, Ordering::AcqRel) == MISSED
    }
}

impl Wake for WakeRelay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let state = self.state.compare_exchange(MUTED, MISSED, Ordering::AcqRel, Ordering::Acquire);
        if state == Err(ACTIVE) {
            self.registered.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wakes_the_last_registered_task_and_reports_what_it_dropped_while_muted() {
        let relay = WakeRelay::new();
        let first = Arc::<Count>::default();
        let second = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&relay));
        let woken = || [&first, &second].map(|count| count.0.load(Ordering::SeqCst));
        waker.wake_by_ref();
        relay.register(&Arc::clone(&first).into());
        waker.wake_by_ref();
        relay.register(&Arc::clone(&second).into());
        waker.wake_by_ref();
        assert_eq!(woken(), [1, 1]);
        for missed in [2, 0, 1] {
            assert!(!relay.mute());
            (0..missed).for_each(|_| waker.wake_by_ref());
            assert_eq!(relay.mute(), missed > 0);
            (0..missed).for_each(|_| waker.wake_by_ref());
            assert_eq!(relay.unmute(), missed > 0);
        }
        assert_eq!(woken(), [1, 1]);
        waker.wake();
        assert_eq!(woken(), [1, 2]);
    }
}
