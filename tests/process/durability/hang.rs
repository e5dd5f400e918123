//! On a disk that hangs: a call of the operating system that does not return. What is denied stays
//! denied and is answered, nobody is told of a denial whose record may come late or not at all, nothing
//! is counted twice, it heals, and the process can be ended.
//!
//! A record is waited for ten seconds, so the forms of a test run together.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::thread;

use crate::testkit::processes::{
    Answer, Crawler, Hang, Log, Place, RULES, Robots, Serve, Site, until,
};

/// Where a disk hangs.
struct Form {
    call: &'static str,
    /// What the name of the file contains.
    file: &'static str,
    settings: &'static str,
}

const WRITE: Form = Form { call: "write", file: "/audit/denials.jsonl", settings: "" };

const FORMS: [Form; 6] = [
    WRITE,
    // Behind the answer of one denial, in the way of those that follow.
    Form { call: "fsync", file: "/audit/denials.jsonl", settings: "" },
    // Before the answer.
    Form { call: "fsync", file: "/audit/denials.jsonl", settings: "sync = \"each\"\n" },
    // When the file is closed, and when another is begun.
    Form { call: "rename", file: "/audit/denials-", settings: "rotate_size = \"16KiB\"\n" },
    Form { call: "open", file: "/audit/denials.jsonl", settings: "rotate_size = \"16KiB\"\n" },
    // What is written down beside the lines.
    Form { call: "rename", file: "/audit/head.json", settings: "sync = \"none\"\n" },
];

/// What the clients were answered.
#[derive(Default)]
struct Answers {
    recorded: Vec<String>,
    unrecorded: usize,
}

impl Answers {
    #[track_caller]
    fn add(&mut self, answer: Answer) {
        match answer.record {
            Some(id) => {
                assert_eq!(answer.status, 403, "{id}: {}", answer.body);
                self.recorded.push(id);
            }
            None => {
                assert_eq!(answer.status, 503, "{}", answer.body);
                self.unrecorded += 1;
            }
        }
    }

    /// That the log has a record for each that was said to be recorded; and, for each of the others, a
    /// late record, or a gap.
    #[track_caller]
    fn assert_logged(&self, place: &Place, form: &str) {
        let log = Log::read(&place.audit_dir());
        log.assert_whole();
        let mut late: HashSet<&str> = log.records().into_keys().collect();
        assert!(self.recorded.iter().all(|id| late.remove(id.as_str())), "{form}");
        let lost: u64 = log.events("gap").iter().filter_map(|gap| gap["lost"].as_u64()).sum();
        let lost = usize::try_from(lost).expect("a few");
        assert_eq!(late.len() + lost, self.unrecorded, "{form}: {:?}", log.events("gap"));
        place.verified();
    }
}

fn deny(serve: &Serve, site: &Site) -> Answer {
    serve.get(&site.url("/private/a"))
}

/// Runs `test` for each of `forms`, all at a time.
fn together<T: Send + 'static>(
    forms: impl IntoIterator<Item = T>,
    test: impl Fn(T) + Copy + Send + 'static,
) {
    let threads: Vec<_> = forms.into_iter().map(|form| thread::spawn(move || test(form))).collect();
    for thread in threads {
        thread.join().expect("the form that is named above fails");
    }
}

/// Denies until the call hangs and a denial has gone without its record.
fn deny_until_it_hangs(serve: &Serve, site: &Site, hang: &Hang, call: &str, answers: &mut Answers) {
    until("a denial goes without its record", || {
        answers.add(deny(serve, site));
        hang.hangs(call) && answers.unrecorded > 0
    });
}

#[test]
fn f12_a_hanging_disk_delays_few_answers_and_is_recorded_once() {
    together(FORMS, |Form { call, file, settings }| {
        let form = format!("{call} of {file}, {settings:?}");
        let site = Site::with_rules(RULES);
        let place = Place::new(&format!("[audit]\n{settings}"));
        let hang = Hang::new(&place);
        let serve = hang.serve(&place);
        let mut answers = Answers::default();
        answers.add(deny(&serve, &site));
        assert_eq!((answers.unrecorded, serve.is_ready()), (0, true), "{form}");

        hang.begin(call, file);
        deny_until_it_hangs(&serve, &site, &hang, call, &mut answers);
        std::thread::scope(|scope| {
            let together: Vec<_> = (0..20).map(|_| scope.spawn(|| deny(&serve, &site))).collect();
            together.into_iter().for_each(|one| answers.add(one.join().expect("an answer")));
        });
        assert_eq!(serve.get(&site.url("/open")).status, 200, "{form}: what is allowed goes on");
        let reasons = serve.admin("/readyz");
        assert_eq!(reasons.status, 503, "{form}");
        assert!(
            reasons.body.contains("the disk has not responded for 10s"),
            "{form}: {}",
            reasons.body
        );
        assert_eq!(
            serve.said().matches("cannot write denial records").count(),
            1,
            "{form}: {}",
            serve.said()
        );
        // Those that have waited may still be written.
        assert!(serve.metric("courtesy_audit_lost_total") >= 20, "{form}");

        hang.end();
        until("it heals without any traffic", || serve.is_ready());
        let unrecorded = answers.unrecorded;
        answers.add(deny(&serve, &site));
        assert_eq!(unrecorded, answers.unrecorded, "{form}");
        serve.stop();
        answers.assert_logged(&place, &form);
    });
}

