//! The watchdog of the writer's thread: where a disk does not answer for `audit.write_timeout`, that
//! thread cannot be woken, and its watchdog answers in its place, as for a disk that cannot be written.
//! It never touches the disk itself.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::in_flight::InFlight;
use crate::runtime::clock::monotonic;

/// The thread; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the thread that watches for operations without an end.
    pub fn start(in_flight: Arc<InFlight>) -> io::Result<Self> {
        let end = CancellationToken::new();
        let ended = end.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let run = move || runtime.block_on(ended.run_until_cancelled(watch(&in_flight)));
        let thread =
            std::thread::Builder::new().name("audit-watchdog".into()).spawn(move || {
                run();
            })?;
        Ok(Self { end, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the watchdog of the denial log has panicked");
        }
    }
}

/// It is woken by the first step after a rest, and then no more often than a step may take: under load
/// it costs the writer nothing.
async fn watch(in_flight: &InFlight) {
    loop {
        in_flight.begun.notified().await;
        while let Some(since) = in_flight.since() {
            let end = since + in_flight.timeout();
            if end <= monotonic() {
                in_flight.give_up();
                refuse_until_it_returns(in_flight).await;
            } else {
                sleep_until(end.into()).await;
            }
        }
    }
}

/// Answers each job at once for as long as the writer's thread is away.
#[expect(
    clippy::await_holding_lock,
    reason = "that thread waits for the lock when it is back, and for no more"
)]
async fn refuse_until_it_returns(in_flight: &InFlight) {
    let mut jobs = in_flight.jobs();
    loop {
        tokio::select! {
            biased;
            () = in_flight.returned.notified() => return,
            job = jobs.recv() => match job {
                Some(job) => in_flight.refuse_job(job),
                // None can come any more.
                None => return in_flight.returned.notified().await,
            },
        }
    }
}
