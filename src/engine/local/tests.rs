//! Several processes' handles on one file.

use std::sync::mpsc;

use tempfile::TempDir;

use super::file::StateFile;
use super::*;
use crate::engine::{HoldLength, LookupOutcome};
use crate::runtime::clock::ManualClock;
use crate::types::origin::Scheme;
use crate::types::timestamp::Timestamp;

const DELAY: Duration = Duration::from_secs(10);

struct Machine {
    dir: TempDir,
    clock: Arc<ManualClock>,
}

impl Machine {
    fn new() -> Self {
        let clock = ManualClock::starting_at(Timestamp::from_millis(1_800_000_000_000));
        Self { dir: TempDir::new().expect("a directory"), clock }
    }

    fn process(&self, letters: &str) -> LocalEngine {
        let config = Config { process: letters.to_owned(), ..Config::named("machine") };
        let (state_dir, clock) = (self.dir.path().to_owned(), Arc::clone(&self.clock) as _);
        LocalEngine::new(config, LocalConfig { state_dir, size_max: 1 << 20, clock })
    }

    fn sql(&self, sql: &str) -> usize {
        let file = StateFile::open(self.dir.path()).expect("a file");
        file.connection.execute(sql, []).expect("rows")
    }
}

fn site(name: &str) -> Origin {
    Origin::from_authority(Scheme::Http, name).expect("a name")
}

async fn slot(engine: &LocalEngine, origin: &Origin) -> Duration {
    reserve(engine, origin, None).await.slots[0]
}

async fn reserve(
    engine: &LocalEngine,
    origin: &Origin,
    missed: Option<GivenSlot>,
) -> ReservedSlots {
    let request = SlotsRequest {
        origin,
        group: "examplebot",
        lane_delay: Duration::ZERO,
        site_delay: DELAY,
        cell_delay: DELAY,
        slack: Duration::from_millis(50),
        horizon: Duration::from_secs(600),
        count: 1,
        left: Duration::ZERO,
        missed,
    };
    engine.reserve_slots(request).await.expect("the file is there")
}

#[tokio::test]
async fn a_slot_that_was_missed_is_given_again_unless_another_is_behind_it() {
    let machine = Machine::new();
    let (one, other) = (machine.process("a"), machine.process("b"));
    let origin = site("one.example");
    slot(&one, &origin).await;
    let missed = reserve(&one, &origin, None).await;
    machine.clock.advance(DELAY + Duration::from_secs(3));
    let again = reserve(&one, &origin, missed.given).await;
    assert_eq!(again.slots, [Duration::ZERO], "nothing has started since");
    // What starts now is a delay before what comes next.
    assert!(slot(&other, &origin).await > DELAY);
    machine.clock.advance(2 * DELAY);
    // The other one's is behind it.
    let behind = reserve(&one, &origin, again.given).await;
    let next = slot(&other, &origin).await;
    assert!(next >= behind.slots[0] + DELAY, "{behind:?} {next:?}");
    for given in [missed.given, again.given] {
        assert!(reserve(&one, &origin, given).await.slots[0] >= next + DELAY);
    }
}

#[tokio::test]
async fn starts_of_all_processes_are_a_delay_apart() {
    let machine = Machine::new();
    let (one, other) = (machine.process("a"), machine.process("b"));
    let origin = site("one.example");
    let mut slots = Vec::new();
    for engine in [&one, &other, &other, &one] {
        slots.push(slot(engine, &origin).await);
    }
    // Both are on the way to the same host, by either scheme.
    let secure = Origin::from_authority(Scheme::Https, "one.example").expect("a name");
    slots.push(slot(&other, &secure).await);
    for (number, slot) in (0..).zip(&slots) {
        // By the time of each transaction, which is later with each.
        assert!(*slot + Duration::from_secs(1) >= number * DELAY, "{slots:?}");
    }
    drop(one);
    machine.clock.advance(DELAY);
    let after = slot(&machine.process("c"), &origin).await;
    assert!(after > 3 * DELAY, "a process that begins knows of all of them: {after:?}");
    assert!(slot(&other, &site("other.example")).await < DELAY);
}

#[tokio::test]
async fn one_process_fetches_and_the_others_have_what_it_found() {
    let machine = Machine::new();
    let (one, other) = (machine.process("a"), machine.process("b"));
    let origin = site("one.example");
    let request = || LookupRequest {
        origin: &origin,
        have: LeaseToken::default(),
        may_fetch: true,
        is_used: true,
    };
    let LookupOutcome::Lease(token) = one.lookup(request()).await.unwrap().outcome else {
        panic!("no other has asked");
    };
    let waits = other.lookup(request()).await.unwrap().outcome;
    assert!(matches!(waits, LookupOutcome::Wait(_)), "{waits:?}");
    let content = Bytes::from_static(b"User-agent: *");
    let sha256 = super::super::digest_of(&content);
    one.put_file(sha256, content.clone()).await.unwrap();
    let published = PublishRequest { origin: &origin, token, value: b"known" };
    assert_eq!(one.publish(published).await.unwrap(), PublishOutcome::Stored);
    let response = other.lookup(request()).await.unwrap();
    let value = Bytes::from_static(b"known");
    assert_eq!(response.outcome, LookupOutcome::Newer { token, value });
    assert_eq!(response.presence.proxies, 2);
    assert_eq!(other.get_file(sha256).await.unwrap(), Some(content));

    // A holder that is gone is replaced.
    let late = site("late.example");
    let request = || LookupRequest { origin: &late, ..request() };
    assert!(matches!(one.lookup(request()).await.unwrap().outcome, LookupOutcome::Lease(_)));
    machine.clock.advance(Duration::from_secs(4));
    assert!(matches!(other.lookup(request()).await.unwrap().outcome, LookupOutcome::Lease(_)));
}

