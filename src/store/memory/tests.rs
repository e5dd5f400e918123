use bytes::Bytes;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::policy::access::{AccessResult, Capture, CompletedFetch, Freshness, Snapshot};
use crate::policy::profile::Profile;
use crate::robots::RobotsTxt;
use crate::store::entry::FetchedAs;
use crate::store::fetch::FetchIdentity;
use crate::types::ClientKey;
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

const PLENTY: usize = 1 << 30;

fn memory(entries_max: usize, bytes_max: usize) -> Memory {
    Memory::new(NonZeroUsize::new(entries_max).expect("it is not zero"), bytes_max)
}

fn origin(number: usize) -> Origin {
    split_url(format!("https://{number}.example").as_bytes()).expect("a URL").0
}

/// An entry with one of a few files, each of which is one allocation for all entries.
fn entry(files: &[Bytes], number: usize) -> Arc<Entry> {
    let body = files[number % files.len()].clone();
    let snapshot = Snapshot {
        sha256: Sha256::digest(&body).into(),
        body,
        cut: false,
        status: 200,
        url: format!("https://{number}.example/robots.txt"),
        hops: 0,
        fetched_at: Timestamp::from_millis(0),
        content_type: None,
        etag: None,
        last_modified: None,
        capture: Capture::none(),
    };
    let fetched = CompletedFetch {
        at: Timestamp::from_millis(0),
        url: snapshot.url.clone(),
        hops: 0,
        varies: false,
        result: AccessResult::Successful {
            snapshot: Arc::new(snapshot),
            freshness: Freshness::default(),
        },
        capture: Capture::none(),
    };
    Arc::new(Entry::after(
        None,
        &Arc::new(Profile::default()),
        &FetchedAs {
            identity: FetchIdentity::of_agent(None),
            is_common: true,
            client: ClientKey::Proxy,
        },
        fetched,
        0.5,
        &|snapshot, dialect| Arc::new(RobotsTxt::parse(&snapshot.body, dialect)),
    ))
}

fn files() -> Vec<Bytes> {
    ["", "# one\n", "user-agent: *\ndisallow: /two/\n"]
        .map(|text| Bytes::from(text.repeat(50)))
        .to_vec()
}

proptest! {
    #[test]
    fn the_bytes_are_those_of_the_entries(steps in prop::collection::vec((0..4_u8, 0..12_usize), 0..80)) {
        let (files, mut memory) = (files(), memory(8, PLENTY));
        for (step, number) in steps {
            let origin = origin(number);
            match step {
                0 | 1 => memory.put(&origin, entry(&files, number + usize::from(step))),
                2 => memory.remove(&origin),
                _ => drop(memory.get(&origin).cloned()),
            }
            let known = (0..12).filter(|number| memory.peek(&super::tests::origin(*number)).is_some());
            prop_assert_eq!(known.count(), memory.len());
            prop_assert!(memory.len() <= 8);
        }
        // The same entries in another order have the same size.
        let mut again = super::tests::memory(8, PLENTY);
        for origin in (0..12).map(origin) {
            if let Some(entry) = memory.peek(&origin) {
                again.put(&origin, Arc::clone(entry));
            }
        }
        prop_assert_eq!((again.bytes(), again.len()), (memory.bytes(), memory.len()));
        (0..12).for_each(|number| memory.remove(&origin(number)));
        prop_assert_eq!((memory.bytes(), memory.len(), memory.shared.len()), (0, 0, 0));
    }
}

#[test]
fn a_shared_file_is_counted_once() {
    let (mut memory, files) = (memory(100, PLENTY), vec![Bytes::from("disallow: /\n".repeat(500))]);
    let mut bytes = Vec::new();
    for number in 0..3 {
        memory.put(&origin(number), entry(&files, 0));
        bytes.push(memory.bytes());
    }
    let [first, second, third] = bytes[..] else { panic!("{bytes:?}") };
    // Each entry has its own parsed file here.
    assert!(first - (second - first) >= files[0].len(), "{bytes:?}");
    assert!((third - second).abs_diff(second - first) <= 1, "{bytes:?}");
}

#[test]
fn the_least_recently_used_is_evicted_first() {
    let (files, mut memory) = (files(), memory(3, PLENTY));
    (0..3).for_each(|number| memory.put(&origin(number), entry(&files, number)));
    memory.get(&origin(0));
    memory.peek(&origin(1));
    memory.put(&origin(3), entry(&files, 3));
    let known = |memory: &Memory| [0, 1, 2, 3].map(|number| memory.peek(&origin(number)).is_some());
    assert_eq!(known(&memory), [true, false, true, true]);
    memory.resize(NonZeroUsize::MIN, PLENTY);
    assert_eq!(known(&memory), [false, false, false, true], "the last that was stored");
}

#[test]
fn an_entry_larger_than_the_bound_is_not_stored() {
    let (files, mut memory) = (files(), memory(9, PLENTY));
    memory.put(&origin(2), entry(&files, 2));
    let bytes = memory.bytes();
    memory.resize(NonZeroUsize::MAX, bytes - 1);
    assert_eq!(memory.len(), 0);
    memory.put(&origin(2), entry(&files, 2));
    assert_eq!((memory.len(), memory.bytes()), (0, 0));
    memory.resize(NonZeroUsize::MAX, bytes);
    memory.put(&origin(2), entry(&files, 2));
    assert_eq!((memory.len(), memory.bytes()), (1, bytes));
}
