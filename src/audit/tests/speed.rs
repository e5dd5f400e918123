//! How fast records become lines: `cargo test --release --lib audit::tests::speed -- --ignored --nocapture`.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::*;
use crate::audit::evidence::{Blob, Kind};
use crate::runtime::clock::monotonic;

const WRITERS: u64 = 64;
const TIME: Duration = Duration::from_secs(3);

/// Records a second by [`WRITERS`] at once, each with `blobs`, and the longest wait of one.
fn rate(sync: Sync, blobs: fn(u64) -> Vec<Blob>) -> (f64, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let writer = Arc::new(open_with(dir.path(), |config| config.sync = sync).unwrap());
    let begin = monotonic();
    let waits = block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..WRITERS {
            let writer = Arc::clone(&writer);
            tasks.spawn(async move {
                let (mut count, mut longest) = (0, Duration::ZERO);
                while begin.elapsed() < TIME {
                    let asked = monotonic();
                    writer.write(full(), blobs(number + WRITERS * count)).await.unwrap();
                    (count, longest) = (count + 1, longest.max(asked.elapsed()));
                }
                (count, longest)
            });
        }
        tasks.join_all().await
    });
    let count: u64 = waits.iter().map(|(count, _)| count).sum();
    assert_eq!(chain(dir.path()).len() as u64, count);
    (count as f64 / TIME.as_secs_f64(), waits.iter().map(|(_, longest)| *longest).max().unwrap())
}

/// What the tree takes of a verification.
#[test]
#[ignore = "a measurement, and not short"]
fn the_tree_of_a_log_beside_its_verification() {
    const LINES: u64 = 208_000;
    let dir = tempfile::tempdir().unwrap();
    let (mut head, mut lines) = (Head::genesis(), Vec::new());
    let mut hashes = Vec::new();
    for _ in 0..LINES {
        let record = Record { robots: None, ..full() };
        head.push(Content::Record(Box::new(record)), &mut lines);
        hashes.push(head.hash.clone());
    }
    std::fs::write(dir.path().join(FILE_NAME), lines).unwrap();
    let log = crate::audit::read::Log::Dir(dir.path().to_owned());
    let begin = monotonic();
    let verify = crate::audit::read::verify::verify;
    let findings = verify(&log, &[], true, &mut |_, _| {}).unwrap();
    let verified = begin.elapsed();
    assert_eq!((findings.faults.count, findings.lines), (0, LINES));
    let begin = monotonic();
    let mut tree = crate::audit::tree::Tree::default();
    for hash in &hashes {
        let hash = crate::types::sanitize::digest(hash).unwrap();
        tree.push(crate::audit::tree::leaf(&hash));
    }
    std::hint::black_box(tree.root());
    let grown = begin.elapsed();
    let ratio = verified.as_secs_f64() / (verified - grown).as_secs_f64();
    println!("{LINES} lines: verified in {verified:?}, the tree {grown:?} of it: {ratio:.3}");
}

#[test]
#[ignore = "a measurement, and not short"]
fn records_a_second() {
    for sync in [Sync::Each, Sync::Batch, Sync::None] {
        let (rate, longest) = rate(sync, |_| Vec::new());
        println!(
            "{sync:?}: {rate:.0} records a second by {WRITERS} at once, none waits longer than {longest:?}"
        );
    }
    let (rate, longest) = rate(Sync::Batch, |number| {
        let content = number.to_string().into_bytes();
        vec![Blob {
            sha256: Sha256::digest(&content).into(),
            kind: Kind::File,
            content: content.into(),
        }]
    });
    println!(
        "Batch, each with evidence of its own: {rate:.0} a second, none waits longer than {longest:?}"
    );
}
