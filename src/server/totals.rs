//! The log is told how many decisions there were, every hour and at the end: a line of the chain, so
//! that an auditor knows what the records are a part of.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::assemble::Assembly;
use crate::audit::{self, Notice, TotalsEvent, Writer};
use crate::clock::Clock;
use crate::limits::{TOTALS_INTERVAL, TOTALS_WAIT};
use crate::moment::Moment;
use crate::proxy::{DecisionCounts, Decisions};

/// The thread that tells.
#[derive(Debug)]
pub struct Totals {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// What is counted, and where it is told.
struct Account {
    decisions: Arc<Decisions>,
    audit: Arc<Writer>,
    clock: Arc<dyn Clock>,
}

/// What has been told.
struct Told {
    counts: DecisionCounts,
    until: Moment,
}

impl Totals {
    pub fn start(assembly: &Assembly) -> io::Result<Self> {
        let account = Account {
            decisions: Arc::clone(&assembly.decisions),
            audit: Arc::clone(&assembly.audit),
            clock: Arc::clone(&assembly.clock),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let end = CancellationToken::new();
        let ended = end.clone();
        let told = Told { counts: account.decisions.counts(), until: account.clock.wall() };
        let run = move || runtime.block_on(tell(&account, told, ended));
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

async fn tell(account: &Account, mut told: Told, end: CancellationToken) {
    loop {
        let is_last = tokio::select! {
            () = sleep(TOTALS_INTERVAL) => false,
            () = end.cancelled() => true,
        };
        told.tell(account).await;
        if is_last {
            return;
        }
    }
}

impl Told {
    /// Tells what there was since the last time. What cannot be written is told with the next.
    async fn tell(&mut self, account: &Account) {
        let next = Self { counts: account.decisions.counts(), until: account.clock.wall() };
        if next.counts == self.counts {
            return;
        }
        let totals = Notice::Totals(audit::Totals {
            allowed: next.counts.allowed - self.counts.allowed,
            by_host: next.counts.by_host - self.counts.by_host,
            by_path: next.counts.by_path - self.counts.by_path,
            denied: next.counts.denied - self.counts.denied,
            event: TotalsEvent::It,
            node: None,
            prev: String::new(),
            recorded: None,
            seq: 0,
            since: self.until,
            time: next.until,
        });
        match timeout(TOTALS_WAIT, account.audit.note(totals)).await {
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
