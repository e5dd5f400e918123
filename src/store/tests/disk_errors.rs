//! A file that is damaged, newer, older, in use, or cannot be written.

use proptest::prelude::*;
use redb::{Database, ReadableDatabase};

use super::super::disk::{Found, OpenError};
use super::*;
use crate::types::ClientKey;

/// What the disk has of `origin`, as JSON.
async fn kept(disk: &Disk, origin: &Origin) -> Option<String> {
    let print = |found| {
        Some(match found {
            Found::Queued(_) => "waiting".to_owned(),
            Found::Stored(persisted, blobs) => {
                assert!(blobs.len() <= persisted.digests().len());
                serde_json::to_string(&persisted).expect("plain values")
            }
        })
    };
    disk.find(origin, &ClientKey::Proxy, print).await
}

/// A store with files, failures and captures, closed; and what it holds.
async fn specimen(home: &Home) -> Vec<(Origin, String)> {
    let script = (0..40).map(|number| match number % 4 {
        0 => status(404),
        1 => status(503),
        _ => Some(file(&format!("user-agent: *\ndisallow: /{number}\n").repeat(1 + number * 20))),
    });
    let house = home.house(script.collect());
    let mut origins = Vec::new();
    for number in 0..40 {
        house.ask(&format!("{number}.example"), &rfc9309()).await;
        origins.push(origin(&format!("{number}.example")));
    }
    let disk = house.store.disk().expect("a disk");
    assert!(disk.flush(TIMEOUT));
    let mut all = Vec::new();
    for origin in origins {
        let json = kept(disk, &origin).await.expect("it was written");
        all.push((origin, json));
    }
    house.store.close();
    all
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(work)
}

/// Whatever stands in the file: what it tells is what was written, and it can be written to.
async fn tells_no_lies(home: &Home, written: &[(Origin, String)]) -> Result<(), TestCaseError> {
    let house = home.house(vec![rules()]);
    let disk = house.store.disk().expect("a disk");
    for (origin, json) in written {
        let found = kept(disk, origin).await;
        prop_assert!(found.as_ref().is_none_or(|found| found == json), "{origin}: {found:?}");
    }
    prop_assert_eq!(house.ask("new.example", &rfc9309()).await, "rules");
    prop_assert!(disk.flush(TIMEOUT), "{:?}", disk.health());
    Ok(())
}

#[test]
fn bytes_changed_anywhere_are_never_believed() {
    let home = Home::new();
    let written = run(specimen(&home));
    let whole = std::fs::read(home.file()).expect("the file");
    let anywhere = prop::collection::vec((0..whole.len(), 1..=255_u8), 1..20);
    let in_the_head = prop::collection::vec((0..4096_usize, 1..=255_u8), 1..3);
    let changes = prop_oneof![3 => anywhere, 1 => in_the_head];
    proptest!(ProptestConfig::with_cases(96), |(changes in changes)| {
        let mut damaged = whole.clone();
        for (at, change) in changes {
            damaged[at] ^= change;
        }
        std::fs::write(home.file(), damaged).expect("the file");
        run(tells_no_lies(&home, &written))?;
    });
}

#[tokio::test]
async fn an_outage_cannot_be_made_longer_than_it_was() {
    let home = Home::new();
    let house = home.house(vec![status(503)]);
    house.ask("example.com", &rfc9309()).await;
    house.store.close();
    let since = |moment: Timestamp| format!("\"since\":{}", moment.millis());
    let (from, to) =
        (since(START), since(Timestamp::from_millis(START.millis() - 40 * 86_400_000)));
    assert!(disk::fixture::edit(&home.file(), "https://example.com", &from, &to).expect("a store"));
    let house = house.restart(vec![status(503)]);
    assert_eq!(house.verdict("example.com", &rfc9309()).await, "disallow");
    assert_eq!((house.fetches(), house.store.health().broken), (1, 1), "asked, not believed");
    let house = house.restart(vec![]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "unreachable");
    assert_eq!(house.store.health().broken, 0);
}

