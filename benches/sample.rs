//! What it costs an allowed request that it may become a part of the sample that changes of robots.txt files are
//! measured by. `cargo bench --bench sample`.

use std::sync::Arc;
use std::time::Duration;

use courtesy::policy::profile::Profile;
use courtesy::runtime::clock::monotonic;
use courtesy::types::origin::{Origin, Scheme};
use courtesy::watch::{Candidate, Samples};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const PATH: &str = "/products/list?category=12&page=3";

fn note(samples: &Samples, origin: &Origin, profile: &Arc<Profile>) {
    let token = Some("ExampleBot");
    samples.note(Candidate { origin, path: PATH, token, profile, is_redacted: false });
}

fn origins(count: usize) -> Vec<Origin> {
    let name = |number| format!("www.shop-{number}.example.com");
    (0..count)
        .map(|number| Origin::from_authority(Scheme::Https, &name(number)).expect("a host"))
        .collect()
}

/// One thread: an origin that is asked all the time, many in turn, and more than there are places for.
fn alone(c: &mut Criterion) {
    let profile = Arc::new(Profile::named("rfc9309").expect("a profile"));
    for count in [1, 1000, 100_000] {
        let (samples, origins) = (Samples::default(), origins(count));
        let mut next = origins.iter().cycle();
        c.bench_with_input(BenchmarkId::new("origins in turn", count), &(), |b, ()| {
            b.iter(|| note(&samples, next.next().expect("there is always one"), &profile));
        });
    }
}

/// Two threads at one origin: they share its counter.
fn together(c: &mut Criterion) {
    let profile = Arc::new(Profile::named("rfc9309").expect("a profile"));
    let (samples, origin) = (Samples::default(), origins(1).remove(0));
    c.bench_function("two threads at one origin", |b| {
        b.iter_custom(|count| {
            let run = || {
                let begun = monotonic();
                (0..count).for_each(|_| note(&samples, &origin, &profile));
                monotonic() - begun
            };
            std::thread::scope(|scope| {
                let other = scope.spawn(run);
                let own = run();
                own.max(other.join().unwrap_or(Duration::MAX))
            })
        });
    });
}

criterion_group!(benches, alone, together);
criterion_main!(benches);
