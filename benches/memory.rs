//! What the memory of a store full of origins is, beside what the store counts, and what it costs to find
//! them there: `cargo bench --bench memory -- ORIGINS MIB`; see `benches/README.md`.
//!
//! The files are the real ones. Of a hundred origins, 45 have one of the hundred most frequent files; each
//! other has a file of its own, one of the real ones and a line that no other has. Real origins are kinder:
//! their rarer files repeat too.

#[expect(dead_code, reason = "the files have no expectations here")]
mod files;

use std::fs;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use courtesy::audit::evidence::{Answer, Body, CaptureRecord};
use courtesy::clients::Client;
use courtesy::engine::{self, LocalConfig, LocalEngine};
use courtesy::policy::access::{AccessResult, CompletedFetch, Freshness, Snapshot};
use courtesy::policy::profile::Profile;
use courtesy::runtime::clock::{Clock, ManualClock, monotonic};
use courtesy::store::disk::Disk;
use courtesy::store::fetch::{FetchRequest, FetchRobots, NotSent};
use courtesy::store::{Config, Store};
use courtesy::types::origin::{Origin, Scheme};
use courtesy::types::sanitize;
use courtesy::types::timestamp::Timestamp;
use http::HeaderValue;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Runtime;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const REPEATED_PERCENT: usize = 45;
const REPEATED_FILES: usize = 100;
const MIB: usize = 1024 * 1024;
const LINES: usize = 10;
/// Origins that are asked about again, of each kind.
const ASKED_AGAIN: usize = 2_000;
fn main() {
    let arguments: Vec<usize> =
        std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    // `cargo bench` without arguments runs every bench: then a tenth will do.
    let (origins, budget) = match arguments[..] {
        [origins, budget] => (origins, budget * MIB),
        _ => (100_000, 1024 * MIB),
    };
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_795_000_000_000));
    let entries_max = NonZeroUsize::new(2 * origins).expect("there are some");
    let config = Config { entries_max, bytes_max: budget, ..Config::default() };
    let asker = Asker::new(config, &clock, None);
    let (before, begun) = (resident(), monotonic());
    println!("budget {} MiB; resident before {} MiB", budget / MIB, before / MIB);
    println!(
        "{:>10}{:>10}{:>14}{:>14}{:>16}",
        "asked", "kept", "counted MiB", "resident MiB", "bytes each"
    );
    for number in 0..origins {
        asker.ask(number);
        if (number + 1) % origins.div_ceil(LINES) == 0 || number + 1 == origins {
            let (stats, grown) = (asker.store.stats(), resident().saturating_sub(before));
            println!(
                "{:>10}{:>10}{:>14}{:>14}{:>16}",
                number + 1,
                stats.entries,
                stats.bytes / MIB,
                grown / MIB,
                grown / stats.entries.max(1)
            );
        }
    }
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    find_again(&asker, origins, &clock);
}

/// The time to find an origin in memory, and one on disk.
fn find_again(full: &Asker, origins: usize, clock: &Arc<ManualClock>) {
    println!("{:>10}{:>10}{:>14}{:>14}", "found", "origins", "median us", "mean us");
    full.time("in memory", (0..origins).rev().take(ASKED_AGAIN));
    let dir = TempDir::new().expect("a directory");
    let file = LocalConfig {
        state_dir: dir.path().to_owned(),
        size_max: 1 << 30,
        clock: Arc::clone(clock) as _,
    };
    let file = Arc::new(LocalEngine::new(engine::Config::named("bench"), file));
    let config = Config { entries_max: NonZeroUsize::MIN, ..Config::default() };
    let forgetful = Asker::new(config, clock, Some(Disk(Arc::clone(&file))));
    (0..ASKED_AGAIN).for_each(|number| forgetful.ask(number));
    forgetful.runtime.block_on(file.flush()).expect("it is written");
    forgetful.time("on disk", 0..ASKED_AGAIN);
    assert_eq!(
        [origins, ASKED_AGAIN],
        [full, &forgetful].map(|asker| asker.store.stats().fetches as usize)
    );
}

/// Who asks a store, one origin after the other.
struct Asker {
    store: Arc<Store>,
    profile: Arc<Profile>,
    runtime: Runtime,
}

