//! Writes the number of decisions to the log every hour and at the end, also when there were none, and
//! those of each site: lines of the chain, by which an auditor sees the share of the records and that
//! the proxy ran. Between them, each five minutes in which something was asked end with a `pulse`, so
//! that the decisions of a process that is killed are known to five minutes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::components::Components;
use super::lifecycle::Lifecycle;
use crate::audit::{self, CheckpointEvent, Checkpointed, Notice, Writer};
use crate::pace::{Lanes, WaitTotals};
use crate::proxy::{DecisionCounts, DecisionMetrics};
use crate::runtime::clock::Clock;
use crate::types::timestamp::Timestamp;
use crate::watch::{SiteBatch, Watch};

/// How often the decisions since the last totals are written to the log, where there were any: what is
/// not known of a process that is killed.
const PULSE_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Every how many of them the totals are written, with or without any: each hour.
const PULSES_OF_TOTALS: u32 = 12;

/// How often the process's log sums up the decisions without a line of their own.
const DECISION_SUMMARY_INTERVAL: Duration = Duration::from_secs(60);

/// The thread that writes the totals.
#[derive(Debug)]
pub struct Totals {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The counters, and the log that they are written to.
struct Account {
    decision_metrics: Arc<DecisionMetrics>,
    lanes: Arc<Lanes>,
    /// Requests and tunnels that went by a parent proxy.
    by_parent: Arc<AtomicU64>,
    audit: Arc<Writer>,
    clock: Arc<dyn Clock>,
    lifecycle: Arc<Lifecycle>,
    watch: Arc<Watch>,
}

/// The sums at the last totals.
#[derive(Clone, Copy)]
struct Written {
    counts: DecisionCounts,
    waits: WaitTotals,
    by_parent: u64,
    until: Timestamp,
}

impl Totals {
    /// Starts the thread.
    pub fn start(components: &Components) -> io::Result<Self> {
        let account = Account {
            decision_metrics: Arc::clone(&components.decision_metrics),
            lanes: Arc::clone(components.egress.lanes()),
            by_parent: components.egress.forwarded_by_parent(),
            audit: Arc::clone(&components.audit),
            clock: Arc::clone(&components.clock),
            lifecycle: Arc::clone(&components.lifecycle),
            watch: Arc::clone(&components.watch),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let end = CancellationToken::new();
        let ended = end.clone();
        let written = Written::now(&account);
        let run = move || {
            runtime.block_on(async {
                tokio::join!(
                    write_totals(&account, written, ended.clone(), PULSE_INTERVAL),
                    sum_up(&account, ended)
                );
            });
        };
        let thread = std::thread::Builder::new().name("totals".into()).spawn(run)?;
        Ok(Self { end, thread: Some(thread) })
    }

    /// Queues the last totals, which are written after all records.
    pub fn end(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn write_totals(
    account: &Account,
    mut written: Written,
    end: CancellationToken,
    interval: Duration,
) {
    let (mut pulses, mut last) = (0, written);
    loop {
        tokio::select! {
            () = sleep(interval) => pulses += 1,
            () = end.cancelled() => break,
        }
        if pulses == PULSES_OF_TOTALS {
            written = written.write(account);
            account.audit.queue_notice(checkpoint(account));
            (pulses, last) = (0, written);
            account.lifecycle.write_omitted();
        } else if last.is_other(account) && written.write_pulse(account) {
            last = Written::now(account);
        }
    }
    account.lifecycle.write_omitted();
    let (_, notices, _) = written.due(account);
    account.audit.queue_last_notices(notices.into_iter().chain([checkpoint(account)]));
}

/// For the writer to make, where it has a key. One that cannot be queued is no loss: the next is of more lines.
fn checkpoint(account: &Account) -> Notice {
    Notice::Checkpointed(Checkpointed {
        event: CheckpointEvent::It,
        node: None,
        note: String::new(),
        prev: String::new(),
        seq: 0,
        time: account.clock.wall(),
    })
}

/// Sums up the decisions without a line in the process's log, every minute and at the end.
async fn sum_up(account: &Account, end: CancellationToken) {
    loop {
        let is_last = timeout(DECISION_SUMMARY_INTERVAL, end.cancelled()).await.is_ok();
        account.decision_metrics.log.log_summary();
        if is_last {
            return;
        }
    }
}

impl Written {
    fn now(account: &Account) -> Self {
        Self {
            counts: account.decision_metrics.counts(),
            waits: account.lanes.wait_totals(),
            by_parent: account.by_parent.load(Ordering::Relaxed),
            until: account.clock.wall(),
        }
    }

    /// Writes the totals since the last notice. If that fails, the next notice includes them.
    fn write(self, account: &Account) -> Self {
        let (batch, notices, next) = self.due(account);
        if account.audit.queue_notices(notices) {
            account.watch.sites.written(&batch);
            return next;
        }
        warn!(
            "the totals since {} wait: denial records cannot be written",
            audit::print_time(self.until)
        );
        self
    }

    /// Whether something was asked since.
    fn is_other(&self, account: &Account) -> bool {
        let now = Self::now(account);
        let asked =
            |it: &Self| (it.counts.by_path + it.counts.by_host, it.by_parent, it.waits.refused);
        asked(&now) != asked(self)
    }

    /// Writes the totals so far; whether that could be done. They wait for no disk: the next has them, too.
    fn write_pulse(&self, account: &Account) -> bool {
        let (pulse, _) = self.until_now(account);
        account.audit.health().failing.is_none() && account.audit.queue_notice(Notice::Pulse(pulse))
    }

    /// What is due now: the counts of sites and behind them the totals, and the state after they are written.
    fn due(&self, account: &Account) -> (SiteBatch, Vec<Notice>, Self) {
        let (totals, next) = self.until_now(account);
        let mut batch = account.watch.sites.batch(self.until, next.until);
        let mut notices = std::mem::take(&mut batch.notices);
        notices.push(Notice::Totals(totals));
        (batch, notices, next)
    }

    /// The totals since the last notice, and the state after they are written.
    fn until_now<E: Default>(&self, account: &Account) -> (audit::Totals<E>, Self) {
        let next = Self::now(account);
        let totals = audit::Totals {
            allowed: next.counts.allowed - self.counts.allowed,
            by_host: next.counts.by_host - self.counts.by_host,
            by_parent: next.by_parent - self.by_parent,
            by_path: next.counts.by_path - self.counts.by_path,
            denied: next.counts.denied - self.counts.denied,
            event: E::default(),
            node: None,
            paced: next.waits.held - self.waits.held,
            prev: String::new(),
            // The writer counts them.
            recorded: None,
            resting: next.waits.refused - self.waits.refused,
            seq: 0,
            since: self.until,
            time: next.until,
            waited_ms: millis(next.waits.waited.saturating_sub(self.waits.waited)),
        };
        (totals, next)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Config, FILE_NAME};
    use crate::config::Settings;
    use crate::runtime::clock::ManualClock;

    /// An account of its own log in `dir`, with the writer.
    fn account(dir: &std::path::Path) -> (Account, Arc<Writer>) {
        let clock: Arc<dyn Clock> =
            ManualClock::starting_at(Timestamp::from_millis(1_795_176_000_123));
        let audit =
            Arc::new(Writer::open(Config::new(dir.to_owned()), Arc::clone(&clock)).unwrap());
        let lifecycle = Lifecycle::new(Arc::clone(&audit), Arc::clone(&clock), Settings::default());
        let account = Account {
            decision_metrics: Arc::default(),
            lanes: Lanes::off(Arc::clone(&clock)),
            by_parent: Arc::default(),
            audit: Arc::clone(&audit),
            clock,
            lifecycle: Arc::new(lifecycle),
            watch: Watch::new(false),
        };
        (account, audit)
    }

    /// The lines, once `ask` has asked in short hours until it has seen enough of them.
    fn lines(ask: impl Fn(&Account, &str) -> bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let (account, audit) = account(dir.path());
        let written = Written::now(&account);
        let lines = || std::fs::read_to_string(dir.path().join(FILE_NAME)).unwrap();
        let end = CancellationToken::new();
        let ended = end.clone();
        let hours = async {
            tokio::join!(write_totals(&account, written, ended, Duration::from_millis(1)), async {
                while !ask(&account, &lines()) {
                    tokio::task::yield_now().await;
                }
                end.cancel();
            })
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(hours);
        audit.close().unwrap();
        lines()
    }

    #[test]
    fn hours_in_which_nothing_is_decided_have_totals_and_so_has_the_end() {
        let lines = lines(|_, lines| lines.lines().count() >= 3);
        assert!(lines.lines().count() > 3, "{lines}");
        let recorded = r#""recorded":{"denied":0,"exempted":0,"tunnelled":0,"would_deny":0}"#;
        for line in lines.lines() {
            assert!(
                line.starts_with(
                    r#"{"allowed":0,"by_host":0,"by_path":0,"denied":0,"event":"totals","#
                ),
                "{line}"
            );
            assert!(line.contains(recorded), "{line}");
        }
    }

    #[test]
    fn a_pulse_has_what_was_asked_since_the_last_totals_where_something_was() {
        let lines = lines(|account, lines| {
            // Each line that is there is followed by one request.
            let (asked, there) = (&account.by_parent, lines.lines().count() as u64);
            asked.store(there, Ordering::Relaxed);
            lines.matches("\"event\":\"totals\"").count() > 1
                && lines.contains("\"event\":\"pulse\"")
        });
        let (mut all, mut so_far) = (0, 0);
        for line in lines.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let asked = line["by_parent"].as_u64().unwrap_or_default();
            if line["event"] == "pulse" {
                assert!(asked > so_far, "{lines}");
                so_far = asked;
            } else {
                assert_eq!(line["event"], "totals");
                assert!(asked >= so_far, "{lines}");
                (all, so_far) = (all + asked, 0);
            }
        }
        assert!(all > 0 && all < lines.lines().count() as u64, "{lines}");
    }
}
