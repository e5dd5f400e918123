//! More origins than there is memory for: what is known of them stays on the disk, memory stays as
//! it was set, and every answer is right.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::testkit::processes::{Crawler, Place, RULES, Robots, Serve, Site, scale};

/// Clients that ask at one time: for what is new, and for what is to come from the disk.
const VISITORS: usize = 64;
const RETURNING: usize = 8;

/// Memory for what is known of one origin, on the average: 64 MiB for a million. A fraction of what
/// each of them takes, so that nearly all have to go.
const CACHE_BYTES_PER_ORIGIN: usize = 67;

/// What a proxy takes beside the cache: what waits to be written to the store (64 MiB at the most),
/// the store's own cache (16 MiB), connections, and what an allocator keeps.
const OTHER_BYTES_MAX: usize = 160 << 20;

/// How many origins are asked again: one in ten, or so many.
const SAMPLE_MAX: usize = 10_000;

/// From how many origins on memory has to have stopped growing: of fewer, what waits to be written can be
/// the most of it, and how fast a disk takes that is the machine's affair. The bound above holds of any.
const FLAT_FROM: usize = 500_000;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The origin that is visited as the `number`th.
fn address(number: usize) -> Ipv4Addr {
    let [_, a, b, c] = u32::try_from(number).expect("a number of an address").to_be_bytes();
    Ipv4Addr::new(127, a + 1, b, c)
}

/// What kind of site this is: one of ten, spread over the addresses.
fn kind(address: Ipv4Addr) -> u32 {
    (u32::from(address).wrapping_mul(0x9e37_79b1) >> 16) % 10
}

/// What a site of this kind says of itself.
fn robots(address: Ipv4Addr) -> Robots {
    match kind(address) {
        0..=3 => Robots::File(RULES.to_owned()),
        // A file that no other site has.
        4..=5 => Robots::File(format!("# {address}\n{RULES}")),
        6 => Robots::File("User-agent: *\nDisallow: /\n".to_owned()),
        7..=8 => Robots::Status(404),
        _ => Robots::Status(503),
    }
}

/// The status of a path that most files close, and of one that they leave open.
fn expected(address: Ipv4Addr) -> [(&'static str, u16); 2] {
    let [private, open] = match kind(address) {
        0..=5 => [403, 200],
        6 | 9 => [403, 403],
        _ => [200, 200],
    };
    [("/private/a", private), ("/open", open)]
}

#[test]
fn l2_memory_is_bounded_and_no_origin_is_forgotten() {
    let origins = scale("COURTESY_TEST_ORIGINS", 10_000);
    let cache = CACHE_BYTES_PER_ORIGIN * origins;
    let site = Site::start(robots);
    let settings = format!(
        "[robots]\ncache_size = \"{cache}B\"\n[egress]\nidle_timeout = \"1s\"\n[store]\nmax_size = \"4GiB\""
    );
    let place = Place::new(&settings);
    let serve = place.serve();
    let at_rest = serve.resident();

    let seen = visit_all(&serve, &site, origins);
    let peak =
        seen.iter().map(|(_, resident)| *resident).max().expect("memory was looked at") - at_rest;
    assert!(peak < cache + OTHER_BYTES_MAX, "{peak} bytes more than at rest");
    if origins >= FLAT_FROM {
        assert_flat(&seen);
    }
    assert_eq!(site.sites(), origins, "sites that were asked for their robots.txt");

    let sample = visit_some_again(&serve, &site, origins);
    // Where the file could not be had it is due again after half a minute.
    let again =
        sample.iter().filter(|address| kind(**address) != 9 && site.fetches_at(**address) != 1);
    let (again, dropped) = (again.count(), serve.metric("courtesy_store_dropped_total"));
    let store = serve.metric("courtesy_store_file_bytes") >> 20;
    println!(
        "store: {store} MiB; {dropped} went unwritten; of {} sites {again} were asked again",
        sample.len()
    );
    assert!(again <= dropped, "{again} sites were asked again: {}", serve.admin("/metrics").body);
    serve.stop();
}

/// Visits each origin once; gives the memory of the proxy as it was after how many visits.
fn visit_all(serve: &Serve, site: &Site, origins: usize) -> Vec<(usize, usize)> {
    let visited = AtomicUsize::new(0);
    let begun = monotonic();
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let visits = scope.spawn(|| {
            in_parallel(VISITORS, serve, origins, |number, crawler| {
                let [_, open] = expected(address(number));
                visit(crawler, site, address(number), open);
                visited.fetch_add(1, Ordering::Relaxed);
            });
        });
        while !visits.is_finished() {
            seen.push((visited.load(Ordering::Relaxed), serve.resident()));
            thread::park_timeout(LOOK);
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!("{origins} origins in {seconds:.1} s, {:.0} a second", origins as f64 / seconds);
    for (visited, resident) in seen.iter().step_by(seen.len().div_ceil(20)) {
        println!("{visited:>9} visited {:>6} MiB", resident >> 20);
    }
    seen
}

/// Asks some of the origins again, for a path that may be open and for one that may be closed: all
/// answers are right. Which origins those were.
fn visit_some_again(serve: &Serve, site: &Site, origins: usize) -> Vec<Ipv4Addr> {
    let step = origins.div_ceil(SAMPLE_MAX).max(10);
    let sample: Vec<_> = (0..origins).step_by(step).map(address).collect();
    in_parallel(RETURNING, serve, sample.len(), |number, crawler| {
        for asked in expected(sample[number]) {
            visit(crawler, site, sample[number], asked);
        }
    });
    sample
}

/// Asks for a path, and gets the answer that the site's robots.txt means.
#[track_caller]
fn visit(crawler: &mut Crawler, site: &Site, address: Ipv4Addr, (path, status): (&str, u16)) {
    let url = site.url_at(address, path);
    let answer = crawler.get(&url).expect("an answer");
    assert_eq!(answer.status, status, "{url}: {}", answer.body);
}

/// That memory does not grow any more once the cache is full: the last quarter of the visits takes
/// what the second did, within what an allocator's moods make of it.
#[track_caller]
fn assert_flat(seen: &[(usize, usize)]) {
    let most = |quarter: &[(usize, usize)]| quarter.iter().map(|(_, resident)| *resident).max();
    let quarter = seen.len() / 4;
    let (early, late) = (most(&seen[quarter..2 * quarter]), most(&seen[3 * quarter..]));
    let (Some(early), Some(late)) = (early, late) else { panic!("too few looks: {seen:?}") };
    assert!(late <= early + early / 10 + (16 << 20), "from {early} to {late} bytes: {seen:?}");
}

/// Does something for each number below `count`, by many clients.
fn in_parallel(
    clients: usize,
    serve: &Serve,
    count: usize,
    visit: impl Fn(usize, &mut Crawler) + Sync,
) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut crawler = Crawler::new(serve.address());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    visit(number, &mut crawler);
                }
            });
        }
    });
}
