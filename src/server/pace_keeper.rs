//! Keeps the pace and the log in touch with the shared engine; and, where that is a server, the pace in
//! the file of the state directory as well: long holds when they begin, and all that lies ahead at an
//! end in order, for a start while the server is away.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::engine::Membership;
use super::witness::Witness;
use crate::engine::LocalEngine;
use crate::pace::Lanes;
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;

/// How often it is looked whether the engine is back, and how many looks there are to a second.
const LOOK: Duration = Duration::from_millis(250);
const LOOKS: u32 = 4;

/// How long the end waits for the engine.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the end waits for the file.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The thread that writes the holds.
#[derive(Debug)]
pub struct PaceKeeper {
    end: CancellationToken,
    /// Ends when all has been written.
    written: Lock<Receiver<()>>,
}

#[derive(Debug)]
struct Kept {
    file: Option<Arc<LocalEngine>>,
    lanes: Arc<Lanes>,
    witness: Option<Arc<Witness>>,
    membership: Option<Membership>,
}

impl PaceKeeper {
    /// Starts the thread.
    pub fn start(
        (file, lanes): (Option<&Arc<LocalEngine>>, &Arc<Lanes>),
        (witness, membership): (Option<Arc<Witness>>, Option<Membership>),
    ) -> io::Result<Self> {
        let mut kept = Kept { file: file.cloned(), lanes: Arc::clone(lanes), witness, membership };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let end = CancellationToken::new();
        let (ended, (sender, written)) = (end.clone(), channel());
        let run = move || {
            let wait = async || timeout(LOOK, ended.cancelled()).await;
            let mut looks = 0_u32;
            while runtime.block_on(wait()).is_err() {
                runtime.block_on(kept.lanes.tell());
                looks = (looks + 1) % LOOKS;
                if looks > 0 {
                    continue;
                }
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
            if let Some(membership) = &mut kept.membership {
                // The timer is that of the runtime, and can be made within it alone.
                let left = async { timeout(LEAVE_TIMEOUT, membership.leave()).await };
                let left = runtime.block_on(left);
                // It is missed for ten minutes then.
                drop(left);
            }
            drop(sender);
        };
        std::thread::Builder::new().name("pace-keeper".into()).spawn(run)?;
        Ok(Self { end, written: Lock::new(written) })
    }

    /// Writes all that lies ahead; called when nothing starts any more. A disk that hangs is waited for
    /// no longer than [`END_TIMEOUT`], and not beyond `deadline`.
    pub fn end(&mut self, deadline: Instant) {
        self.end.cancel();
        let left = deadline.saturating_duration_since(monotonic()).min(END_TIMEOUT);
        let _ = self.written.lock().recv_timeout(left);
    }
}

impl Kept {
    /// Keeps the pace in the file, where that does not decide on it.
    fn keep(&self, is_end: bool) {
        let Some(file) = self.file.as_ref().filter(|_| self.membership.is_some()) else { return };
        let (lanes, is_whole) = self.lanes.kept(is_end);
        let lanes = lanes.into_iter().map(|(lane, kept)| kept.ahead(lane));
        file.keep_lanes(lanes.collect(), is_end && is_whole);
        self.lanes.note_write();
    }
}
