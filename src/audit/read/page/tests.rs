//! Pages against a plain reading of the same lines.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::audit::segment::{FILE_NAME, closed_name};
use crate::audit::summary::compress;
use crate::types::sanitize::sha256_hex;
use crate::types::timestamp::Timestamp;

const NOON: u64 = 1_795_176_000_000;
const HOUR: u64 = 3_600_000;

/// A line of that number, with `room` bytes more than it needs.
fn line(seq: u64, millis: u64, room: usize) -> String {
    let time = crate::audit::print_time(Timestamp::from_millis(millis));
    let (prev, pad) = ("0".repeat(64), "x".repeat(room));
    let canonical = format!(
        "{{\"event\":\"later\",\"pad\":\"{pad}\",\"prev\":\"{prev}\",\"seq\":{seq},\"time\":\"{time}\""
    );
    let hash = sha256_hex(format!("{canonical}}}").as_bytes());
    format!("{canonical},\"hash\":\"{hash}\"}}\n")
}

fn lines(seqs: impl IntoIterator<Item = u64>, room: usize) -> String {
    seqs.into_iter().map(|seq| line(seq, NOON + seq, room)).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// How a closed segment is stored.
#[derive(Clone, Copy, Debug)]
enum Stored {
    Plain,
    /// As another program compresses it.
    Whole,
    /// In members, with a summary.
    Members,
}

fn close(dir: &TempDir, first_seq: u64, text: &str, stored: Stored) {
    let path = dir.path().join(closed_name(first_seq));
    let packed = path.with_added_extension("gz");
    match stored {
        Stored::Plain => fs::write(path, text).unwrap(),
        Stored::Whole => fs::write(packed, gzip(text)).unwrap(),
        Stored::Members => {
            fs::write(&path, text).unwrap();
            compress(&path, &packed, 20_000, &|| false).unwrap();
            fs::remove_file(path).unwrap();
        }
    }
}

static ANY: Needs = Needs::ANY;

const ALL: PageRequest<'static> = PageRequest {
    before: None,
    after: 0,
    limit: usize::MAX,
    bytes_max: u64::MAX,
    needs: &ANY,
    summarised_only: false,
};

fn read(dir: &TempDir, request: PageRequest<'_>, wants: impl Fn(u64) -> bool) -> LinePage {
    let wants = |line: &[u8]| wants(AnyLine::parse(line).unwrap().seq);
    page(Log::Dir(dir.path().to_owned()), request, wants).unwrap()
}

fn seqs(page: &LinePage) -> Vec<u64> {
    page.lines.iter().map(|(seq, _)| *seq).collect()
}

/// Page after page, to the beginning; how many pages.
fn read_all(
    dir: &TempDir,
    request: PageRequest<'_>,
    wants: impl Fn(u64) -> bool,
) -> (Vec<u64>, usize) {
    let (mut all, mut pages, mut before) = (Vec::new(), 0, request.before);
    loop {
        let page = read(dir, PageRequest { before, ..request }, &wants);
        pages += 1;
        assert!(page.lines.len() <= request.limit);
        all.extend(seqs(&page));
        match (page.older, before) {
            (None, _) => return (all, pages),
            (Some(older), Some(before)) => assert!(older < before, "{older} after {before}"),
            (Some(_), None) => {}
        }
        before = page.older;
    }
}

/// Lines of a segment: how many numbers each is behind the one before, its length, and whether it is damaged.
fn segment() -> impl Strategy<Value = (Stored, Vec<(u64, usize, bool)>)> {
    let room = prop_oneof![8 => 0..300_usize, 1 => 7000..9000_usize, 1 => 60_000..63_000_usize];
    let line = (prop_oneof![6 => Just(1_u64), 1 => 2..9_u64], room, prop::bool::weighted(0.1));
    let stored = prop::sample::select(&[Stored::Plain, Stored::Whole, Stored::Members][..]);
    (stored, prop::collection::vec(line, 1..25))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn pages_have_what_a_plain_reading_has(
        segments in prop::collection::vec(segment(), 1..5),
        limit in 1..12_usize,
        bytes_max in prop_oneof![Just(0), Just(20_000), Just(u64::MAX)],
        (step, rest) in (1..7_u64).prop_flat_map(|step| (Just(step), 0..step)),
        before in prop::option::of(1..80_u64),
        unfinished in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut seq, mut expected, mut damaged) = (0, Vec::new(), 0);
        let count = segments.len();
        for (at, (stored, parts)) in segments.into_iter().enumerate() {
            let (first_seq, mut text) = (seq + 1, String::new());
            for (number, (gap, room, is_damaged)) in parts.into_iter().enumerate() {
                seq += if number == 0 { 1 } else { gap };
                if is_damaged && number > 0 {
                    text += "{\"damaged\":true}\n";
                    damaged += 1;
                    continue;
                }
                text += &line(seq, NOON + seq, room);
                if seq % step == rest && before.is_none_or(|before| seq < before) {
                    expected.push(seq);
                }
            }
            if at + 1 < count {
                close(&dir, first_seq, &text, stored);
            } else {
                text += if unfinished { "{\"event\":\"den" } else { "" };
                fs::write(dir.path().join(FILE_NAME), text).unwrap();
            }
        }
        expected.reverse();
        let wants = |seq: u64| seq % step == rest;
        let whole = read(&dir, PageRequest { before, ..ALL }, wants);
        prop_assert_eq!((seqs(&whole), whole.older), (expected.clone(), None));
        if before.is_none() {
            prop_assert_eq!((whole.damaged, whole.segments), (damaged, count));
        }
        let (paged, _) = read_all(&dir, PageRequest { before, limit, bytes_max, ..ALL }, wants);
        prop_assert_eq!(paged, expected);
    }
}

