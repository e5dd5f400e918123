//! Pages with summaries against pages without, and what becomes of a summary that is not right.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::audit::read::archive::LineInPlace;
use crate::audit::read::filter::tests::{filter, record};
use crate::audit::read::page::{LinePage, PageRequest, one, page};
use crate::audit::read::{CompiledFilter, Filter, Log};
use crate::audit::segment::{FILE_NAME, closed_name};
use crate::audit::{Client, Event, Head, Notice, Record};

/// A log that is made line by line, in `dir`.
struct Made {
    dir: TempDir,
    head: Head,
    lines: Vec<String>,
}

impl Made {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), head: Head::genesis(), lines: Vec::new() }
    }

    /// Appends a segment; it is compressed in members of so many bytes, if any.
    fn segment(&mut self, contents: Vec<Content>, member_bytes: Option<usize>) -> PathBuf {
        let first_seq = self.head.seq + 1;
        let mut text = Vec::new();
        contents.into_iter().for_each(|content| _ = self.head.push(content, &mut text));
        let text = String::from_utf8(text).unwrap();
        self.lines.extend(text.lines().map(str::to_owned));
        let Some(member_bytes) = member_bytes else {
            let active = self.dir.path().join(FILE_NAME);
            fs::write(&active, text).unwrap();
            return active;
        };
        let plain = self.dir.path().join(closed_name(first_seq));
        let packed = plain.with_added_extension("gz");
        fs::write(&plain, &text).unwrap();
        compress(&plain, &packed, member_bytes, &|| false).unwrap();
        fs::remove_file(&plain).unwrap();
        packed
    }

    fn page(&self, filter: &Filter, request: PageRequest<'_>) -> LinePage {
        let compiled = CompiledFilter::new(filter.clone());
        let wants = |line: &[u8]| compiled.admits(line) || compiled.admits_notice(line, false);
        let needs = &filter.needs();
        page(Log::Dir(self.dir.path().to_owned()), PageRequest { needs, ..request }, wants).unwrap()
    }

    /// Page after page, to the beginning.
    fn all(&self, filter: &Filter, request: PageRequest<'_>) -> Vec<u64> {
        let (mut found, mut before) = (Vec::new(), request.before);
        loop {
            let page = self.page(filter, PageRequest { before, ..request });
            found.extend(page.lines.iter().map(|(seq, _)| *seq));
            let Some(older) = page.older else { return found };
            assert!(before.is_none_or(|before| older < before), "{older} after {before:?}");
            before = Some(older);
        }
    }

    /// What a plain reading finds.
    fn expected(&self, filter: &Filter) -> Vec<u64> {
        let compiled = CompiledFilter::new(filter.clone());
        let lines = self.lines.iter().rev().map(|line| line.as_bytes());
        let found = lines
            .filter(|line| compiled.admits(line) || compiled.admits_notice(line, false))
            .map(|line| AnyLine::parse(line).unwrap().seq);
        found.collect()
    }

    fn summaries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "summary")).collect()
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

fn content(record: Record) -> Content {
    Content::Record(Box::new(record))
}

/// Shortly after the notices: a segment of another day is passed over without its summary.
fn on_that_day(time: Timestamp) -> Timestamp {
    crate::audit::tests::NOON.plus(std::time::Duration::from_millis(time.millis()))
}

fn record_of_that_day() -> impl Strategy<Value = Record> {
    record().prop_map(|record| Record { time: on_that_day(record.time), ..record })
}

/// One of each kind; those of sites are of one that records have, too.
fn notice() -> impl Strategy<Value = Content> {
    let notices = crate::audit::tests::notices::table().into_iter().map(|(mut notice, _)| {
        match &mut notice {
            Notice::Paced(paced) => paced.origin = "http://a.example.com:8080".into(),
            Notice::RobotsFile(file) => file.origin = "https://example.com".into(),
            Notice::SiteCounts(counts) => counts.origin = Some("http://[2001:db8::1]".into()),
            _ => {}
        }
        Content::Notice(notice)
    });
    prop::sample::select(notices.collect::<Vec<_>>())
}

