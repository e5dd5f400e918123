//! What the log says of itself: its text, its place, and what is counted for it.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::policy::change::Kind;

/// A notice of each kind, and its line up to the hash.
pub(in crate::audit) fn table() -> Vec<(Notice, &'static str)> {
    let (node, prev, seq, time) = (Some(Node::from("n")), String::new(), 0, NOON);
    let gap = Gap {
        event: GapEvent::It,
        lost: 2,
        node: node.clone(),
        prev: prev.clone(),
        seq,
        since: NOON,
        time,
        why: "full".into(),
    };
    let torn = Torn {
        event: TornEvent::It,
        node: node.clone(),
        bytes: 3,
        prev: prev.clone(),
        seq,
        sha256: "ab".into(),
        time,
    };
    let pruned = Pruned {
        event: PrunedEvent::It,
        last_hash: "cd".into(),
        last_seq: 4,
        node: node.clone(),
        prev: prev.clone(),
        seq,
        time,
    };
    let started = Started {
        changes: None,
        digest: "ef".into(),
        event: StartedEvent::It,
        exemptions: Vec::new(),
        exemptions_omitted: 0,
        how: StartMode::Serve,
        key: None,
        log: None,
        node: node.clone(),
        prev: prev.clone(),
        profile_version: 3,
        program: None,
        seq,
        settings: None,
        time,
        version: "0.1.0".into(),
    };
    let change = Change { key: "robots.mode".into(), new: json!("observe"), old: json!("enforce") };
    let settings = SettingsChanged {
        changes: vec![change],
        contents: vec!["clients.users_file".into()],
        digest: "ef".into(),
        event: SettingsEvent::It,
        node: node.clone(),
        omitted: Some(1),
        prev: prev.clone(),
        seq,
        settings: None,
        time,
        who: ReloadTrigger::Hup,
    };
    let bare =
        SettingsChanged { contents: Vec::new(), omitted: None, node: None, ..settings.clone() };
    let Notice::Totals(counted) = totals() else { unreachable!("they are totals") };
    let by_parent = Notice::Totals(Totals { by_parent: 2, seq, time, ..counted });
    let Notice::Pulse(pulse) = pulse() else { unreachable!("it is a pulse") };
    let recorded = Some(RecordedCounts { denied: 1, ..RecordedCounts::default() });
    let pulse = Notice::Pulse(Pulse { allowed: 1, recorded, seq, time, ..pulse });
    let stopped = Stopped { event: StoppedEvent::It, node, prev, seq, time, why: "SIGTERM".into() };
    vec![
        (
            Notice::Gap(gap),
            r#""event":"gap","lost":2,"node":"n",PREV,"seq":7,"since":TIME,"time":TIME,"why":"full""#,
        ),
        (
            Notice::Changed(changed()),
            r#""added":1,"agent_asked":"Bot","event":"changed","from":{"cut":false,"sha256":"ab","since":TIME,"state":"rules"},"kind":"gone","node":"n","origin":"o",PREV,"removed":2,"sampled":{"examples":["/a"],"now_denied":1,"seen":2},"seq":7,"time":TIME,"to":{"capture":"cd","cause":"404","cut":false,"failed_capture":"ef","state":"unavailable","status":404,"url_reached":"u"},"touched":[{"agents":["*"],"kind":"gone","profile":"p"}]"#,
        ),
        (
            Notice::ChangesOmitted(omitted()),
            r#""event":"changes_omitted","node":"n","omitted":3,"origin":"o",PREV,"seq":7,"since":TIME,"time":TIME,"why":"total_limit""#,
        ),
        (
            Notice::Paced(paced()),
            r#""agent":"Bot","clamped":true,"delay_ms":300000,"event":"paced","exemption":{"by":"a","ticket":null,"until":TIME,"why":"r"},"group":{"line":1,"token":"*"},"line":2,"node":"n","observed":true,"origin":"o","pace_seen":false,PREV,"profile":{"name":"p","settings":{},"version":2},"robots":ROBOTS,"seq":7,"source":"crawl_delay","text":"Crawl-delay: 999","time":TIME"#,
        ),
        (
            Notice::Torn(torn),
            r#""event":"torn","node":"n","octets":3,PREV,"seq":7,"sha256":"ab","time":TIME"#,
        ),
        (
            Notice::Pruned(pruned),
            r#""event":"pruned","last_hash":"cd","last_seq":4,"node":"n",PREV,"seq":7,"time":TIME"#,
        ),
        (
            by_parent,
            r#""allowed":0,"by_host":0,"by_parent":2,"by_path":0,"denied":0,"event":"totals",PREV,"seq":7,"since":TIME,"time":TIME"#,
        ),
        (
            Notice::Published(Published {
                by: "git".into(),
                checkpoint: "ab".into(),
                event: PublishedEvent::It,
                node: Some(Node::from("n")),
                prev: String::new(),
                receipt: Some("cd".into()),
                seq,
                time,
            }),
            r#""by":"git","checkpoint":"ab","event":"published","node":"n",PREV,"receipt":"cd","seq":7,"time":TIME"#,
        ),
        (
            pulse,
            r#""allowed":1,"by_host":0,"by_path":0,"denied":0,"event":"pulse",PREV,"recorded":{"denied":1,"exempted":0,"tunnelled":0,"would_deny":0},"seq":7,"since":TIME,"time":TIME"#,
        ),
        (
            totals(),
            r#""allowed":0,"by_host":0,"by_path":0,"denied":0,"event":"totals",PREV,"seq":7,"since":TIME,"time":TIME"#,
        ),
        (
            Notice::Started(Started {
                changes: Some(vec![Change {
                    key: "robots.mode".into(),
                    new: json!("observe"),
                    old: json!("enforce"),
                }]),
                exemptions: vec![json!({ "by": "legal", "origin": "o" })],
                exemptions_omitted: 2,
                program: Some("ab".into()),
                settings: Some("ef".into()),
                ..started.clone()
            }),
            r#""changes":[{"key":"robots.mode","new":"observe","old":"enforce"}],"digest":"ef","event":"started","exemptions":[{"by":"legal","origin":"o"}],"exemptions_omitted":2,"how":"serve","node":"n",PREV,"profile_version":3,"program":"ab","seq":7,"settings":"ef","time":TIME,"version":"0.1.0""#,
        ),
        (
            Notice::Started(started),
            r#""digest":"ef","event":"started","how":"serve","node":"n",PREV,"profile_version":3,"seq":7,"time":TIME,"version":"0.1.0""#,
        ),
        (
            Notice::SettingsChanged(SettingsChanged { settings: Some("ef".into()), ..settings }),
            r#""changes":[{"key":"robots.mode","new":"observe","old":"enforce"}],"contents":["clients.users_file"],"digest":"ef","event":"settings","node":"n","omitted":1,PREV,"seq":7,"settings":"ef","time":TIME,"who":"hup""#,
        ),
        (
            Notice::SettingsChanged(bare),
            r#""changes":[{"key":"robots.mode","new":"observe","old":"enforce"}],"digest":"ef","event":"settings",PREV,"seq":7,"time":TIME,"who":"hup""#,
        ),
        (
            Notice::Stopped(stopped),
            r#""event":"stopped","node":"n",PREV,"seq":7,"time":TIME,"why":"SIGTERM""#,
        ),
        (
            Notice::EvidenceLost(EvidenceLost {
                event: EvidenceLostEvent::It,
                evidence: vec!["evidence/ab/ab.txt.gz".into()],
                node: Some(Node::from("n")),
                prev: String::new(),
                seq: 0,
                time,
            }),
            r#""event":"evidence_lost","evidence":["evidence/ab/ab.txt.gz"],"node":"n",PREV,"seq":7,"time":TIME"#,
        ),
        (
            Notice::Operated(Operated {
                action: Operation::Forget,
                by: "session 3f2a91c0".into(),
                event: OperatedEvent::It,
                node: Some(Node::from("n")),
                prev: String::new(),
                seq: 0,
                subject: Some("https://example.com".into()),
                time,
            }),
            r#""action":"forget","by":"session 3f2a91c0","event":"operated","node":"n",PREV,"seq":7,"subject":"https://example.com","time":TIME"#,
        ),
        (
            Notice::Rewound(Rewound {
                event: RewoundEvent::It,
                found_hash: None,
                node: Some(Node::from("n")),
                prev: String::new(),
                seen_hash: "ab".into(),
                seen_seq: 9,
                seq: 0,
                time,
            }),
            r#""event":"rewound","node":"n",PREV,"seen_hash":"ab","seen_seq":9,"seq":7,"time":TIME"#,
        ),
        (
            Notice::RobotsFile(RobotsFile {
                event: FileEvent::It,
                node: Some(Node::from("n")),
                origin: "o".into(),
                prev: String::new(),
                robots: paced().robots,
                seq: 0,
                time,
            }),
            r#""event":"file","node":"n","origin":"o",PREV,"robots":ROBOTS,"seq":7,"time":TIME"#,
        ),
        (
            Notice::Allowed(Box::new(allowed())),
            r#""agent":null,"agent_source":"absent","client":{"address":"127.0.0.1","name":null},"event":"allowed","exemption":null,"group":null,"id":"01J9ZZZZZZZZZZZZZZZZZZZZZZ","method":"GET","node":"n","origin":"http://example.com","path_seen":true,PREV,"profile":{"name":"rfc9309","settings":{},"version":1},"reason":"no_rule","robots":ROBOTS,"rule":null,"seq":7,"time":TIME,"url":"http://example.com/","user_agent":null"#,
        ),
        (
            Notice::SiteCounts(site_counts()),
            r#""agent":"Bot","allowed":1,"by_host":2,"bytes":6,"denied":3,"event":"counts","exempted":4,"failed":5,"node":"n","origin":"o","paced":7,PREV,"resting":8,"rows":9,"seq":7,"sha256":"ab","since":TIME,"state":"rules","statuses":{"2xx":1},"time":TIME,"tunnelled":10,"waited_ms":11,"would_deny":12"#,
        ),
        (
            Notice::SiteCounts(SiteCounts {
                agent: None,
                by_host: 0,
                exempted: 0,
                failed: 0,
                node: None,
                bytes: 0,
                origin: None,
                paced: 0,
                resting: 0,
                rows: None,
                sha256: None,
                state: None,
                statuses: BTreeMap::new(),
                tunnelled: 0,
                waited_ms: 0,
                would_deny: 0,
                ..site_counts()
            }),
            r#""allowed":1,"denied":3,"event":"counts",PREV,"seq":7,"since":TIME,"time":TIME"#,
        ),
        (
            Notice::Checkpointed(Checkpointed {
                event: CheckpointEvent::It,
                node: Some(Node::from("n")),
                note: "courtesy/n\n".into(),
                prev: String::new(),
                seq: 0,
                time,
            }),
            r#""event":"checkpoint","node":"n","note":"courtesy/n\n",PREV,"seq":7,"time":TIME"#,
        ),
    ]
}

