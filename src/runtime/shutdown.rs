//! The end of the proxy, as all who have something under way hear of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use tokio_util::sync::CancellationToken;

/// Said once, and heard by all. Each request looks whether it has been said: a token alone would lock itself
/// for that, against all other workers.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    said: Arc<AtomicBool>,
    token: CancellationToken,
}

impl Shutdown {
    pub fn trigger(&self) {
        self.said.store(true, Ordering::Release);
        self.token.cancel();
    }

    pub fn is_triggered(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }

    /// Returns when it has been said. Whoever is woken for something else meanwhile only looks, and is not
    /// entered in the token's list again.
    pub async fn wait(&self) {
        let (mut cancelled, mut entered) = (pin!(self.token.cancelled()), None::<Waker>);
        poll_fn(|cx| {
            if !self.is_triggered()
                && entered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                return Poll::Pending;
            }
            entered = Some(cx.waker().clone());
            cancelled.as_mut().poll(cx)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_asked_last_is_woken_once_it_is_said() {
        let (shutdown, first, second) =
            (Shutdown::default(), Arc::<Woken>::default(), Arc::<Woken>::default());
        let mut hears = pin!(shutdown.wait());
        for listener in [&first, &first, &second, &second] {
            let waker = Arc::clone(listener).into();
            assert!(
                hears.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
                    && !shutdown.is_triggered()
            );
        }
        shutdown.clone().trigger();
        let woken = [&first, &second].map(|listener| listener.0.load(Ordering::SeqCst));
        assert_eq!((shutdown.is_triggered(), woken), (true, [0, 1]));
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(hears.as_mut().poll(&mut nobody).is_ready());
        assert!(
            pin!(shutdown.wait()).poll(&mut nobody).is_ready(),
            "and who comes later hears it, too"
        );
    }
}