/// Filters that a record of the log meets in one way, and those that are drawn.
fn questions(drawn: Filter, of: &Record) -> Vec<Filter> {
    let place = |text: &str| crate::audit::read::filter::Place::parse(text).unwrap();
    let glob = |text: &str| crate::types::origin::host::Glob::new(text);
    let authority = of.origin.split_once("://").unwrap().1;
    let client = of.client.address.as_ref().unwrap().to_string();
    let named = of.client.name.clone().unwrap_or_default();
    vec![
        drawn,
        Filter { ids: vec![of.id.clone()], ..Filter::default() },
        Filter {
            ids: of.id.chars().next().map(String::from).into_iter().collect(),
            ..Filter::default()
        },
        Filter { origins: vec![place(authority)], ..Filter::default() },
        Filter { origins: vec![place(&of.origin)], ..Filter::default() },
        Filter { origins: vec![place("*.example.com")], ..Filter::default() },
        Filter {
            agents: vec![glob(&of.agent.clone().unwrap_or_default().to_uppercase())],
            ..Filter::default()
        },
        Filter {
            clients: vec![crate::audit::read::filter::Client::parse(&client)],
            ..Filter::default()
        },
        Filter {
            clients: vec![crate::audit::read::filter::Client::parse(&named)],
            ..Filter::default()
        },
        Filter {
            since: Some(of.time),
            until: Some(Timestamp::from_millis(of.time.millis() + 1)),
            ..Filter::default()
        },
        Filter { events: vec![of.event.word().to_owned(), "gap".into()], ..Filter::default() },
        Filter {
            events: vec!["counts".into()],
            agents: vec![glob("examplebot")],
            ..Filter::default()
        },
        Filter { seqs: vec![3, 7], ..Filter::default() },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pages_are_the_same_with_summaries_and_without(
        segments in prop::collection::vec(
            prop::collection::vec(prop_oneof![4 => record_of_that_day().prop_map(content), 1 => notice()], 1..12),
            1..5,
        ),
        drawn in filter(),
        of in record_of_that_day(),
        (limit, bytes_max) in (1..12_usize, prop_oneof![Just(0), Just(3000), Just(u64::MAX)]),
        member_bytes in 8000..40_000_usize,
        is_active in any::<bool>(),
    ) {
        let drawn = Filter {
            since: drawn.since.map(on_that_day),
            until: drawn.until.map(on_that_day),
            ..drawn
        };
        let mut made = Made::new();
        let count = segments.len();
        for (at, mut contents) in segments.into_iter().enumerate() {
            contents.push(content(of.clone()));
            let is_plain = is_active && at + 1 == count;
            made.segment(contents, (!is_plain).then_some(member_bytes));
            prop_assert_eq!(made.summaries().len(), at + usize::from(!is_plain));
        }
        let with = questions(drawn, &of).into_iter().map(|filter| {
            let found = (made.all(&filter, ALL), made.all(&filter, PageRequest { limit, bytes_max, ..ALL }));
            (filter, found)
        });
        let with: Vec<_> = with.collect();
        made.summaries().into_iter().for_each(|path| fs::remove_file(path).unwrap());
        for (filter, (whole, paged)) in with {
            let expected = made.expected(&filter);
            prop_assert_eq!(&made.all(&filter, ALL), &expected, "without: {:?}", filter);
            prop_assert_eq!(&whole, &expected, "{:?}", filter);
            prop_assert_eq!(&paged, &expected, "by pages: {:?}", filter);
        }
    }
}

/// The `n`th of a series: each hundred of one host and client.
fn plain_record(n: u64) -> Record {
    let value = serde_json::json!({
        "agent": "ExampleBot", "agent_source": "user_agent", "client": {"address": null, "name": null},
        "event": "denied", "exemption": null, "group": null, "id": format!("01K{n:023}"), "method": "GET",
        "origin": format!("https://www{}.example.com", n / 100), "path_seen": true, "prev": "",
        "profile": {"name": "rfc9309", "settings": {}, "version": 1}, "reason": "undecided", "robots": null,
        "rule": null, "seq": 0, "sni": null, "time": "2026-11-20T12:00:00.000000Z", "url_as_received": null,
        "url": "https://www.example.com/".to_owned() + &"x".repeat(300), "user_agent": null,
    });
    let record: Record = serde_json::from_value(value).unwrap();
    Record {
        client: Client::at([10, 0, 0, (n / 100) as u8], None),
        event: Event::Denied,
        time: Timestamp::from_millis(1_795_176_000_000 + n),
        ..record
    }
}

/// Ten segments of a hundred lines, each of about ten members, and an active one.
fn ten() -> Made {
    let mut made = Made::new();
    for segment in 0..11 {
        let contents = (segment * 100..segment * 100 + 100).map(|n| content(plain_record(n)));
        made.segment(contents.collect(), (segment < 10).then_some(8000));
    }
    made
}

fn host(name: &str) -> Filter {
    let place = crate::audit::read::filter::Place::parse(name).unwrap();
    Filter { origins: vec![place], ..Filter::default() }
}

#[test]
fn what_is_not_there_is_passed_over() {
    let made = ten();
    let of_host = host("www4.example.com");
    let found = made.page(&of_host, ALL);
    assert_eq!((found.lines.len(), found.segments), (100, 2), "its own, and the active one");
    let of_domain = made.page(&host("*.example.org"), ALL);
    assert_eq!((of_domain.lines.len(), of_domain.segments), (0, 1));
    let id = Filter { ids: vec![format!("01K{:023}", 456)], ..Filter::default() };
    let line = Filter { seqs: vec![457], ..Filter::default() };
    let summaries: u64 =
        made.summaries().iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let whole = fs::metadata(made.dir.path().join(closed_name(401)).with_added_extension("gz"));
    let whole = whole.unwrap().len();
    for filter in [id, line] {
        // Behind the active one.
        let found = made.page(&filter, PageRequest { limit: 1, before: Some(1001), ..ALL });
        assert_eq!((found.lines[0].0, found.segments), (457, 1));
        let bytes = found.bytes - summaries * 6 / 10;
        assert!(bytes < whole / 4, "{bytes} bytes of {whole}");
    }
    // One of the file that is written, and none.
    for (n, expected) in [(456, Some(457)), (1057, Some(1058)), (2000, None)] {
        let filter = Filter { ids: vec![format!("01K{n:023}")], ..Filter::default() };
        let compiled = CompiledFilter::new(filter.clone());
        let log = Log::Dir(made.dir.path().to_owned());
        let found = one(&log, None, &filter.needs(), |line| compiled.admits(line)).unwrap();
        assert_eq!(found.map(|line| AnyLine::parse(&line).unwrap().seq), expected);
    }
    let closed = PageRequest { summarised_only: true, ..ALL };
    assert_eq!(made.page(&Filter::default(), closed).lines.len(), 1000);
    let in_place = LineInPlace::find(&Log::Dir(made.dir.path().to_owned()), 457).unwrap().unwrap();
    assert_eq!(
        (in_place.older, in_place.newer, in_place.check.holds()),
        (Some(456), Some(458), true)
    );
    let last = LineInPlace::find(&Log::Dir(made.dir.path().to_owned()), 1100).unwrap().unwrap();
    assert_eq!((last.older, last.newer, last.check.holds()), (Some(1099), None, true));
}

/// A damage that changes one value.
fn changed(of: impl Fn(&mut serde_json::Value)) -> impl Fn(&[u8]) -> Vec<u8> {
    move |stored: &[u8]| {
        let mut text = Vec::new();
        GzDecoder::new(stored).read_to_end(&mut text).unwrap();
        let mut value = serde_json::from_slice(&text).unwrap();
        of(&mut value);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&serde_json::to_vec(&value).unwrap()).unwrap();
        encoder.finish().unwrap()
    }
}