pub(super) fn allowed() -> Record<AllowedEvent, AllowedReason> {
    let Record { agent_source, client, id, method, origin, profile, time, url, .. } = minimal();
    Record {
        agent: None,
        agent_source,
        client,
        event: AllowedEvent::It,
        exemption: None,
        group: None,
        id,
        method,
        node: Some(Node::from("n")),
        origin,
        pace_seen: None,
        path_seen: true,
        prev: String::new(),
        profile,
        reason: AllowedReason::NoRule,
        robots: Some(paced().robots),
        rule: None,
        seq: 0,
        setting: None,
        sni: None,
        time,
        trace_id: None,
        url,
        url_as_received: None,
        user_agent: None,
    }
}

fn site_counts() -> SiteCounts {
    SiteCounts {
        agent: Some("Bot".into()),
        allowed: 1,
        by_host: 2,
        denied: 3,
        event: CountsEvent::It,
        exempted: 4,
        failed: 5,
        node: Some(Node::from("n")),
        bytes: 6,
        origin: Some("o".into()),
        paced: 7,
        prev: String::new(),
        resting: 8,
        rows: Some(9),
        seq: 0,
        sha256: Some("ab".into()),
        since: NOON,
        state: Some(RobotsStatus::Rules),
        statuses: BTreeMap::from([("2xx".into(), 1)]),
        time: NOON,
        tunnelled: 10,
        waited_ms: 11,
        would_deny: 12,
    }
}

