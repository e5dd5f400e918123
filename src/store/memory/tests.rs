//! What the tiers count, and in which order they let go.

use bytes::Bytes;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::super::compressed::Compressor;
use super::*;
use crate::policy::access::{AccessResult, Capture, Fetched, Freshness, Snapshot};
use crate::policy::profile::Profile;
use crate::robots::RobotsTxt;
use crate::store::fetch::FetchIdentity;
use crate::types::origin::split_url;
use crate::types::timestamp::Timestamp;

const PLENTY: usize = 1 << 30;

impl Memory {
    /// Makes a compressed what it can never be.
    pub(in crate::store) fn break_pack(&mut self, origin: &Origin) {
        let broken = self.compressed(origin).expect("it is compressed").broken();
        self.compressed.put(origin.clone(), broken);
    }
}

fn cache(entries_max: usize, bytes_max: usize) -> Memory {
    Memory::new(NonZeroUsize::new(entries_max).expect("it is not zero"), bytes_max)
}

fn origin(number: usize) -> Origin {
    split_url(format!("https://{number}.example").as_bytes()).expect("a URL").0
}

/// With one of a few files, each in one place of memory for all who have it.
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
    let fetched = Fetched {
        at: Timestamp::from_millis(0),
        url: snapshot.url.clone(),
        hops: 0,
        result: AccessResult::Successful {
            snapshot: Arc::new(snapshot),
            freshness: Freshness::default(),
        },
        capture: Capture::none(),
    };
    Arc::new(Entry::after(
        None,
        &Arc::new(Profile::default()),
        &FetchIdentity::of_agent(None),
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

/// Packs the least recently used, whether it has to or not.
fn pack_oldest(cache: &mut Memory, packer: &mut Compressor) -> Option<Origin> {
    let (origin, entry) = cache.ready.oldest()?;
    let (origin, entry) = (origin.clone(), Arc::clone(entry));
    let file =
        entry.snapshot().and_then(|snapshot| cache.compressed.file(&snapshot.sha256)).cloned();
    let compressed = packer.compress(&origin, &entry, file.clone()).expect("it is compressed");
    cache.compress(&Candidate { origin: origin.clone(), entry, file }, compressed);
    Some(origin)
}

proptest! {
    /// Whatever came and went, in either tier, by whichever way.
    #[test]
    fn what_is_counted_is_what_there_is(steps in prop::collection::vec((0..6_u8, 0..12_usize), 0..80)) {
        let (files, mut packer, mut cache) = (files(), Compressor::default(), cache(8, PLENTY));
        for (step, number) in steps {
            let origin = origin(number);
            match step {
                0 | 1 => cache.put(&origin, entry(&files, number + usize::from(step))),
                2 => drop(pack_oldest(&mut cache, &mut packer)),
                3 => cache.remove(&origin),
                4 => {
                    if let Some(compressed) = cache.use_compressed(&origin) {
                        prop_assert!(cache.decompress(&origin, &compressed, &entry(&files, number)).is_some());
                    }
                }
                _ => drop(cache.note_site_of_compressed(&origin, false)),
            }
            let known = (0..12).filter(|number| {
                let origin = super::tests::origin(*number);
                cache.peek(&origin).is_some() || cache.compressed(&origin).is_some()
            });
            prop_assert_eq!(known.count(), cache.len());
            prop_assert!(cache.len() <= 8 && cache.compressed_len() <= cache.len());
        }
        // The same in another order counts the same.
        let mut again = super::tests::cache(8, PLENTY);
        for origin in (0..12).map(origin) {
            if let Some(entry) = cache.peek(&origin) {
                again.ready.put(&origin, Arc::clone(entry));
            }
            if let Some(compressed) = cache.compressed(&origin) {
                again.compressed.put(origin.clone(), compressed.clone());
            }
            if again.peek(&origin).is_some() {
                again.compressed.mark_ready(&origin);
            }
        }
        prop_assert_eq!((again.bytes(), again.len()), (cache.bytes(), cache.len()));
        (0..12).for_each(|number| cache.remove(&origin(number)));
        prop_assert_eq!((cache.bytes(), cache.len(), cache.compressed.ready_len()), (0, 0, 0));
        prop_assert!(files.iter().all(|file| cache.compressed.file(&Sha256::digest(file).into()).is_none()));
    }
}

#[test]
fn a_file_is_packed_once_however_many_have_it() {
    let (mut cache, mut packer) = (cache(100, PLENTY), Compressor::default());
    let noise: String =
        (0..500).map(|number| format!("disallow: /{}\n", number * number)).collect();
    let files = vec![Bytes::from(noise)];
    let mut bytes = Vec::new();
    for number in 0..3 {
        cache.put(&origin(number), entry(&files, number));
        pack_oldest(&mut cache, &mut packer);
        bytes.push(cache.bytes());
    }
    let [first, second, third] = bytes[..] else { panic!("{bytes:?}") };
    assert!(second - first < first / 2 && third - second == second - first, "{bytes:?}");
    let [a, b] = [0, 2].map(|number| {
        cache.compressed(&origin(number)).and_then(|compressed| compressed.file.clone())
    });
    assert!(Arc::ptr_eq(&a.expect("a file"), &b.expect("a file")));
}

#[test]
fn the_least_recently_used_is_packed_first_and_goes_first() {
    let (files, mut cache, mut packer) = (files(), cache(4, PLENTY), Compressor::default());
    (0..4).for_each(|number| cache.put(&origin(number), entry(&files, number)));
    cache.get(&origin(0));
    assert_eq!(pack_oldest(&mut cache, &mut packer), Some(origin(1)));
    assert_eq!(pack_oldest(&mut cache, &mut packer), Some(origin(2)));
    let is_known = |cache: &Memory| {
        [0, 1, 2, 3, 4].map(|number| {
            (cache.peek(&origin(number)).is_some(), cache.compressed(&origin(number)).is_some())
        })
    };
    let (ready, compressed, gone) = ((true, false), (false, true), (false, false));
    cache.put(&origin(4), entry(&files, 4));
    assert_eq!(is_known(&cache), [ready, gone, compressed, ready, ready]);
    cache.resize(NonZeroUsize::MIN, PLENTY);
    assert_eq!(is_known(&cache), [gone, gone, gone, gone, ready], "the last that was put");
}

#[test]
fn what_is_to_be_unpacked_goes_last_of_what_is_packed() {
    let (files, mut cache, mut packer) = (files(), cache(3, PLENTY), Compressor::default());
    (0..3).for_each(|number| cache.put(&origin(number), entry(&files, number)));
    while pack_oldest(&mut cache, &mut packer).is_some() {}
    let compressed = cache.use_compressed(&origin(0)).expect("it is compressed");
    cache.put(&origin(3), entry(&files, 3));
    cache.put(&origin(4), entry(&files, 4));
    assert!(cache.decompress(&origin(0), &compressed, &entry(&files, 0)).is_some());
}

#[test]
fn what_was_unpacked_and_is_as_it_was_is_not_packed_again() {
    let (files, mut cache, mut packer) = (files(), cache(9, PLENTY), Compressor::default());
    (0..3).for_each(|number| cache.put(&origin(number), entry(&files, number)));
    while pack_oldest(&mut cache, &mut packer).is_some() {}
    let compressed = cache.bytes();
    for number in [2, 0, 1] {
        let compressed = cache.use_compressed(&origin(number)).expect("it is compressed");
        cache
            .decompress(&origin(number), &compressed, &entry(&files, number))
            .expect("it is still there");
    }
    assert_eq!((cache.len(), cache.compressed_len()), (3, 0));
    // News of one: its compressed is out of date.
    cache.update(&origin(0), |entry| entry.with_site(false)).expect("it is news");
    cache.get(&origin(1));
    cache.resize(NonZeroUsize::MAX, cache.bytes());
    let all = cache.bytes();
    assert_eq!(cache.next_to_compress(all).expect("a candidate").origin, origin(0));
    assert!(
        cache.peek(&origin(2)).is_none(),
        "the least recently used went back to its compressed"
    );
    while cache.next_to_compress(all).is_some() {
        pack_oldest(&mut cache, &mut packer);
    }
    assert_eq!((cache.len(), cache.compressed_len(), cache.bytes()), (3, 3, compressed));
    for (number, left) in [(2, 2), (0, 1)] {
        cache.resize(NonZeroUsize::new(left).expect("some"), PLENTY);
        assert!(
            cache.compressed(&origin(number)).is_none(),
            "in the order in which they were used"
        );
    }
    assert!(cache.compressed(&origin(1)).is_some());
}

#[test]
fn what_is_too_large_to_be_ready_stays_packed() {
    let (files, mut cache, mut packer) = (files(), cache(9, PLENTY), Compressor::default());
    cache.put(&origin(2), entry(&files, 2));
    pack_oldest(&mut cache, &mut packer);
    let (compressed, bytes) =
        (cache.use_compressed(&origin(2)).expect("it is compressed"), cache.bytes());
    cache.resize(NonZeroUsize::MAX, bytes);
    assert!(cache.decompress(&origin(2), &compressed, &entry(&files, 2)).is_some());
    assert_eq!((cache.len(), cache.compressed_len(), cache.bytes()), (1, 1, bytes));
    cache.put(&origin(2), entry(&files, 2));
    assert_eq!((cache.len(), cache.bytes()), (0, 0), "learnt anew, it is not kept");
}

#[test]
fn what_was_forgotten_or_learnt_anew_is_not_replaced_by_what_was_packed() {
    let (files, mut cache, mut packer) = (files(), cache(3, PLENTY), Compressor::default());
    let made = entry(&files, 0);
    cache.put(&origin(0), Arc::clone(&made));
    let compressed = packer.compress(&origin(0), &made, None).expect("it is compressed");
    let candidate = Candidate { origin: origin(0), entry: Arc::clone(&made), file: None };
    cache.put(&origin(0), entry(&files, 0));
    cache.compress(&candidate, compressed.clone());
    assert!(
        cache.compressed(&origin(0)).is_none() && cache.peek(&origin(0)).is_some(),
        "learnt anew"
    );
    cache.remove(&origin(0));
    cache.compress(&candidate, compressed.clone());
    assert_eq!(cache.len(), 0, "forgotten");
    assert!(cache.decompress(&origin(0), &compressed, &made).is_none());
    assert_eq!(cache.len(), 0);
}

#[test]
fn news_of_the_site_are_not_lost_while_it_is_unpacked() {
    let (files, mut cache, mut packer) = (files(), cache(3, PLENTY), Compressor::default());
    let made = entry(&files, 0);
    cache.put(&origin(0), Arc::clone(&made));
    pack_oldest(&mut cache, &mut packer);
    let compressed = cache.use_compressed(&origin(0)).expect("it is compressed");
    assert!(cache.note_site_of_compressed(&origin(0), true).is_none(), "it is no news");
    assert!(cache.note_site_of_compressed(&origin(0), false).is_some());
    assert!(!cache.decompress(&origin(0), &compressed, &made).expect("it is there").site_up);
}

#[test]
fn nothing_is_to_be_packed_within_the_larger_share_as_long_as_all_has_room() {
    let (files, mut cache, mut packer) = (files(), cache(1000, PLENTY), Compressor::default());
    (0..100).for_each(|number| cache.put(&origin(number), entry(&files, number)));
    let (entries_max, all) = (NonZeroUsize::new(1000).expect("some"), cache.bytes());
    cache.resize(entries_max, STORE_READY_SHARE_MOST * all);
    assert!(cache.next_to_compress(0).is_none());
    assert_eq!(cache.next_to_compress(1000).expect("there is no room").origin, origin(0));
    while cache.next_to_compress(1000).is_some() {
        pack_oldest(&mut cache, &mut packer);
    }
    assert!((1..10).contains(&cache.compressed_len()), "one by one, until there is room");
    while cache.next_to_compress(STORE_READY_SHARE_MOST * all).is_some() {
        pack_oldest(&mut cache, &mut packer);
    }
    assert_eq!(
        (cache.len(), cache.compressed_len()),
        (100, 100),
        "for one that takes all the room"
    );
    cache.put(&origin(0), entry(&files, 0));
    assert!(
        cache.next_to_compress(STORE_READY_SHARE_MOST * all + 1).is_none(),
        "what is never kept needs none"
    );
}

#[test]
fn a_smaller_bound_leaves_of_either_tier_what_was_used_last() {
    let (files, mut cache, mut packer) = (files(), cache(2000, PLENTY), Compressor::default());
    (0..400).for_each(|number| cache.put(&origin(number), entry(&files, number)));
    for _ in 0..200 {
        pack_oldest(&mut cache, &mut packer);
    }
    let max = cache.bytes() / 4;
    cache.resize(NonZeroUsize::MAX, max);
    assert!(cache.bytes() <= max);
    assert!(cache.compressed(&origin(199)).is_some() && cache.peek(&origin(399)).is_some());
    assert!(
        cache.compressed_len() > 100 && cache.peek(&origin(200)).is_none(),
        "{}",
        cache.compressed_len()
    );
}

#[test]
fn where_there_is_no_room_for_all_those_that_are_ready_keep_the_smaller_share() {
    let (files, mut cache, mut packer) = (files(), cache(2000, PLENTY), Compressor::default());
    (0..400).for_each(|number| cache.put(&origin(number), entry(&files, number)));
    while held(cache.ready.bytes()) > cache.bytes() / (STORE_READY_SHARE_MOST + 1) {
        pack_oldest(&mut cache, &mut packer);
    }
    let all = cache.bytes();
    cache.resize(NonZeroUsize::MAX, all + 2000);
    assert!(cache.next_to_compress(1000).is_none());
    cache.resize(NonZeroUsize::MAX, all);
    while cache.next_to_compress(1000).is_some() {
        pack_oldest(&mut cache, &mut packer);
    }
    let ready = held(cache.ready.bytes() + 1000);
    assert!(
        cache.bytes() + 1000 <= all || (1..=all / STORE_READY_SHARE).contains(&ready),
        "{ready} of {all}"
    );
    // What comes then is compressed as well, and what is compressed goes: the share of those that are ready stays.
    for number in 400..800 {
        let entry = entry(&files, number);
        while cache.next_to_compress(entry.weight_when_ready()).is_some() {
            pack_oldest(&mut cache, &mut packer);
        }
        cache.put(&origin(number), entry);
    }
    let ready = held(cache.ready.bytes());
    assert!(
        (all / STORE_READY_SHARE / 2..=all / STORE_READY_SHARE).contains(&ready),
        "{ready} of {all}"
    );
    assert!(cache.bytes() <= all && cache.len() < 800);
}
