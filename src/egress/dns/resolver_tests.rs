//! The resolver over a scripted system.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::*;
use crate::runtime::clock;
use crate::types::ClientKey;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(10);

/// Blocks lookups until it is opened.
#[derive(Clone, Default)]
struct Barrier(Arc<(Mutex<bool>, Condvar)>);

impl Barrier {
    fn pass(&self) {
        let (open, opened) = &*self.0;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A runtime that ends waits for its lookups: none may stay behind the barrier when a test fails.
impl Drop for Barrier {
    fn drop(&mut self) {
        self.open();
    }
}

fn one(last: u8) -> Vec<IpAddr> {
    vec![IpAddr::from([192, 0, 2, last])]
}

fn client(number: u8) -> ClientKey {
    ClientKey::of([192, 0, 2, number].into())
}

/// Counts the lookups.
fn counting(
    answer: impl Fn(usize) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
) -> (Resolver, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let resolver = Resolver::over(move |_| answer(counter.fetch_add(1, Ordering::SeqCst)), 4, LONG);
    (resolver, count)
}

#[tokio::test]
async fn results_and_failures_are_cached() {
    let (resolver, count) = counting(|nth| Ok(one(u8::try_from(nth).unwrap())));
    for _ in 0..3 {
        assert_eq!(
            resolver.resolve("example.com", Requester::client(&client(1))).await.unwrap(),
            one(0),
            "no rebinding in between"
        );
    }
    assert_eq!(
        resolver.resolve("example.org", Requester::client(&client(1))).await.unwrap(),
        one(1)
    );
    assert_eq!(count.load(Ordering::SeqCst), 2);

    let (resolver, count) = counting(|_| Err(io::Error::other("no such name")));
    for _ in 0..3 {
        let error =
            resolver.resolve("example.com", Requester::client(&client(1))).await.unwrap_err();
        assert_eq!(
            (error.failure, &*error.detail),
            (Failure::Dns, "cannot resolve example.com: no such name")
        );
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_empty_result_is_a_failure_and_a_long_one_is_cut() {
    let (resolver, _) = counting(|_| Ok(Vec::new()));
    assert_eq!(
        resolver.resolve("example.com", Requester::client(&client(1))).await.unwrap_err().failure,
        Failure::Dns
    );

    let many = |_| Ok((0..1000_u32).map(|number| IpAddr::from(number.to_be_bytes())).collect());
    let (resolver, _) = counting(many);
    assert_eq!(
        resolver.resolve("example.com", Requester::client(&client(1))).await.unwrap().len(),
        DNS_ADDRESSES_MAX
    );
}

#[tokio::test]
async fn requests_for_one_name_at_one_time_share_a_lookup() {
    let barrier = Barrier::default();
    let behind = barrier.clone();
    let (resolver, count) = counting(move |_| {
        behind.pass();
        Ok(one(1))
    });
    let resolver = Arc::new(resolver);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let resolver = Arc::clone(&resolver);
        asking.spawn(async move {
            resolver.resolve("example.com", Requester::client(&client(1))).await
        });
    }
    tokio::task::yield_now().await;
    barrier.open();
    for answer in asking.join_all().await {
        assert_eq!(answer.unwrap(), one(1));
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_lookup_that_timed_out_holds_its_permit_until_it_ends() {
    let barrier = Barrier::default();
    let behind = barrier.clone();
    let silent = move |name: &str| {
        if name == "silent.example" {
            behind.pass();
        }
        Ok(one(1))
    };
    let resolver = Resolver::over(silent, 1, SHORT);
    let late = resolver.resolve("silent.example", Requester::client(&client(1))).await.unwrap_err();
    assert_eq!(late.failure, Failure::DnsTimeout);
    assert!(late.detail.contains("silent.example"), "{}", late.detail);
    assert_eq!(resolver.permits.in_use(), 1);
    let without_place =
        resolver.resolve("other.example", Requester::client(&client(1))).await.unwrap_err();
    assert_eq!(without_place.failure, Failure::Exhausted, "it says nothing of the name");
    assert!(without_place.detail.contains("too many"), "{}", without_place.detail);

    barrier.open();
    let resolver = Resolver { timeout: LONG, ..resolver };
    assert_eq!(
        resolver.resolve("other.example", Requester::client(&client(1))).await.unwrap(),
        one(1),
        "nothing was learnt of it"
    );
    assert_eq!(
        resolver.resolve("silent.example", Requester::client(&client(1))).await.unwrap(),
        one(1),
        "what came late is kept"
    );
    assert_eq!(resolver.permits.in_use(), 0);
}

#[test]
fn a_lookup_that_its_runtime_dropped_is_started_again() {
    let resolver = Resolver::over(|_| Ok(one(1)), 1, LONG);
    let (_, dropped) = watch::channel(LookupState::Waiting);
    resolver.names.lock().running.insert("example.com".into(), dropped);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(
        runtime.block_on(resolver.resolve("example.com", Requester::client(&client(1)))).unwrap(),
        one(1)
    );
    assert!(resolver.names.lock().running.is_empty());
}

/// What getaddrinfo itself says of the names that need no network.
#[tokio::test]
async fn the_system_resolver_is_used() {
    let addresses =
        Resolver::new(1).resolve("localhost", Requester::client(&client(1))).await.unwrap();
    assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
}

#[tokio::test]
async fn f23_silent_names_of_one_client_leave_permits_for_other_clients() {
    let barrier = Barrier::default();
    let behind = barrier.clone();
    let silent = move |name: &str| {
        if name.starts_with("silent") {
            behind.pass();
        }
        Ok(one(1))
    };
    let resolver = Arc::new(Resolver::over(silent, 16, LONG));
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..100 {
        let resolver = Arc::clone(&resolver);
        let name = format!("silent{number}.example");
        asking.spawn(async move { resolver.resolve(&name, Requester::client(&client(1))).await });
    }
    tokio::task::yield_now().await;
    assert_eq!(resolver.permits.in_use(), 14, "an eighth is kept");
    for name in ["a.example", "b.example", "c.example"] {
        assert_eq!(
            resolver.resolve(name, Requester::client(&client(2))).await.unwrap(),
            one(1),
            "{name}"
        );
    }
    assert_eq!(asking.len(), 100, "the others wait");
}

#[test]
fn a_lookup_that_began_late_says_nothing_about_its_name() {
    let now = clock::monotonic();
    for (progress, failure) in [
        (LookupState::Waiting, Failure::Exhausted),
        (LookupState::Running(now), Failure::Exhausted),
        (LookupState::Running(now - LONG), Failure::DnsTimeout),
    ] {
        let resolver = Resolver::over(|_| Ok(one(1)), 1, LONG);
        let (_sender, lookup) = watch::channel(progress.clone());
        resolver.names.lock().running.insert("example.com".into(), lookup);
        assert_eq!(resolver.timed_out("example.com").failure, failure, "{progress:?}");
        let is_kept = resolver.names.lock().cached("example.com").is_some();
        assert_eq!(is_kept, failure == Failure::DnsTimeout, "{progress:?}");
    }
}

#[test]
fn f24_a_lookup_without_a_descriptor_says_nothing_about_its_name() {
    let exhausted = || Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()));
    let error = classify("example.com", exhausted()).unwrap_err();
    assert_eq!(error.failure, Failure::Exhausted);
    let resolver = Resolver::over(move |_| exhausted(), 1, LONG);
    resolver.names.lock().end("example.com", Err(error));
    assert!(resolver.names.lock().cached("example.com").is_none());
}