pub(super) fn changed() -> Changed {
    let from = Side {
        capture: None,
        cause: None,
        cut: false,
        failed_capture: None,
        sha256: Some("ab".into()),
        since: Some(NOON),
        state: RobotsStatus::Rules,
        status: None,
        url_reached: None,
    };
    let to = Side {
        capture: Some("cd".into()),
        cause: Some("404".into()),
        cut: false,
        failed_capture: Some("ef".into()),
        sha256: None,
        since: None,
        state: RobotsStatus::Unavailable,
        status: Some(404),
        url_reached: Some("u".into()),
    };
    let kind = Kind::Gone;
    Changed {
        added: 1,
        agent_asked: "Bot".into(),
        event: ChangedEvent::It,
        from: from.into(),
        kind,
        node: Some(Node::from("n")),
        origin: "o".into(),
        prev: String::new(),
        removed: 2,
        sampled: SampledRequests { examples: vec!["/a".into()], now_denied: 1, seen: 2 },
        seq: 0,
        time: NOON,
        to: to.into(),
        touched: vec![Touched { agents: vec!["*".into()], kind, profile: "p".into() }],
    }
}

/// As a line has it.
const ROBOTS: &str = r#"{"capture":"cd","cause":null,"confirmed_at":null,"cut":false,"failed_capture":null,"failures":null,"fetched_at":null,"next_try":null,"result":null,"sha256":"ab","since":null,"site_up":null,"state":"rules","status":200,"tried":null,"url":"u","url_reached":null}"#;