#[test]
fn a_page_of_a_plain_file_reads_little_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let text = lines(1..=6000, 1500);
    assert!(text.len() > 9 << 20);
    fs::write(dir.path().join(FILE_NAME), &text).unwrap();
    let request = PageRequest { limit: 50, ..ALL };
    for before in [None, Some(5900), Some(3000), Some(52)] {
        let page = read(&dir, PageRequest { before, ..request }, |_| true);
        let newest = before.unwrap_or(6001) - 1;
        assert_eq!(seqs(&page), (newest - 49..=newest).rev().collect::<Vec<_>>());
        assert!(page.bytes <= 1 << 20, "{} bytes before {before:?}", page.bytes);
    }
    // One in ten, which is more blocks.
    let tenth = read(&dir, request, |seq| seq.is_multiple_of(10));
    assert!(tenth.lines.len() == 50 && tenth.bytes <= 2 << 20, "{} bytes", tenth.bytes);
}

#[test]
fn a_search_that_finds_nothing_ends_with_a_cursor_within_a_long_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE_NAME), lines(1..=4000, 1500)).unwrap();
    let bytes_max = 1 << 20;
    let first = read(&dir, PageRequest { bytes_max, ..ALL }, |seq| seq == 1);
    assert!(first.lines.is_empty() && first.older.is_some());
    assert!(first.bytes <= bytes_max + (512 << 10), "{} bytes", first.bytes);
    let (found, pages) = read_all(&dir, PageRequest { bytes_max, ..ALL }, |seq| seq == 1);
    assert_eq!(found, [1]);
    assert!((4..12).contains(&pages), "{pages} pages");
}

#[test]
fn rotation_and_pruning_between_pages_lose_and_repeat_no_line() {
    let dir = tempfile::tempdir().unwrap();
    close(&dir, 1, &lines(1..=20, 1500), Stored::Members);
    close(&dir, 21, &lines(21..=40, 1500), Stored::Members);
    fs::write(dir.path().join(FILE_NAME), lines(41..=60, 0)).unwrap();
    let request = PageRequest { limit: 15, ..ALL };
    let first = read(&dir, request, |_| true);
    assert_eq!((seqs(&first).last(), first.older), (Some(&46), Some(46)));
    // The active file is closed and compressed, another has begun, and the first one has gone.
    fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
    close(&dir, 41, &lines(41..=65, 1500), Stored::Members);
    fs::write(dir.path().join(FILE_NAME), lines(66..=70, 0)).unwrap();
    fs::remove_file(dir.path().join(closed_name(1)).with_added_extension("gz")).unwrap();
    fs::remove_file(dir.path().join(closed_name(1)).with_extension("summary")).unwrap();
    let (rest, _) = read_all(&dir, PageRequest { before: first.older, ..request }, |_| true);
    assert_eq!(rest, (21..=45).rev().collect::<Vec<_>>());
}

#[test]
fn bytes_that_are_no_line_are_counted_once_and_hide_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (length, expected) in [(100, 1), (300 << 10, 1), (2 << 20, 1)] {
        let text = [lines(1..=3, 0), "z".repeat(length) + "\n", lines(4..=6, 0)].concat();
        fs::write(dir.path().join(FILE_NAME), text + "{\"unfinished").unwrap();
        let page = read(&dir, ALL, |_| true);
        assert_eq!((seqs(&page), page.damaged), (vec![6, 5, 4, 3, 2, 1], expected), "{length}");
        let page = read(&dir, PageRequest { before: Some(3), ..ALL }, |_| true);
        assert_eq!(seqs(&page), [2, 1], "{length}");
    }
}

#[test]
fn segments_of_another_time_are_passed_over_and_a_clock_may_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let of = |seq: u64, hours: u64| line(seq, NOON + hours * HOUR, 0);
    close(&dir, 1, &(of(1, 0) + &of(2, 1)), Stored::Whole);
    close(&dir, 3, &(of(3, 100) + &of(4, 101)), Stored::Whole);
    // Its clock was 20 hours ahead at first.
    close(&dir, 5, &(of(5, 220) + &of(6, 201)), Stored::Whole);
    fs::write(dir.path().join(FILE_NAME), of(7, 400)).unwrap();
    let at = |hours: u64| Some(Timestamp::from_millis(NOON + hours * HOUR));
    let needs = &Needs { since: at(200), until: at(202), ..Needs::ANY };
    let request = PageRequest { needs, ..ALL };
    let page = read(&dir, request, |_| true);
    assert_eq!((seqs(&page), page.segments, page.older), (vec![6, 5, 4, 3], 2, None));
}
