//! A timer for timeouts that are renewed with each message and rarely expire. Renewing only stores
//! the new deadline; the running timer stays, and if it fires early it is re-armed for the rest.
//! That costs less than to start and stop a timer for each message.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::task::coop::unconstrained;
use tokio::time::{Sleep, sleep_until};

use crate::runtime::clock;

/// Measures one timeout after another on behalf of one task.
#[derive(Debug, Default)]
pub struct LazyTimer {
    /// `None` while no timeout runs.
    end: Option<Instant>,
    /// Fires at that time or earlier.
    timer: Option<Pin<Box<Sleep>>>,
    /// The task that the timer wakes.
    waker: Option<Waker>,
}

impl LazyTimer {
    /// A timer without a deadline.
    pub const fn new() -> Self {
        Self { end: None, timer: None, waker: None }
    }

    /// Ends the current timeout.
    pub const fn clear(&mut self) {
        self.end = None;
    }

    /// Starts a new timeout of this length.
    pub fn begin(&mut self, limit: Duration) {
        self.end = Some(clock::monotonic() + limit);
    }

    /// Ready once `limit` has passed since the first call of this timeout.
    pub fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let end = *self.end.get_or_insert_with(|| clock::monotonic() + limit);
        self.poll_at(end, cx)
    }

    /// Ready at `end`.
    pub fn poll_at(&mut self, end: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let end = end.into();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() > end {
            timer.as_mut().reset(end);
        }
        // A task that is woken for other reasons need not register again. Outside of tokio's
        // cooperative budget: with that exhausted, the timer would not register the waker.
        if !timer.is_elapsed()
            && self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        loop {
            ready!(Pin::new(&mut unconstrained(timer.as_mut())).poll(cx));
            if timer.deadline() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio::task::coop::consume_budget;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(100);
    const LATER: Duration = Duration::from_millis(300);
    const NEVER: Duration = Duration::from_secs(600);

    /// How long `poll` keeps a task waiting.
    async fn waited(poll: impl FnMut(&mut Context<'_>) -> Poll<()>) -> Duration {
        let since = clock::monotonic();
        poll_fn(poll).await;
        clock::monotonic() - since
    }

    #[tokio::test]
    async fn a_timer_ends_at_its_latest_limit_and_never_before() {
        let mut deadline = LazyTimer::new();
        let mut ask = |limit| {
            let mut cx = Context::from_waker(Waker::noop());
            deadline.poll(limit, &mut cx)
        };
        // The first limit applies until the next timeout.
        assert!(ask(SOON).is_pending() && ask(NEVER).is_pending());
        assert!(waited(|cx| deadline.poll(NEVER, cx)).await <= NEVER / 2);
        assert!(waited(|cx| deadline.poll(NEVER, cx)).await <= NEVER / 2, "it stays over");
        // Later than a timer that has fired, later than one that runs, and sooner than one that
        // runs.
        for (before, limit) in [(SOON, LATER), (SOON, LATER), (NEVER, SOON)] {
            deadline.begin(before);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(deadline.poll(before, &mut cx).is_pending());
            deadline.clear();
            let waited = waited(|cx| deadline.poll(limit, cx)).await;
            assert!(limit <= waited && waited < NEVER / 2, "{waited:?} for {limit:?}");
        }
    }

    #[tokio::test]
    async fn a_timer_first_polled_without_task_budget_still_ends() {
        let mut deadline = LazyTimer::new();
        let mut is_first = true;
        let waited = waited(|cx| {
            if std::mem::take(&mut is_first) {
                while pin!(consume_budget()).poll(cx).is_ready() {}
            }
            deadline.poll(SOON, cx)
        });
        timeout(NEVER / 2, waited).await.expect("it ends");
    }

    #[tokio::test]
    async fn putting_it_off_wakes_nobody_and_begins_no_timer() {
        let mut deadline = LazyTimer::new();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            deadline.clear();
            assert!(deadline.poll(SOON, &mut cx).is_pending());
        }
        let begun = deadline.timer.as_ref().map(|timer| timer.deadline());
        deadline.clear();
        assert!(deadline.poll(LATER, &mut cx).is_pending());
        assert_eq!(deadline.timer.as_ref().map(|timer| timer.deadline()), begun);
        // The timer fires early once, and is re-armed for the rest.
        let mut polls = 0;
        waited(|cx| {
            polls += 1;
            deadline.poll(LATER, cx)
        })
        .await;
        assert_eq!(polls, 3, "to begin with, once too early, and at the end");
    }
}