/// SQLite has no checksums: what was changed in a row is as absent.
#[tokio::test]
async fn a_row_that_was_changed_is_not_believed() {
    let machine = Machine::new();
    let engine = machine.process("a");
    let origin = site("one.example");
    let request = || LookupRequest {
        origin: &origin,
        have: LeaseToken::default(),
        may_fetch: true,
        is_used: false,
    };
    let content = Bytes::from_static(b"User-agent: *");
    let sha256 = super::super::digest_of(&content);
    for change in [
        "UPDATE origin SET known = x'6f70656e'",
        "UPDATE origin SET token = token + 1",
        "UPDATE origin SET sha256 = x'00'",
    ] {
        let LookupOutcome::Lease(token) = engine.lookup(request()).await.unwrap().outcome else {
            panic!("it is believed: {change}");
        };
        let published = PublishRequest { origin: &origin, token, value: b"shut" };
        engine.publish(published).await.unwrap();
        engine.put_file(sha256, content.clone()).await.unwrap();
        assert_eq!(machine.sql(change), 1);
    }
    assert_eq!(machine.sql("UPDATE file SET content = x'00'"), 1);
    assert_eq!(engine.get_file(sha256).await.unwrap(), None);
}

#[tokio::test]
async fn a_hold_is_told_to_the_other_processes_and_known_by_those_that_begin() {
    let machine = Machine::new();
    let (one, other) = (machine.process("a"), machine.process("b"));
    let origin = site("one.example");
    let (tell, told) = mpsc::channel();
    other.on_hold(HoldListener::new(move |lane, hold, is_used| {
        let _ = tell.send((lane.clone(), hold.status, is_used));
    }));
    // It looks from its first operation on.
    assert_eq!(other.announce_presence(&origin).await.unwrap().hold, None);
    let length = HoldLength::For(Duration::from_secs(60));
    let hold = HoldRequest {
        origin: &origin,
        length,
        status: 429,
        cause: super::super::HoldCause::RetryAfter,
    };
    let held = one.set_hold(hold).await.unwrap();
    assert!(held.left > Duration::from_secs(50), "{held:?}");
    let lane = origin.lane().into_owned();
    assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok((lane.clone(), 429, false)));
    // So is one that follows the last of all.
    assert!(one.end_hold(&origin).await.unwrap());
    one.set_hold(hold).await.unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok((lane, 429, false)));

    let begins = machine.process("c");
    let request = LookupRequest {
        origin: &origin,
        have: LeaseToken::default(),
        may_fetch: true,
        is_used: true,
    };
    let hold = begins.lookup(request).await.unwrap().presence.hold.expect("it lasts");
    assert_eq!(hold.status, 429);
    assert!(begins.end_hold(&origin).await.unwrap());
    assert_eq!(one.announce_presence(&origin).await.unwrap().hold, None);
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_fails_each_operation_in_time() {
    let machine = Machine::new();
    std::fs::write(machine.dir.path().join("state"), "").expect("a file in its place");
    let engine = machine.process("a");
    let error = engine.announce_presence(&site("one.example")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Persistence, "{error}");
}

#[tokio::test]
async fn processes_whose_file_cannot_be_used_start_in_cells_of_their_own() {
    let machine = Machine::new();
    let alone = machine.process("a");
    alone.heartbeat().await.expect("the file is there");
    assert_eq!(alone.away_start(DELAY, Duration::ZERO, Duration::ZERO), AwayStart::Alone);
    let all = [alone, machine.process("b"), machine.process("c")];
    for _ in 0..2 {
        for process in &all {
            process.heartbeat().await.expect("the file is there");
        }
    }
    let soon = all[0].away_start(DELAY, Duration::ZERO, Duration::ZERO);
    assert!(matches!(soon, AwayStart::NotBefore(_)), "the others may not know yet: {soon:?}");
    machine.clock.advance(2 * DELAY);
    let mut starts: Vec<_> = all
        .iter()
        .map(|process| match process.away_start(DELAY, Duration::ZERO, Duration::ZERO) {
            AwayStart::Within(begin, end) => (begin, end),
            other => panic!("{other:?}"),
        })
        .collect();
    starts.sort();
    for pair in starts.windows(2) {
        assert!(pair[1].0 >= pair[0].1 + DELAY - Duration::from_millis(100), "{starts:?}");
    }
}