fn paced() -> Paced {
    Paced {
        agent: Some("Bot".into()),
        clamped: true,
        delay_ms: 300_000,
        event: PacedEvent::It,
        exemption: Some(Box::new(PaceExemption {
            by: "a".into(),
            ticket: None,
            until: NOON,
            why: "r".into(),
        })),
        group: Some(Box::new(Group { line: 1, token: "*".into() })),
        line: 2,
        node: Some(Node::from("n")),
        observed: true,
        origin: "o".into(),
        pace_seen: Some(false),
        prev: String::new(),
        profile: Profile { name: "p".into(), settings: BTreeMap::new(), version: 2 }.into(),
        robots: serde_json::from_str(ROBOTS).unwrap(),
        seq: 0,
        source: "crawl_delay".into(),
        text: "Crawl-delay: 999".into(),
        time: NOON,
    }
}

fn omitted() -> ChangesOmitted {
    ChangesOmitted {
        event: ChangesOmittedEvent::It,
        node: Some(Node::from("n")),
        omitted: 3,
        origin: Some("o".into()),
        prev: String::new(),
        seq: 0,
        since: NOON,
        time: NOON,
        why: Omission::TotalLimit,
    }
}

fn totals() -> Notice {
    Notice::Totals(counted())
}

fn pulse() -> Notice {
    Notice::Pulse(counted())
}

fn counted<E: Default>() -> Totals<E> {
    Totals {
        allowed: 0,
        by_host: 0,
        by_parent: 0,
        by_path: 0,
        denied: 0,
        event: E::default(),
        node: None,
        paced: 0,
        prev: String::new(),
        recorded: None,
        resting: 0,
        seq: 0,
        since: NOON,
        time: NOON,
        waited_ms: 0,
    }
}

fn stopped(why: &str) -> Notice {
    let (event, node, prev, why) = (StoppedEvent::It, None, String::new(), why.to_owned());
    Notice::Stopped(Stopped { event, node, prev, seq: 0, time: NOON, why })
}

#[test]
fn the_text_of_every_notice_is_fixed_and_is_no_record() {
    let table = table();
    for (notice, text) in &table {
        let mut line = Vec::new();
        Head { hash: "0".repeat(64), seq: 6 }.push(Content::Notice(notice.clone()), &mut line);
        let line = String::from_utf8(line).unwrap();
        let prev = format!("\"prev\":\"{}\"", "0".repeat(64));
        let expected =
            text.replace("PREV", &prev).replace("TIME", "\"2026-11-20T12:00:00.123000Z\"");
        let expected = expected.replace("ROBOTS", ROBOTS);
        assert_eq!(line.rsplit_once(",\"hash\"").unwrap().0, format!("{{{expected}"));
        let Content::Notice(read) = Content::parse(line.trim_end().as_bytes()).unwrap() else {
            panic!("read as a record: {line}")
        };
        assert_eq!(
            (read.word(), read.seq(), read.node()),
            (notice.word(), 7, notice.node()),
            "{line}"
        );
    }
    for word in Notice::WORDS {
        assert!(
            table.iter().any(|(notice, _)| notice.word() == *word),
            "{word} is not in the table"
        );
    }
}

