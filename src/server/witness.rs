//! Passes the head of the audit log to the shared engine, whose heartbeats carry it: an end of the
//! log that is cut off later shows there.

use std::sync::Arc;

use crate::audit::segment::{LineThere, look_for};
use crate::audit::{Head, Notice, Rewound, RewoundEvent, Writer};
use crate::engine::{Engine, LogHead};
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::types::LogId;
use crate::types::sanitize::{digest, hex};
use crate::types::timestamp::Timestamp;

/// The log, and the engine that is its witness.
#[derive(Debug)]
pub struct Witness {
    audit: Arc<Writer>,
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    state: Lock<State>,
}

/// What holding the log against the head that the engine has seen has given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The engine has not been asked yet.
    #[default]
    NotHeld,
    Holds,
    /// The log lacks the line: what it has contradicts what the engine has seen.
    Rewound,
}

impl Witness {
    /// Of a log that has just been opened.
    pub(super) fn new(audit: Arc<Writer>, engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        Self { audit, engine, clock, state: Lock::default() }
    }

    /// Passes on the head that is on the disk: one that a power cut could take would be missed. The
    /// first time the log is held against the head that the engine has seen, before that is
    /// another.
    pub(super) async fn pass_on(&self) {
        if *self.state.lock() == State::NotHeld {
            self.hold().await;
        }
        let (state, health) = (*self.state.lock(), self.audit.health());
        if state == State::NotHeld {
            return;
        }
        let head = health.noted_head.and_then(|(head, time)| of_log(&head, health.log, time));
        if let Some(head) = head {
            self.engine.set_head(LogHead { contradicts: state == State::Rewound, ..head });
        }
    }

    /// Sends the last head of a log that is closed.
    pub async fn send_last(&self) {
        self.pass_on().await;
        if *self.state.lock() == State::NotHeld {
            return;
        }
        if let Err(error) = self.engine.heartbeat().await {
            tracing::warn!(%error, "the shared engine has not seen the last head of the denial log");
        }
    }

    /// Holds the log against its head, where the engine can be asked.
    async fn hold(&self) {
        // One that is away is asked when it is back, and counts no failure until then.
        let log = self.audit.health().log.filter(|_| self.engine.status().is_up);
        let Some(log) = log else { return };
        let Ok(heads) = self.engine.heads().await else { return };
        let own = heads.into_iter().map(|(_, head)| head);
        let own = own.filter(|head| head.log == Some(log) && !head.contradicts);
        let mut state = State::Holds;
        for head in own {
            match look_for(&self.audit.dir(), head.number) {
                Ok(LineThere::Hash(hash)) if hash == hex(&head.hash) => {}
                Ok(LineThere::Removed) => {}
                Ok(LineThere::Hash(hash)) => {
                    self.note_rewound(&head, Some(hash));
                    state = State::Rewound;
                }
                Ok(LineThere::Absent) => {
                    self.note_rewound(&head, None);
                    state = State::Rewound;
                }
                // It is tried again.
                Err(_) => return,
            }
        }
        *self.state.lock() = state;
    }

    fn note_rewound(&self, seen: &LogHead, found_hash: Option<String>) {
        let is = if found_hash.is_some() { "has another line there" } else { "ends before it" };
        self.audit.note_rewound(&format!(
            "the denial log in {} was cut off or written anew: the shared engine has seen line {} of it, and it {is}; \
             courtesy audit verify --engine tells more",
            self.audit.dir().display(),
            seen.number
        ));
        let notice = Notice::Rewound(Rewound {
            event: RewoundEvent::It,
            found_hash,
            node: None,
            prev: String::new(),
            seen_hash: hex(&seen.hash),
            seen_seq: seen.number,
            seq: 0,
            time: self.clock.wall(),
        });
        if !self.audit.queue_notice(notice) {
            tracing::warn!(
                "the notice rewound is missing from the denial log, which cannot be written"
            );
        }
    }
}

