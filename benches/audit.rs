//! What a denial's record costs until it is with the operating system, by each `audit.sync`, beside the same
//! without the record: `cargo bench --bench audit`; see `benches/README.md`.

mod records;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use courtesy::audit::{Config, Sync, Writer};
use courtesy::runtime::clock::{Clock, SystemClock, monotonic};
use records::record;

/// How many denials are under way at a time.
const AT_ONCE: [u64; 2] = [1, 64];

/// Each row takes about so long: a record that is brought to the disk first takes milliseconds.
const TIME: Duration = Duration::from_secs(2);

/// Ticks of the system's count of processor time in a second (USER_HZ).
const TICKS: f64 = 100.0;

fn main() {
    println!(
        "{:10}{:>10}{:>14}{:>14}{:>12}",
        "sync", "at once", "records/s", "CPU us each", "ratio"
    );
    for at_once in AT_ONCE {
        let mut without = None;
        for sync in [None, Some(Sync::None), Some(Sync::Batch), Some(Sync::Each)] {
            let (rate, cpu) = measure(sync, at_once);
            let ratio = cpu / *without.get_or_insert(cpu);
            let name =
                sync.map_or("no record".to_owned(), |sync| format!("{sync:?}").to_lowercase());
            println!("{name:10}{at_once:>10}{rate:>14.0}{cpu:>14.2}{ratio:>12.2}");
        }
    }
}

/// Records a second, and microseconds of processor time for each, of all threads.
fn measure(sync: Option<Sync>, at_once: u64) -> (f64, f64) {
    let dir = tempfile::tempdir().expect("a directory");
    let open = |sync| {
        let config = Config { sync, ..Config::new(dir.path().to_owned()) };
        Arc::new(Writer::open(config, Arc::new(SystemClock)).expect("nobody else writes there"))
    };
    let writer = sync.map(open);
    let count = Arc::new(AtomicU64::new(0));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (begun, before) = (monotonic(), cpu_seconds());
    let local = tokio::task::LocalSet::new();
    for _ in 0..at_once {
        let (writer, count) = (writer.clone(), Arc::clone(&count));
        local.spawn_local(async move {
            while begun.elapsed() < TIME {
                let mut record = record(count.fetch_add(1, Ordering::Relaxed));
                // No segment is to be closed for its age.
                record.time = SystemClock.wall();
                match &writer {
                    Some(writer) => {
                        _ = writer.write(record, Vec::new()).await.expect("it is written")
                    }
                    None => drop(std::hint::black_box(record)),
                }
                tokio::task::yield_now().await;
            }
        });
    }
    runtime.block_on(local);
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_seconds() - before);
    let count = count.load(Ordering::Relaxed) as f64;
    (count / seconds, cpu * 1e6 / count)
}

/// Of this process so far, in its own code and in the system.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("it is Linux");
    let fields = stat.rsplit_once(") ").expect("the name ends").1.split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / TICKS
}