#[test]
fn a_summary_that_is_not_right_is_left_unread() {
    let newer = |value: &mut serde_json::Value| value["version"] = 2.into();
    let shorter = |value: &mut serde_json::Value| value["bytes"] = 7.into();
    let other_end = |value: &mut serde_json::Value| value["end"][3] = 256.into();
    let beyond = |value: &mut serde_json::Value| value["members"][0]["offset"] = 1.into();
    let unordered = |value: &mut serde_json::Value| {
        value["members"].as_array_mut().unwrap().reverse();
    };
    let flipped = |at: usize| {
        move |stored: &[u8]| {
            let mut stored = stored.to_vec();
            let at = at * stored.len() / 8;
            stored[at] ^= 1;
            stored
        }
    };
    type Damage<'a> = Box<dyn Fn(&[u8]) -> Vec<u8> + 'a>;
    let mut damages: Vec<Damage<'_>> = vec![
        Box::new(changed(newer)),
        Box::new(changed(shorter)),
        Box::new(changed(other_end)),
        Box::new(changed(beyond)),
        Box::new(changed(unordered)),
        Box::new(|stored: &[u8]| stored[..stored.len() / 2].to_vec()),
        Box::new(|_: &[u8]| Vec::new()),
        Box::new(|_: &[u8]| b"{}".to_vec()),
    ];
    damages.extend((1..8).map(|at| Box::new(flipped(at)) as Damage<'_>));
    let made = ten();
    let filter = host("www4.example.com");
    let expected = made.expected(&filter);
    let right = made.page(&filter, ALL);
    let path = path_of(&made.dir.path().join(closed_name(601))).unwrap();
    let stored = fs::read(&path).unwrap();
    for (number, damage) in damages.iter().enumerate() {
        fs::write(&path, damage(&stored)).unwrap();
        let found = made.page(&filter, ALL);
        assert_eq!(made.all(&filter, ALL), expected, "damage {number}");
        assert_eq!(found.segments, right.segments + 1, "damage {number}");
        assert!(found.bytes > right.bytes, "damage {number}");
    }
    // That of another segment, and none.
    fs::copy(path_of(&made.dir.path().join(closed_name(501))).unwrap(), &path).unwrap();
    assert_eq!(made.page(&filter, ALL).segments, right.segments + 1);
    fs::remove_file(&path).unwrap();
    assert_eq!(made.page(&filter, ALL).segments, right.segments + 1);
    fs::write(&path, &stored).unwrap();
    assert_eq!(made.page(&filter, ALL).segments, right.segments);
    // Its segment has become another, as when a program compresses it anew.
    let packed = made.dir.path().join(closed_name(401)).with_added_extension("gz");
    let mut text = String::new();
    let mut lines = segment::text(File::open(&packed).unwrap()).unwrap();
    lines.read_to_string(&mut text).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    fs::write(&packed, encoder.finish().unwrap()).unwrap();
    assert_eq!(made.all(&filter, ALL), expected);
}

#[test]
fn lines_out_of_order_and_lines_too_long_have_no_summary() {
    for text in
        ["{\"prev\":\"\",\"seq\":2}\n{\"prev\":\"\",\"seq\":2}\n".to_owned(), "x".repeat(9000)]
    {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join(closed_name(2));
        fs::write(&plain, &text).unwrap();
        let packed = plain.with_added_extension("gz");
        fs::write(path_of(&plain).unwrap(), "of another").unwrap();
        compress(&plain, &packed, 4000, &|| false).unwrap();
        assert!(!path_of(&plain).unwrap().exists());
        let mut found = String::new();
        segment::text(File::open(&packed).unwrap()).unwrap().read_to_string(&mut found).unwrap();
        assert_eq!(found, text);
    }
}

#[test]
fn a_summary_of_many_values_is_small_and_passes_over_none() {
    let mut made = Made::new();
    let records = (0..700_u64)
        .map(|n| Record { origin: format!("https://a{n}.b{n}.example{n}.com"), ..plain_record(n) });
    let packed = made.segment(records.map(content).collect(), Some(MEMBER_BYTES));
    let (summary, bytes) = SegmentSummary::read(&packed, &File::open(&packed).unwrap());
    assert_eq!(summary.unwrap().hosts.0.unwrap().len(), 3 * 700 + 1);
    // About four bytes for each value.
    assert!(bytes < 10_000, "{bytes}");
    let mut many = HashSet::new();
    (0..=VALUES_MAX).for_each(|n| add(&mut many, &format!("host{n}")));
    assert_eq!(many.len(), VALUES_MAX + 1);
    add(&mut many, "one more");
    assert_eq!(many.len(), VALUES_MAX + 1, "it is not kept");
    let none = ValueHashes::of(many);
    assert!(none.0.is_none() && none.may_have(&[7]));
}