/// What each `totals` and each `pulse` says was recorded, in the order of the chain.
fn recorded(dir: &Path) -> Vec<[u64; 4]> {
    let of = |line: Content| match line {
        Content::Notice(Notice::Totals(totals)) => totals.recorded,
        Content::Notice(Notice::Pulse(pulse)) => pulse.recorded,
        _ => None,
    };
    let counts = chain(dir).into_iter().filter_map(of);
    counts.map(|it| [it.denied, it.exempted, it.tunnelled, it.would_deny]).collect()
}

fn write_all(writer: &Writer, events: &[Event]) {
    for event in events {
        let record = Record { event: *event, ..minimal() };
        block_on(writer.write(record, Vec::new())).unwrap();
    }
}

#[test]
fn totals_count_the_records_since_the_last_totals() {
    use Event::*;
    let dir = tempfile::tempdir().unwrap();
    // Each line has a file of its own.
    let writer = open_with(dir.path(), |config| config.rotate_size = 1).unwrap();
    write_all(&writer, &[Denied]);
    block_on(writer.note(pulse())).unwrap();
    write_all(&writer, &[WouldDeny, Denied]);
    block_on(writer.note(pulse())).unwrap();
    block_on(writer.note(totals())).unwrap();
    block_on(writer.note(totals())).unwrap();
    write_all(&writer, &[Exempted, Tunnelled, Tunnelled]);
    writer.queue_last_notices([totals()]);
    drop(writer);
    let expected = [[1, 0, 0, 0], [2, 0, 0, 1], [2, 0, 0, 1], [0; 4], [0, 1, 2, 0]];
    assert_eq!(recorded(dir.path()), expected);
    // This one leaves records without totals behind it, as after a kill.
    let killed = open(dir.path()).unwrap();
    write_all(&killed, &[Denied]);
    drop(killed);
    let writer = open(dir.path()).unwrap();
    write_all(&writer, &[Denied, Denied]);
    block_on(writer.note(totals())).unwrap();
    assert_eq!(recorded(dir.path())[5..], [[2, 0, 0, 0]]);
}

#[test]
fn lost_records_are_not_counted_and_notices_wait() {
    let (log, writer) = failure::away(|_| {});
    assert!(writer.queue_notice(stopped("first")));
    block_on(writer.write(minimal(), Vec::new())).unwrap_err();
    writer.queue_notice(totals());
    log.move_back();
    until("it heals", || writer.health().failing.is_none());
    write(&writer);
    writer.queue_notice(totals());
    drop(writer);
    let words: Vec<_> = chain(&log.dir)
        .iter()
        .map(|line| match line {
            Content::Record(record) => record.event.word(),
            Content::Notice(notice) => notice.word(),
        })
        .collect();
    assert_eq!(words, ["stopped", "totals", "gap", "denied", "totals"]);
    assert_eq!(recorded(&log.dir), [[0; 4], [1, 0, 0, 0]]);
}

#[test]
fn notices_that_wait_for_the_writer_are_bounded() {
    let (_log, writer) = failure::away(|_| {});
    // Those that the writer has taken are apart from those that wait for it.
    let most = 3 * crate::audit::write::writer_handle::NOTICES_WAITING_MAX;
    let taken = (0..10 * most).filter(|_| writer.queue_notice(totals())).count();
    assert!(taken < most, "{taken}");
}

#[test]
fn what_is_to_be_last_is_last() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    writer.queue_last_notices([totals()]);
    writer.queue_last_notices([stopped("SIGTERM")]);
    write(&writer);
    writer.queue_notice(stopped("said"));
    drop(writer);
    let whys: Vec<_> = chain(dir.path())
        .into_iter()
        .map(|line| match line {
            Content::Notice(Notice::Stopped(stopped)) => stopped.why,
            Content::Notice(notice) => notice.word().to_owned(),
            Content::Record(_) => "a record".into(),
        })
        .collect();
    assert_eq!(whys, ["a record", "said", "totals", "SIGTERM"]);
}
