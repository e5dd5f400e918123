//! Passes the head of the audit log to the shared engine, whose heartbeats carry it: an end of the
//! log that is cut off later shows there.

use std::sync::Arc;

use crate::audit::{Head, Writer};
use crate::engine::{Engine, LogHead};
use crate::types::sanitize::digest;
use crate::types::timestamp::Timestamp;

/// The log, and the engine that is its witness.
#[derive(Debug)]
pub(super) struct Witness {
    pub audit: Arc<Writer>,
    pub engine: Arc<dyn Engine>,
}

impl Witness {
    /// Passes on the head that is on the disk: one that a power cut could take would be missed.
    pub(super) fn pass_on(&self) {
        let noted = self.audit.health().noted_head;
        if let Some(head) = noted.and_then(|(head, time)| of_log(&head, time)) {
            self.engine.set_head(head);
        }
    }
}

/// The head as the engine has it; `None`: it is none yet.
fn of_log(head: &Head, time: Timestamp) -> Option<LogHead> {
    Some(LogHead { number: head.seq, hash: digest(&head.hash)?, time }).filter(|it| it.number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Config, Gap, GapEvent, Notice, read_head};
    use crate::engine::{self, ManualEngineClock, MemoryEngine};
    use crate::runtime::clock::{Clock, ManualClock};

    const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_123);

    fn notice() -> Notice {
        let (event, why) = (GapEvent::It, "a test".to_owned());
        let prev = String::new();
        Notice::Gap(Gap { event, lost: 1, node: None, prev, seq: 0, since: NOON, time: NOON, why })
    }

    #[tokio::test]
    async fn the_engine_sees_the_head_that_is_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = ManualClock::starting_at(NOON);
        let audit = Arc::new(Writer::open(Config::new(dir.path().into()), clock).unwrap());
        let engine_clock = ManualEngineClock::starting_at(1_000_000);
        let engine = Arc::new(MemoryEngine::new(engine::Config::named("pod-7"), engine_clock));
        let witness = Witness { audit: Arc::clone(&audit), engine: Arc::clone(&engine) as _ };
        witness.pass_on();
        engine.heartbeat().await.unwrap();
        assert_eq!(engine.heads().await.unwrap(), [], "there is no line yet");
        audit.note(notice()).await.unwrap();
        audit.close().unwrap();
        witness.pass_on();
        engine.heartbeat().await.unwrap();
        let (head, _) = read_head(dir.path()).unwrap().expect("a head on the disk");
        let seen = engine.heads().await.unwrap();
        assert_eq!(seen, [("pod-7".to_owned(), of_log(&head, NOON).unwrap())]);
        assert_eq!(seen[0].1.number, 1);
    }
}