#[test]
fn a_file_that_is_cut_or_is_none_is_moved_aside() {
    let home = Home::new();
    let written = run(specimen(&home));
    let whole = std::fs::read(home.file()).expect("the file");
    for wrong in
        [&whole[..whole.len() / 2], &whole[..100], &whole[..1], b"not a database, but a letter"]
    {
        std::fs::write(home.file(), wrong).expect("the file");
        run(tells_no_lies(&home, &written)).expect("nothing is believed");
        let names: Vec<_> = std::fs::read_dir(home.path())
            .expect("the directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("store.redb.damaged-"))
            .collect();
        assert_eq!(names.len(), 1, "the last one is kept: {names:?}");
        assert_eq!(std::fs::read(home.path().join(&names[0])).expect("it"), wrong);
    }
}

#[tokio::test]
async fn a_newer_file_is_left_alone_and_done_without() {
    const META: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    let home = Home::new();
    specimen(&home).await;
    let set = |database: &Database| -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        transaction.open_table(META)?.insert("schema", 1000)?;
        Ok(transaction.commit()?)
    };
    set(&Database::open(home.file()).expect("a database")).expect("written");
    let house = home.house(vec![rules()]);
    assert_eq!(house.ask("0.example", &rfc9309()).await, "rules", "from the origin");
    let failing = house.store.health().failing.expect("it says so");
    assert!(failing.contains("newer") && failing.contains("1000"), "{failing}");
    house.store.close();
    let database = Database::open(home.file()).expect("it is where it was");
    let meta = database.begin_read().expect("a transaction").open_table(META).expect("a table");
    assert_eq!(meta.get("schema").expect("read").map(|it| it.value()), Some(1000));
}

#[tokio::test]
async fn an_older_file_is_brought_up_to_date() {
    let home = Home::new();
    let written = specimen(&home).await;
    let old = disk::fixture::version_0(&home.file()).expect("a file of version 0");
    assert_eq!(old, 40);
    let house = home.house(vec![]);
    for (origin, json) in &written {
        let disk = house.store.disk().expect("a disk");
        assert_eq!(kept(disk, origin).await.as_ref(), Some(json), "{:?}", disk.health());
    }
    assert_eq!(house.verdict("0.example", &rfc9309()).await, "allow");
}

#[tokio::test]
async fn a_file_in_use_is_refused_by_name() {
    let home = Home::new();
    let _house = home.house(vec![]);
    let again = Disk::open(disk::Config::new(home.file()), ManualClock::starting_at(START) as _);
    let Err(error @ OpenError::Locked(_)) = again else { panic!("{again:?}") };
    assert!(error.to_string().contains("another courtesy process uses"), "{error}");
    assert!(matches!(disk::Offline::open(&home.file()), Err(OpenError::Locked(_))));
}

#[tokio::test]
async fn without_a_directory_memory_serves_until_there_is_one() {
    let home = Home::new();
    let wrong = home.path().join("state");
    std::fs::write(&wrong, "a file where a directory should be").expect("a file");
    let inner = Home { dir: Arc::clone(&home.dir), below: "state/store.redb", retry: TICK };
    let house = inner.house(vec![rules()]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
    let health = house.store.health();
    assert!(health.failing.is_some() && health.errors > 0 && health.pending == 1, "{health:?}");
    std::fs::remove_file(&wrong).expect("removed");
    let deadline = crate::runtime::clock::monotonic() + TIMEOUT;
    while house.store.health().entries == 0 {
        assert!(crate::runtime::clock::monotonic() < deadline, "{:?}", house.store.health());
        std::thread::yield_now();
    }
    assert_eq!(house.store.health().failing, None);
    let house = house.restart(vec![]);
    assert_eq!(house.verdict("example.com", &rfc9309()).await, "rules");
}

#[tokio::test]
async fn what_waits_for_a_file_that_does_not_come_is_bounded() {
    let home = Home::new();
    std::fs::write(home.path().join("state"), "").expect("a file");
    let inner = Home { dir: Arc::clone(&home.dir), below: "state/store.redb", retry: TIMEOUT };
    // Small enough that their number is the bound that is reached, and not their bytes.
    let house = inner.house(vec![status(404)]);
    house.ask("example.com", &rfc9309()).await;
    let entry = house
        .store
        .core
        .entries
        .lock()
        .memory
        .peek(&origin("example.com"))
        .cloned()
        .expect("it is known");
    let (max, disk) =
        (crate::store::disk::shared::STORE_PENDING_MAX, house.store.disk().expect("a disk"));
    for number in 0..max + 10 {
        disk.put(&origin(&format!("{number}.example")), &entry);
    }
    let health = house.store.health();
    assert_eq!((health.pending, health.dropped), (max as u64, 11));
}
