//! The resolver over scripted lookups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::*;
use crate::types::ClientKey;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(10);

type Looking = Pin<Box<dyn Future<Output = Found> + Send>>;

fn one(last: u8) -> Vec<IpAddr> {
    vec![IpAddr::from([192, 0, 2, last])]
}

fn client(number: u8) -> ClientKey {
    ClientKey::of([192, 0, 2, number].into())
}

/// Answers at once, and counts the lookups.
fn counting(
    answer: impl Fn(usize) -> Result<Vec<IpAddr>, NetError> + Send + Sync + 'static,
) -> (Resolver, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let look_up = move |_: &str| {
        let answer = answer(counter.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move { Ok((answer?, Duration::ZERO)) }) as Looking
    };
    (Resolver::over(look_up, 4, LONG), count)
}

/// Names that begin with `silent` have no answer before `gate` has permits.
fn silent(gate: &Arc<Semaphore>, max: usize, timeout: Duration) -> Resolver {
    let gate = Arc::clone(gate);
    let look_up = move |name: &str| {
        let (gate, is_silent) = (Arc::clone(&gate), name.starts_with("silent"));
        Box::pin(async move {
            if is_silent {
                drop(gate.acquire().await);
            }
            Ok((one(1), Duration::ZERO))
        }) as Looking
    };
    Resolver::over(look_up, max, timeout)
}

#[tokio::test]
async fn results_and_failures_are_cached() {
    let (resolver, count) = counting(|nth| Ok(one(u8::try_from(nth).unwrap())));
    let resolve = async |name| resolver.resolve(name, Requester::client(&client(1))).await.unwrap();
    for _ in 0..3 {
        assert_eq!(resolve("example.com").await, one(0), "no rebinding in between");
    }
    assert_eq!(resolve("example.org").await, one(1));
    assert_eq!(count.load(Ordering::SeqCst), 2);

    let (resolver, count) = counting(|_| Err(NetError::Message("no such name")));
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

#[test]
fn lifetimes_are_kept_within_bounds() {
    for (ttl, expected) in [(0, DNS_TTL_MIN), (300, Duration::from_mins(5)), (1 << 20, DNS_TTL_MAX)]
    {
        assert_eq!(classify("a", Ok((one(1), Duration::from_secs(ttl)))).1, expected, "{ttl}");
    }
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
async fn a_lookup_that_took_too_long_is_kept_and_gives_its_permit_back() {
    let gate = Arc::new(Semaphore::new(0));
    let resolver = silent(&gate, 1, SHORT);
    for _ in 0..2 {
        let late =
            resolver.resolve("silent.example", Requester::client(&client(1))).await.unwrap_err();
        assert_eq!(late.failure, Failure::DnsTimeout);
        assert!(late.detail.contains("silent.example"), "{}", late.detail);
        gate.add_permits(1);
    }
    assert_eq!(resolver.permits.in_use(), 0);
}

#[tokio::test]
async fn a_lookup_without_a_permit_says_nothing_about_its_name() {
    let gate = Arc::new(Semaphore::new(0));
    let resolver = Arc::new(silent(&gate, 1, SHORT));
    let taken = resolver.permits.try_acquire(&client(1)).unwrap();
    let without =
        resolver.resolve("other.example", Requester::client(&client(1))).await.unwrap_err();
    assert_eq!(without.failure, Failure::Exhausted);
    assert!(without.detail.contains("too many"), "{}", without.detail);
    drop(taken);
    assert!(resolver.resolve("other.example", Requester::client(&client(1))).await.is_ok());
}

#[tokio::test]
async fn f23_silent_names_of_one_client_leave_permits_for_other_clients() {
    let resolver = Arc::new(silent(&Arc::new(Semaphore::new(0)), 16, LONG));
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
