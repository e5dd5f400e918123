//! A file that is damaged, newer, or cannot be written.

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

/// What the file has of `origin`, as JSON.
async fn kept(disk: &Disk, origin: &Origin) -> Option<String> {
    let found = disk.find(origin).await?;
    assert!(found.blobs.len() <= found.persisted.digests().len());
    Some(serde_json::to_string(&found.persisted).expect("plain values"))
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
    let disk = house.disk();
    let mut all = Vec::new();
    for origin in origins {
        let json = kept(disk, &origin).await.expect("it was written");
        all.push((origin, json));
    }
    house.close();
    // All of it is in one file then, as a copy would have it.
    let connection = Connection::open(home.file()).expect("a database");
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection.query_row(checkpoint, [], |_| Ok(())).expect("it is written");
    all
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(work)
}

/// Whatever stands in the file: what it tells is what was written, and it can be written to.
async fn tells_no_lies(home: &Home, written: &[(Origin, String)]) -> Result<(), TestCaseError> {
    let house = home.house(vec![rules()]);
    let disk = house.disk();
    for (origin, json) in written {
        let found = kept(disk, origin).await;
        prop_assert!(found.as_ref().is_none_or(|found| found == json), "{origin}: {found:?}");
    }
    prop_assert_eq!(house.ask("new.example", &rfc9309()).await, "rules");
    // An operation that finds the damage fails, and the next one has a new file.
    let end = monotonic() + TIMEOUT;
    while disk.0.flush().await.is_err() {
        prop_assert!(monotonic() < end, "{:?}", disk.health());
        tokio::task::yield_now().await;
    }
    house.close();
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
    house.close();
    let since = |moment: Timestamp| format!("\"since\":{}", moment.millis());
    let (from, to) =
        (since(START), since(Timestamp::from_millis(START.millis() - 40 * 86_400_000)));
    let connection = Connection::open(home.file()).expect("a database");
    let edit = "UPDATE origin SET known = CAST(replace(CAST(known AS TEXT), ?1, ?2) AS BLOB)";
    assert_eq!(connection.execute(edit, [&from, &to]).expect("a row"), 1);
    drop(connection);
    let house = house.restart(vec![status(503)]);
    assert_eq!(house.verdict("example.com", &rfc9309()).await, "disallow");
    house.flush().await;
    assert_eq!((house.fetches(), house.store.health().broken), (1, 1), "asked, not believed");
    let house = house.restart(vec![]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "unreachable");
    assert_eq!(house.store.health().broken, 0);
}

#[test]
fn a_file_that_is_cut_or_is_none_is_set_aside_with_its_folder() {
    let home = Home::new();
    let written = run(specimen(&home));
    let whole = std::fs::read(home.file()).expect("the file");
    for (case, wrong) in
        [&whole[..whole.len() / 2], &whole[..100], &whole[..1], b"not a database, but a letter"]
            .into_iter()
            .enumerate()
    {
        for log in ["state.db-wal", "state.db-shm"] {
            let _ = std::fs::remove_file(home.file().with_file_name(log));
        }
        std::fs::write(home.file(), wrong).expect("the file");
        run(tells_no_lies(&home, &written)).expect("nothing is believed");
        let aside = std::fs::read_dir(home.path()).expect("the directory");
        let aside = aside
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.to_string_lossy().contains("/state.damaged-"));
        assert!(aside.count() > 0, "case {case}");
    }
}

#[tokio::test]
async fn a_newer_file_is_left_alone_and_done_without() {
    let home = Home::new();
    specimen(&home).await;
    let connection = Connection::open(home.file()).expect("a database");
    connection.pragma_update(None, "user_version", 1000).expect("it is written");
    drop(connection);
    let house = home.house(vec![rules()]);
    assert_eq!(house.ask("0.example", &rfc9309()).await, "rules", "from the origin");
    let error = house.disk().0.flush().await.expect_err("it cannot be used");
    assert!(error.to_string().contains("newer"), "{error}");
    house.close();
    let connection = Connection::open(home.file()).expect("it is where it was");
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    assert_eq!(version.expect("a number"), 1000);
}

#[tokio::test]
async fn without_a_directory_memory_serves_until_there_is_one() {
    let home = Home::new();
    let wrong = home.path().join("state");
    std::fs::write(&wrong, "a file where a directory should be").expect("a file");
    let house = home.house(vec![rules(), rules()]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
    assert!(house.store.health().errors > 0, "{:?}", house.store.health());
    std::fs::remove_file(&wrong).expect("removed");
    let end = monotonic() + TIMEOUT;
    while house.disk().0.flush().await.is_err() {
        assert!(monotonic() < end, "{:?}", house.store.health());
    }
    assert_eq!(house.store.health().failing, None);
    house.ask("example.org", &rfc9309()).await;
    let house = house.restart(vec![]);
    assert_eq!(house.verdict("example.org", &rfc9309()).await, "rules");
}

#[tokio::test]
async fn what_waits_for_the_file_is_bounded_in_bytes() {
    let home = Home::new();
    let house = home.house(vec![]);
    let (host, max) = (origin("example.com"), engine::KEPT_WAITING_BYTES_MAX);
    let nothing = || (Vec::new(), Vec::new());
    house.disk().0.keep(&host, engine::LeaseToken(0), max + 1, nothing);
    house.disk().0.keep(&host, engine::LeaseToken(0), max, nothing);
    house.flush().await;
    let health = house.store.health();
    assert_eq!((health.dropped, health.writes), (1, 1));
}
