//! Keeps the pace of origins beyond a restart: long holds when they begin, and all that lies ahead
//! at an end in order.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::pace::{KeptLane, Lanes};
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::store::Store;
use crate::store::disk::KeptPace;
use crate::store::limits::STORE_CLOSE_TIMEOUT;
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
}

impl PaceKeeper {
    /// Starts the thread.
    pub fn start(
        store: &Arc<Store>,
        lanes: &Arc<Lanes>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let kept =
            Kept { store: Arc::clone(store), lanes: Arc::clone(lanes), clock: Arc::clone(clock) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let end = CancellationToken::new();
        let (ended, (sender, written)) = (end.clone(), channel());
        let run = move || {
            let wait = async || timeout(HOLDS_INTERVAL, ended.cancelled()).await;
            while runtime.block_on(wait()).is_err() {
                if kept.lanes.has_new_holds() {
                    kept.keep(false);
                }
            }
            kept.keep(true);
            drop(sender);
        };
        std::thread::Builder::new().name("pace-keeper".into()).spawn(run)?;
        Ok(Self { end, written: Lock::new(written) })
    }

    /// Writes all that lies ahead; called when nothing starts any more. A disk that hangs is waited
    /// for no longer than the store waits.
    pub fn end(&mut self) {
        self.end.cancel();
        let _ = self.written.lock().recv_timeout(STORE_CLOSE_TIMEOUT);
    }
}

impl Kept {
    fn keep(&self, is_end: bool) {
        let Some(disk) = self.store.disk() else { return };
        let now = self.clock.wall();
        let rows = self.lanes.kept(is_end).into_iter().map(|(origin, lane)| {
            (origin, serde_json::to_vec(&(now, lane)).expect("plain values"))
        });
        disk.keep_pace(&rows.collect::<Vec<_>>(), is_end);
        self.lanes.note_write();
    }
}

/// The lanes that the process before has left, as they are at `now`.
pub fn taken_up(kept: KeptPace, now: Timestamp) -> Vec<(Origin, KeptLane)> {
    let lane = |row: &[u8]| {
        let (at, lane): (Timestamp, KeptLane) = serde_json::from_slice(row).ok()?;
        // Nothing is later than it was when it was written, whatever the clock says.
        Some(lane.after(now.since(at)))
    };
    kept.rows.into_iter().filter_map(|(origin, row)| Some((origin, lane(&row)?))).collect()
}
