//! How much room the file takes.

use super::super::disk::Offline;
use super::*;

/// What no compression makes smaller.
pub(super) fn noise(seed: usize, bytes: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("# ");
    for block in 0..bytes / 64 {
        let _ = write!(
            text,
            "{}",
            crate::types::sanitize::sha256_hex(format!("{seed} {block}").as_bytes())
        );
    }
    text
}

#[tokio::test]
async fn the_file_stays_within_its_bound_and_the_oldest_go() {
    let home = Home::new();
    let size_max = 4 << 20;
    let house =
        home.house_of(size_max, (0..1000).map(|number| Some(file(&noise(number, 6000)))).collect());
    for number in 0..1000 {
        house.ask(&format!("{number}.example"), &rfc9309()).await;
    }
    let end = monotonic() + TIMEOUT;
    while house.store.health().bytes > size_max || house.store.health().evicted == 0 {
        assert!(monotonic() < end, "{:?}", house.store.health());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let evicted = house.store.health().evicted;
    house.close();
    let offline = Offline::open(home.path()).expect("a store");
    let stats = offline.stats().expect("it can be read");
    assert!(evicted > 300 && stats.entries > 300 && stats.file_bytes <= 2 * size_max, "{stats:?}");
    for (number, is_there) in [(0, false), (999, true), (900, true)] {
        let report = offline.get(&origin(&format!("{number}.example"))).expect("it can be read");
        assert_eq!(report.is_some(), is_there, "{number}");
    }
}

#[tokio::test]
async fn origins_with_the_same_files_keep_each_once() {
    let home = Home::new();
    let house = home.house((0..1000).map(|number| Some(file(&noise(number % 5, 640)))).collect());
    for number in 0..1000 {
        house.ask(&format!("{number}.example"), &rfc9309()).await;
    }
    house.close();
    let offline = Offline::open(home.path()).expect("a store");
    let stats = offline.stats().expect("it can be read");
    assert_eq!((stats.entries, stats.files), (1000, 5));
    let mut exported = 0;
    let broken = offline.export(&mut |report| {
        exported += usize::from(report.persisted.good.is_some());
        Ok(())
    });
    assert_eq!((exported, broken.expect("it can be read").expect("it was taken")), (1000, 0));
}

#[tokio::test]
async fn a_file_that_was_emptied_is_small_once_it_is_compacted() {
    let home = Home::new();
    let house = home.house((0..200).map(|number| Some(file(&noise(number, 20_000)))).collect());
    let hosts: Vec<_> = (0..200).map(|number| origin(&format!("{number}.example"))).collect();
    for host in &hosts {
        house.ask(&host.host().to_string(), &rfc9309()).await;
    }
    house.close();
    let offline = Offline::open(home.path()).expect("a store");
    for host in &hosts {
        assert!(offline.forget(host).expect("it can be written"), "{host}");
        assert!(!offline.forget(host).expect("it can be written"), "{host}");
    }
    let (before, after) = offline.compact().expect("it can be written");
    assert!(after <= before, "{before} and then {after}");
    assert_eq!(offline.stats().expect("it can be read").entries, 0);
}
