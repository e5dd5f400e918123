//! Keeps the pace of origins beyond a restart: long holds when they begin, and all that lies ahead
//! at an end in order. Keeps the pace and the log in touch with the shared engine meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::engine::Membership;
use super::witness::Witness;
use crate::pace::{KeptLane, Lanes};
use crate::runtime::clock::{Clock, Uptime, monotonic, uptime};
use crate::runtime::lock::Lock;
use crate::store::Store;
use crate::store::disk::config::STORE_CLOSE_TIMEOUT;
use crate::store::disk::{KeptPace, KeptRow};
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// How often holds that have begun are written.
const HOLDS_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that writes the holds.
#[derive(Debug)]
pub struct PaceKeeper {
    end: CancellationToken,
    /// Ends when all has been written.
    written: Lock<Receiver<()>>,
}

#[derive(Debug)]
struct Kept {
    store: Arc<Store>,
    lanes: Arc<Lanes>,
    clock: Arc<dyn Clock>,
    witness: Option<Arc<Witness>>,
    membership: Option<Membership>,
}

impl PaceKeeper {
    /// Starts the thread.
    pub fn start(
        (store, lanes): (&Arc<Store>, &Arc<Lanes>),
        clock: &Arc<dyn Clock>,
        (witness, membership): (Option<Arc<Witness>>, Option<Membership>),
    ) -> io::Result<Self> {
        let mut kept = Kept {
            store: Arc::clone(store),
            lanes: Arc::clone(lanes),
            clock: Arc::clone(clock),
            witness,
            membership,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let end = CancellationToken::new();
        let (ended, (sender, written)) = (end.clone(), channel());
        let run = move || {
            let wait = async || timeout(HOLDS_INTERVAL, ended.cancelled()).await;
            while runtime.block_on(wait()).is_err() {
                kept.lanes.make_room();
                runtime.block_on(kept.lanes.sync());
                if let Some(witness) = &kept.witness {
                    runtime.block_on(witness.pass_on());
                }
                kept.membership.iter_mut().for_each(Membership::keep);
                if kept.lanes.has_new_holds() {
                    kept.keep(false);
                }
            }
            kept.membership.iter_mut().for_each(Membership::keep);
            kept.keep(true);
            drop(sender);
        };
        std::thread::Builder::new().name("pace-keeper".into()).spawn(run)?;
        Ok(Self { end, written: Lock::new(written) })
    }

    /// Writes all that lies ahead; called when nothing starts any more. A disk that hangs is waited
    /// for no longer than the store waits, and not beyond `deadline`.
    pub fn end(&mut self, deadline: Instant) {
        self.end.cancel();
        let left = deadline.saturating_duration_since(monotonic()).min(STORE_CLOSE_TIMEOUT);
        let _ = self.written.lock().recv_timeout(left);
    }
}

impl Kept {
    fn keep(&self, is_end: bool) {
        let Some(disk) = self.store.disk() else { return };
        let (at, uptime) = (self.clock.wall(), uptime());
        let (lanes, is_whole) = self.lanes.kept(is_end);
        let row = |lane| KeptRow { at, uptime: uptime.clone(), lane };
        let rows: Vec<_> = lanes.into_iter().map(|(origin, lane)| (origin, row(lane))).collect();
        disk.keep_pace(&rows, is_end && is_whole);
        self.lanes.note_write();
    }
}

/// The lanes that the process before has left, as they are at `now`.
pub fn taken_up(
    kept: KeptPace,
    (now, uptime): (Timestamp, Option<Uptime>),
) -> Vec<(Origin, KeptLane)> {
    let lane = |row: KeptRow| {
        // By the date only after a boot: it may have been set. Nothing is later than it was when it
        // was written, whatever that says.
        let since = match (row.uptime, &uptime) {
            (Some(then), Some(now)) if then.boot == now.boot => now.time.saturating_sub(then.time),
            _ => now.since(row.at),
        };
        row.lane.after(since)
    };
    kept.rows.into_iter().map(|(origin, row)| (origin, lane(row))).collect()
}
