//! The log is told how many decisions there were, every hour and at the end: a line of the chain, so
//! that an auditor knows what the records are a part of.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::audit::{self, Notice, TotalsEvent};
use crate::limits::{TOTALS_INTERVAL, TOTALS_WAIT};
use crate::moment::Moment;
use crate::proxy::{DecisionCounts, Gate};

/// The thread that tells.
#[derive(Debug)]
pub struct Totals {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// What has been told.
struct Told {
    counts: DecisionCounts,
    until: Moment,
}

impl Totals {
    pub fn start(gate: Arc<Gate>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let end = CancellationToken::new();
        let ended = end.clone();
        let told = Told { counts: gate.decisions.counts(), until: gate.clock.wall() };
        let run = move || runtime.block_on(tell(&gate, told, ended));
        let thread = std::thread::Builder::new().name("totals".into()).spawn(run)?;
        Ok(Self { end, thread: Some(thread) })
    }

    /// Tells the last, and waits for it no longer than [`TOTALS_WAIT`].
    pub fn end(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn tell(gate: &Gate, mut told: Told, end: CancellationToken) {
    loop {
        let is_last = tokio::select! {
            () = sleep(TOTALS_INTERVAL) => false,
            () = end.cancelled() => true,
        };
        told.tell(gate).await;
        if is_last {
            return;
        }
    }
}

impl Told {
    /// Tells what there was since the last time. What cannot be written is told with the next.
    async fn tell(&mut self, gate: &Gate) {
        let next = Self { counts: gate.decisions.counts(), until: gate.clock.wall() };
        if next.counts == self.counts {
            return;
        }
        let totals = Notice::Totals(audit::Totals {
            allowed: next.counts.allowed - self.counts.allowed,
            by_host: next.counts.by_host - self.counts.by_host,
            by_path: next.counts.by_path - self.counts.by_path,
            denied: next.counts.denied - self.counts.denied,
            event: TotalsEvent::It,
            prev: String::new(),
            seq: 0,
            since: self.until,
            time: next.until,
        });
        match timeout(TOTALS_WAIT, gate.audit.note(totals)).await {
            Ok(Ok(_)) => *self = next,
            Ok(Err(error)) => warn!("the totals since {} wait: {error}", audit::print_time(self.until)),
            Err(_) => {
                // It may yet be written, and must not be told twice.
                warn!("the writer of denial records takes long; the totals may be missing");
                *self = next;
            }
        }
    }
}
