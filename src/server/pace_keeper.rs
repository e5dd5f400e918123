//! Keeps the pace of origins beyond a restart: long holds when they begin, and all that lies ahead
//! at an end in order.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::pace::{KeptLane, Lanes};
use crate::runtime::clock::Clock;
use crate::store::Store;
use crate::store::disk::KeptPace;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// How often holds that have begun are written.
const HOLDS_INTERVAL: Duration = Duration::from_secs(1);

/// The thread that writes the holds.
#[derive(Debug)]
pub struct PaceKeeper {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
    kept: Kept,
}

#[derive(Clone, Debug)]
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
        let (end, of_thread) = (CancellationToken::new(), kept.clone());
        let ended = end.clone();
        let run = move || {
            let wait = async || timeout(HOLDS_INTERVAL, ended.cancelled()).await;
            while runtime.block_on(wait()).is_err() {
                if of_thread.lanes.has_new_holds() {
                    of_thread.keep(false);
                }
            }
        };
        let thread = std::thread::Builder::new().name("pace-keeper".into()).spawn(run)?;
        Ok(Self { end, thread: Some(thread), kept })
    }

    /// Writes all that lies ahead; called when nothing starts any more.
    pub fn end(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            self.kept.keep(true);
        }
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
