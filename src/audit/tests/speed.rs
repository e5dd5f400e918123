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