/// The head as the engine has it; `None`: it is none yet.
fn of_log(head: &Head, log: Option<LogId>, time: Timestamp) -> Option<LogHead> {
    let (number, hash) = (head.seq, digest(&head.hash)?);
    Some(LogHead { log, number, hash, time, contradicts: false }).filter(|it| it.number > 0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::audit::{Config, Gap, GapEvent, read_head, read_log_id};
    use crate::engine::{self, ManualEngineClock, MemoryEngine};
    use crate::runtime::clock::ManualClock;

    const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_123);

    fn notice(lost: u64) -> Notice {
        let (event, why) = (GapEvent::It, "a test".to_owned());
        let prev = String::new();
        Notice::Gap(Gap { event, lost, node: None, prev, seq: 0, since: NOON, time: NOON, why })
    }

    /// A proxy that begins to write in `dir`.
    fn witness(dir: &Path, engine: &Arc<MemoryEngine>) -> Witness {
        let clock: Arc<dyn Clock> = ManualClock::starting_at(NOON);
        let audit = Arc::new(Writer::open(Config::new(dir.into()), Arc::clone(&clock)).unwrap());
        Witness::new(audit, Arc::clone(engine) as _, clock)
    }

    fn engine() -> Arc<MemoryEngine> {
        let clock = ManualEngineClock::starting_at(1_000_000);
        Arc::new(MemoryEngine::new(engine::Config::named("pod-7"), clock))
    }

    /// Writes so many lines, ends in order, and gives what the engine has seen.
    async fn write(witness: &Witness, lines: u64, engine: &MemoryEngine) -> Vec<LogHead> {
        witness.pass_on().await;
        for _ in 0..lines {
            witness.audit.note(notice(1)).await.unwrap();
        }
        witness.audit.close().unwrap();
        witness.send_last().await;
        engine.heads().await.unwrap().into_iter().map(|(_, head)| head).collect()
    }

    #[tokio::test]
    async fn the_engine_sees_the_head_that_is_on_the_disk_and_the_last_one() {
        let (dir, engine) = (tempfile::tempdir().unwrap(), engine());
        {
            let first = witness(dir.path(), &engine);
            first.pass_on().await;
            engine.heartbeat().await.unwrap();
            assert_eq!(engine.heads().await.unwrap(), [], "there is no line yet");
        }
        for lines in [1, 3] {
            let next = witness(dir.path(), &engine);
            let seen = write(&next, lines, &engine).await;
            let (head, _) = read_head(dir.path()).unwrap().expect("a head on the disk");
            let log = read_log_id(dir.path()).unwrap();
            assert!(log.is_some());
            assert_eq!(seen, [of_log(&head, log, NOON).unwrap()], "after {lines} more");
            assert_eq!(next.audit.health().rewound, None);
        }
    }

    #[tokio::test]
    async fn a_rewound_log_is_said_chained_and_not_forgotten_by_the_engine() {
        for kept in [0, 1, 2] {
            let (dir, engine) = (tempfile::tempdir().unwrap(), engine());
            let seen = write(&witness(dir.path(), &engine), 3, &engine).await;
            let file = dir.path().join(crate::audit::FILE_NAME);
            let text = std::fs::read_to_string(&file).unwrap();
            let lines: String = text.split_inclusive('\n').take(kept).collect();
            std::fs::write(&file, lines).unwrap();
            // It keeps its name: else it would be another log, of which nothing is known.
            let log = read_log_id(dir.path()).unwrap().unwrap();
            let rewritten = serde_json::json!({
                "hash": "0".repeat(64), "log": log, "seq": 0, "time": "2026-11-20T12:00:00.000000Z"
            });
            std::fs::write(dir.path().join(crate::audit::HEAD_NAME), rewritten.to_string())
                .unwrap();
            let anew = witness(dir.path(), &engine);
            for _ in 0..4 {
                anew.audit.note(notice(2)).await.unwrap();
            }
            let heads = write(&anew, 1, &engine).await;
            let rewound = anew.audit.health().rewound.expect("it is said");
            assert!(
                rewound.contains("has seen line 3 of it, and it has another line there"),
                "{rewound}"
            );
            assert_eq!(heads[0], seen[0], "it has been forgotten");
            assert!(heads[1].contradicts && heads[1].number > 3, "{heads:?}");
            let text = std::fs::read_to_string(&file).unwrap();
            let notices: Vec<_> =
                text.lines().filter(|line| line.contains("\"rewound\"")).collect();
            assert_eq!(notices.len(), 1, "{text}");
            assert!(notices[0].contains("\"seen_seq\":3"), "{notices:?}");
        }
    }

    #[tokio::test]
    async fn the_head_of_another_log_accuses_none() {
        let (one, other, engine) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), engine());
        write(&witness(one.path(), &engine), 5, &engine).await;
        let second = witness(other.path(), &engine);
        let heads = write(&second, 2, &engine).await;
        assert_eq!(second.audit.health().rewound, None);
        let mut numbers: Vec<_> =
            heads.iter().map(|head| (head.number, head.contradicts)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [(2, false), (5, false)], "two logs of one proxy");
    }
}
