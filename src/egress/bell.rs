//! How an engine wakes whoever drives it. It would also do so for what he does to it himself, and be driven
//! once more for nothing; and the last one who drove it, for what happens while nobody does.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Rings for one at a time, and is silent while he says so.
#[derive(Debug)]
pub struct Bell {
    state: AtomicU8,
    listener: Mutex<Waker>,
}

const RINGS: u8 = 0;
const SILENT: u8 = 1;
/// Silent, and it would have rung.
const MISSED: u8 = 2;

impl Bell {
    /// One that nobody listens to.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(RINGS), listener: Mutex::new(Waker::noop().clone()) })
    }

    /// From now on it rings for this one.
    pub fn ring_for(&self, listener: &Waker) {
        self.listener().clone_from(listener);
    }

    /// It is silent from now on; and whether it was before, and would have rung.
    pub fn silence(&self) -> bool {
        self.state.swap(SILENT, Ordering::AcqRel) == MISSED
    }

    /// It rings again; and whether it would have rung meanwhile.
    pub fn end_silence(&self) -> bool {
        self.state.swap(RINGS, Ordering::AcqRel) == MISSED
    }

    fn listener(&self) -> MutexGuard<'_, Waker> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let silent =
            self.state.compare_exchange(SILENT, MISSED, Ordering::AcqRel, Ordering::Acquire);
        if silent == Err(RINGS) {
            self.listener().wake_by_ref();
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
    fn it_rings_for_the_last_listener_and_says_what_was_missed_in_silence() {
        let (bell, first, second) = (Bell::new(), Arc::<Count>::default(), Arc::<Count>::default());
        let waker = Waker::from(Arc::clone(&bell));
        let rung = || [&first, &second].map(|count| count.0.load(Ordering::SeqCst));
        waker.wake_by_ref();
        bell.ring_for(&Arc::clone(&first).into());
        waker.wake_by_ref();
        bell.ring_for(&Arc::clone(&second).into());
        waker.wake_by_ref();
        assert_eq!(rung(), [1, 1]);
        for missed in [2, 0, 1] {
            assert!(!bell.silence());
            (0..missed).for_each(|_| waker.wake_by_ref());
            assert_eq!(bell.silence(), missed > 0);
            (0..missed).for_each(|_| waker.wake_by_ref());
            assert_eq!(bell.end_silence(), missed > 0);
        }
        assert_eq!(rung(), [1, 1]);
        waker.wake();
        assert_eq!(rung(), [1, 2]);
    }
}