#[test]
fn f12_a_hanging_disk_grants_no_exemption_and_stops_where_set() {
    together(["deny", "stop"], |on_failure| {
        let site = Site::with_rules(RULES);
        let exemption = format!(
            "[[exemptions]]\norigin = \"{}\"\nby = \"a\"\nreason = \"b\"\nuntil = \"9999-01-01\"\n",
            site.url("")
        );
        let place = Place::new(&format!("{exemption}[audit]\non_failure = \"{on_failure}\"\n"));
        let hang = Hang::new(&place);
        let serve = hang.serve(&place);
        assert_eq!(deny(&serve, &site).status, 200, "it is exempted");
        hang.begin(WRITE.call, WRITE.file);
        let pages = site.pages();
        let answer = deny(&serve, &site);
        hang.wait(WRITE.call);
        assert_eq!((answer.status, answer.record), (503, None), "{}", answer.body);
        let is_served = on_failure == "deny";
        let expected = if is_served { 200 } else { 503 };
        assert_eq!(serve.get(&site.url("/open")).status, expected);
        assert_eq!(site.pages() - pages, usize::from(is_served), "what was refused went on");
        hang.end();
        until("it heals", || serve.is_ready());
        assert_eq!(deny(&serve, &site).status, 200, "it is exempted again");
        serve.stop();
        let log = place.log();
        assert_eq!(log.events("exempted").len(), 3, "one record for each, and one of them late");
        assert_eq!((log.events("denied").len(), log.events("gap").len()), (0, 0));
        place.verified();
    });
}

/// The origins whose files hang wait for as long as the disk may take; others are denied with their
/// records, and so are these in the end.
#[test]
fn f12_evidence_that_hangs_costs_no_record() {
    let forms = [("write", ""), ("fsync", "sync = \"each\"\n"), ("rename", ""), ("open", "")];
    together(forms, |(call, settings)| {
        let site = Site::start(|address| Robots::File(format!("{RULES}# {address}\n")));
        let place = Place::new(&format!("[audit]\n{settings}"));
        let hang = Hang::new(&place);
        let serve = hang.serve(&place);
        let mut answers = Answers::default();
        answers.add(deny(&serve, &site));
        hang.begin(call, "/evidence/");
        let other = |last| serve.get(&site.url_at(Ipv4Addr::new(127, 0, 1, last), "/private/a"));
        for last in 1..=3 {
            answers.add(other(last));
            answers.add(deny(&serve, &site));
        }
        assert!(hang.hangs(call), "{call}");
        assert_eq!(answers.unrecorded, 0, "{call}");
        let reasons = serve.admin("/readyz");
        assert_eq!(reasons.status, 503, "{call}");
        assert!(reasons.body.contains("cannot keep evidence"), "{call}: {}", reasons.body);
        hang.end();
        until("it heals", || serve.is_ready());
        answers.add(other(4));
        serve.stop();
        answers.assert_logged(&place, call);
    });
}

/// For as long as a piece may take, which is five seconds.
#[test]
fn a_denial_waits_for_its_own_evidence_only() {
    let site = Site::start(|address| Robots::File(format!("{RULES}# {address}\n")));
    let place = Place::new("");
    let hang = Hang::new(&place);
    let serve = hang.serve(&place);
    let mut answers = Answers::default();
    answers.add(deny(&serve, &site));
    hang.begin("write", "/evidence/");
    std::thread::scope(|scope| {
        let new = |last| serve.get(&site.url_at(Ipv4Addr::new(127, 0, 1, last), "/private/a"));
        let new: Vec<_> = (1..=20).map(|last| scope.spawn(move || new(last))).collect();
        hang.wait("write");
        for _ in 0..5 {
            answers.add(deny(&serve, &site));
        }
        assert!(
            new.iter().all(|denied| !denied.is_finished()),
            "a record is there before its evidence"
        );
        assert!(serve.is_ready());
        hang.end();
        new.into_iter().for_each(|denied| answers.add(denied.join().expect("an answer")));
    });
    assert_eq!(answers.unrecorded, 0);
    serve.stop();
    answers.assert_logged(&place, "evidence");
}