impl Asker {
    fn new(config: Config, clock: &Arc<ManualClock>, disk: Option<Disk>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let sites = Arc::new(Sites::new(Arc::clone(clock)));
        let store = Store::new(config, sites, Arc::clone(clock) as _, disk);
        let profile = Arc::new(Profile::default());
        Self { store, profile, runtime: runtime.expect("a runtime") }
    }

    fn ask(&self, number: usize) {
        let origin = Origin::from_authority(Scheme::Https, &host(number)).expect("an authority");
        let client = Client::at(std::net::Ipv4Addr::LOCALHOST.into());
        self.runtime
            .block_on(self.store.lookup(&origin, &self.profile, None, &client))
            .expect("it is known");
    }

    fn time(&self, found: &str, numbers: impl Iterator<Item = usize>) {
        let mut times: Vec<f64> = numbers
            .map(|number| {
                let begun = monotonic();
                self.ask(number);
                begun.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        println!("{found:>10}{:>10}{:>14.1}{mean:>14.1}", times.len(), times[times.len() / 2]);
    }
}

fn host(number: usize) -> String {
    format!("www.site-{number}.example")
}

/// What the system holds of this process in memory.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("it is Linux");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has a line for it");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

/// Every origin at once.
struct Sites {
    clock: Arc<ManualClock>,
    files: Vec<String>,
    asked: AtomicUsize,
}

impl Sites {
    fn new(clock: Arc<ManualClock>) -> Self {
        let mut files: Vec<String> = files::real().into_iter().map(|file| file.text).collect();
        files.sort_by_key(String::len);
        Self { clock, files, asked: AtomicUsize::new(0) }
    }

    /// Spread over all there are, by a step that is prime.
    fn file(&self, number: usize) -> String {
        let spread = number * 7_919;
        if spread % 100 < REPEATED_PERCENT {
            // A frequent file is a short one.
            let step = self.files.len() / 2 / REPEATED_FILES;
            self.files[spread / 100 % REPEATED_FILES * step].clone()
        } else {
            format!("{}\n# of {}\n", self.files[spread / 100 % self.files.len()], host(number))
        }
    }

    fn answer(&self, url: String, number: usize) -> CompletedFetch {
        let body = Bytes::from(self.file(number).into_bytes());
        let (sha256, at) = (Sha256::digest(&body).into(), self.clock.wall());
        let capture = capture(&url, &body, sha256, at, number).seal();
        let snapshot = Arc::new(Snapshot {
            body,
            sha256,
            cut: false,
            status: 200,
            url: url.clone(),
            hops: 0,
            fetched_at: at,
            content_type: Some(HeaderValue::from_static("text/plain")),
            etag: HeaderValue::try_from(format!("\"{number:x}-5f2a1c\"")).ok(),
            last_modified: Some(HeaderValue::from_static("Wed, 21 Oct 2026 07:28:00 GMT")),
            capture: capture.clone(),
        });
        let result = AccessResult::Successful { snapshot, freshness: Freshness::default() };
        CompletedFetch { at, url, hops: 0, varies: false, result, capture }
    }
}

impl FetchRobots for Sites {
    fn fetch(
        &self,
        ask: FetchRequest,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedFetch, NotSent>> + Send>> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let fetched = self.answer(ask.origin.robots_url(), number);
        Box::pin(async move { Ok(fetched) })
    }
}

/// With a head of ordinary length.
fn capture(
    url: &str,
    body: &[u8],
    sha256: [u8; 32],
    at: Timestamp,
    number: usize,
) -> CaptureRecord {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 12 Nov 2026 07:28:00 GMT\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: keep-alive\r\nLast-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\n\
         ETag: \"{number:x}-5f2a1c\"\r\nCache-Control: max-age=86400\r\nX-Frame-Options: SAMEORIGIN\r\n\
         Strict-Transport-Security: max-age=31536000\r\nAccept-Ranges: bytes\r\n\r\n",
        body.len()
    );
    let peer = "192.0.2.7".parse().ok();
    let request =
        Some("GET /robots.txt HTTP/1.1\r\nhost: a.example\r\nuser-agent: courtesy\r\n".to_owned());
    let asked = url.to_owned();
    let (url, via) = (asked.clone(), None);
    let answer = Answer { head, head_cut: false, peer, request, status: 200, url, via };
    let body = Body { cut: false, bytes: body.len() as u64, sha256: sanitize::hex(&sha256) };
    CaptureRecord {
        answers: vec![answer],
        asked,
        body: Some(body),
        failure: None,
        fetched_at: at.millis(),
        user_agent: None,
    }
}