#[test]
fn what_is_known_of_origins_is_no_reason_to_wait_for_a_disk_that_hangs() {
    // Each proxy waits ten seconds at its end, so they end together.
    thread::scope(|scope| {
        for call in ["write", "fsync", "read"] {
            scope.spawn(move || no_client_waits_for_the_store(call));
        }
    });
}

/// While `call` hangs for the file of the store, decisions go on.
#[track_caller]
fn no_client_waits_for_the_store(call: &str) {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let hang = Hang::new(&place);
    let serve = hang.serve(&place);
    hang.begin(call, "/state/state.db");
    for last in 1..=20 {
        let address = Ipv4Addr::new(127, 0, 2, last);
        assert_eq!(serve.get(&site.url_at(address, "/private/a")).status, 403, "{call}");
        assert_eq!(serve.get(&site.url_at(address, "/open")).status, 200, "{call}");
    }
    assert!(serve.is_ready(), "{call}");
    // Which the end of the proxy waits for no longer than it may.
    serve.stop();
}

#[test]
fn a_store_that_does_not_answer_is_told_and_not_asked_again_until_it_does() {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let hang = Hang::new(&place);
    let address = |last| Ipv4Addr::new(127, 0, 2, last);
    let serve = hang.serve(&place);
    for last in 1..=20 {
        assert_eq!(serve.get(&site.url_at(address(last), "/private/a")).status, 403);
    }
    serve.stop();
    let serve = hang.serve(&place);
    hang.begin("read", "/state/state.db");
    for last in 1..=20 {
        assert_eq!(serve.get(&site.url_at(address(last), "/private/a")).status, 403);
        assert_eq!(serve.get(&site.url_at(address(last), "/open")).status, 200);
    }
    hang.wait("read");
    let told = serve.admin("/readyz");
    assert_eq!(told.status, 200, "it decides without");
    assert!(
        told.body.contains("degraded") && told.body.contains("no response in time"),
        "{}",
        told.body
    );
    hang.end();
    until("it answers again", || serve.admin("/readyz").body.contains("\"ready\""));
    serve.stop();
}

/// For ten seconds the proxy would wait for the disk; and for clients that wait for it, as long.
#[test]
fn f14_term_while_the_disk_hangs_ends_within_the_drain() {
    for (call, file) in [
        ("write", "/audit/denials.jsonl"),
        ("fsync", "/audit/denials.jsonl"),
        ("rename", "/audit/head.json"),
        ("write", "/evidence/"),
        ("write", "/state/"),
    ] {
        let site = Site::start(|address| Robots::File(format!("{RULES}# {address}\n")));
        let place = Place::new("[limits]\ndrain_timeout = \"1s\"\n");
        let hang = Hang::new(&place);
        let serve = hang.serve(&place);
        let first = deny(&serve, &site);
        hang.begin(call, file);
        let address = serve.address();
        let url = site.url_at(Ipv4Addr::new(127, 0, 1, 9), "/private/a");
        let waiting = thread::spawn(move || Crawler::new(address).get(&url));
        hang.wait(call);
        let (code, said) = serve.end();
        let of_evidence = file == "/evidence/";
        assert!(code == Some(74) || of_evidence, "{call} {file}: {code:?} {said}");
        // It has got no answer, or one that the log has.
        let answer = waiting.join().expect("a client");
        hang.end();
        place.serve().stop();
        let log = Log::read(&place.audit_dir());
        log.assert_whole();
        let records = log.records();
        for id in [Some(first), answer.ok()].into_iter().flatten().filter_map(|it| it.record) {
            assert!(records.contains_key(id.as_str()), "{call} {file}: {id}");
        }
        place.verified();
    }
}

#[test]
fn f14_a_disk_that_hangs_does_not_keep_the_process() {
    together(FORMS, |Form { call, file, settings }| {
        let form = format!("{call} of {file}, {settings:?}");
        let site = Site::with_rules(RULES);
        let place = Place::new(&format!("[audit]\n{settings}"));
        let hang = Hang::new(&place);
        let serve = hang.serve(&place);
        let mut answers = Answers::default();
        answers.add(deny(&serve, &site));
        hang.begin(call, file);
        deny_until_it_hangs(&serve, &site, &hang, call, &mut answers);
        let (code, said) = serve.end();
        // Input or output (sysexits.h).
        assert_eq!(code, Some(74), "{form}: {said}");
        assert!(said.contains("the disk of the denial log does not answer"), "{form}: {said}");
        hang.end();
        // What was said to be recorded is.
        let serve = place.serve();
        serve.stop();
        let log = Log::read(&place.audit_dir());
        log.assert_whole();
        let records = log.records();
        assert!(answers.recorded.iter().all(|id| records.contains_key(id.as_str())), "{form}");
        place.verified();
    });
}
