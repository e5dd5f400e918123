//! On a disk that fills up, and on one that cannot be written: what is denied stays denied, it is
//! said, and it heals.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::testkit::processes::{Log, Place, RULES, Robots, Serve, Site, until};

/// A small disk for the whole state directory.
const SMALL_DISK: &str = "mount -t tmpfs -o size=16m,mode=700 tmpfs \"$1\"";

/// Takes all the room that is left, and gives it back when dropped.
struct Ballast<'a>(&'a Path);

impl<'a> Ballast<'a> {
    fn take(path: &'a Path) -> Self {
        let mut file = File::create(path).expect("a disk that can be written to");
        // Smaller and smaller pieces, so that no byte is left.
        for piece in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![0; piece]).is_ok() {}
        }
        Self(path)
    }
}

impl Drop for Ballast<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// Denies pages until one is denied without a record, and then some: the ids of the denials, where they
/// name one.
fn deny_until_records_are_lost(serve: &Serve, site: &Site) -> Vec<Option<String>> {
    let mut ids = Vec::new();
    let mut deny = || {
        let answer = serve.get(&site.url(&format!("/private/{}", ids.len())));
        assert_eq!(answer.status, 403, "{answer:?}");
        ids.push(answer.record);
    };
    until("no record can be written any more", || {
        deny();
        !serve.is_ready()
    });
    (0..50).for_each(|_| deny());
    ids
}

#[test]
fn f12_a_full_disk_never_allows_and_what_it_cost_is_recorded() {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let serve = place.serve_on(SMALL_DISK);
    let dir = serve.sees(&place.audit_dir());
    let mut ids = vec![serve.get(&site.url("/private/before")).record];
    assert!(serve.is_ready());

    let ballast = serve.sees(&place.state_dir()).join("ballast");
    let ballast = Ballast::take(&ballast);
    ids.extend(deny_until_records_are_lost(&serve, &site));
    assert_eq!(serve.get(&site.url("/open")).status, 200, "what is allowed goes on");
    let reasons = serve.admin("/readyz").body;
    assert!(reasons.contains("No space left on device"), "{reasons}");
    assert_eq!(serve.said().matches("cannot write denial records").count(), 1, "{}", serve.said());

    drop(ballast);
    // Without any traffic.
    until("records can be written again", || serve.is_ready());
    ids.push(serve.get(&site.url("/private/after")).record);
    let log = Log::read(&dir);
    log.assert_whole();
    let records: HashSet<_> = log.records().into_keys().collect();
    let named: HashSet<_> = ids.iter().flatten().map(String::as_str).collect();
    assert_eq!(named, records, "an answer names a record if and only if there is one");
    let lost = ids.iter().filter(|id| id.is_none()).count();
    assert!(lost > 0, "none of {} was lost: the disk was not full", ids.len());
    let said: u64 = log.events("gap").iter().filter_map(|gap| gap["lost"].as_u64()).sum();
    assert_eq!(said, lost as u64, "{:?}", log.events("gap"));
    assert!(ids.last().is_some_and(Option::is_some));
    let verified = place.verified_in(&dir);
    assert!(verified.contains(&format!("{lost} ")), "the gap is not told: {verified}");
    assert_eq!(site.fetches(), 1);
    serve.stop();
}

/// It is tried again, and the first line is still how the proxy was started.
#[test]
fn f12_how_the_proxy_was_started_is_written_as_soon_as_the_disk_has_room() {
    const FULL: &str =
        "mkdir -p \"$1/audit\"; mount -t tmpfs -o size=64k,mode=700 tmpfs \"$1/audit\"
        dd if=/dev/zero of=\"$1/audit/ballast\" bs=4k 2>/dev/null || :";
    let (site, place) = (Site::with_rules(RULES), Place::new(""));
    let serve = place.serve_on(FULL);
    assert_eq!(serve.get(&site.url("/private/a")).status, 403, "it is denied all the same");
    let dir = serve.sees(&place.audit_dir());
    fs::remove_file(dir.join("ballast")).expect("it is there");
    until("a record can be written", || serve.get(&site.url("/private/b")).record.is_some());
    let log = Log::read(&dir);
    let events: Vec<_> = log.lines.iter().map(|line| line["event"].as_str()).collect();
    assert_eq!(events[..3], ["started", "gap", "denied"].map(Some), "{events:?}");
}

/// The end of the process on a full disk: what was lost, records and evidence, is said in the log, which holds.
#[test]
fn f12_term_on_a_full_disk_ends_with_74_and_the_log_says_what_it_lacks() {
    let site = Site::start(|address| Robots::File(format!("{RULES}# {address}\n")));
    let place = Place::new("");
    let serve = place.serve_on(SMALL_DISK);
    let dir = serve.sees(&place.audit_dir());
    assert_eq!(serve.get(&site.url("/private/before")).status, 403);
    let ballast = serve.sees(&place.state_dir()).join("ballast");
    let _ballast = Ballast::take(&ballast);
    let mut ids = Vec::new();
    // Each of a site of its own, whose evidence is to be kept, too.
    for last in 2..20 {
        let url = site.url_at(Ipv4Addr::new(127, 0, 1, last), "/private/a");
        ids.push(serve.get(&url).record);
    }
    ids.extend(deny_until_records_are_lost(&serve, &site));
    let lost = ids.iter().filter(|id| id.is_none()).count() as u64;
    assert!(lost > 0);

    // The disk goes with the process but for what is open there.
    let held = File::open(&dir).unwrap();
    let (code, said) = serve.end();
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains(&format!("{lost} records, and perhaps evidence, are lost")), "{said}");
    let dir = Path::new("/proc").join(std::process::id().to_string()).join("fd");
    let dir = dir.join(held.as_raw_fd().to_string());
    let log = Log::read(&dir);
    log.assert_whole();
    let counted: u64 = log.events("gap").iter().filter_map(|gap| gap["lost"].as_u64()).sum();
    assert_eq!(counted, lost, "{:?}", log.events("gap"));
    assert_eq!(log.lines.last().expect("a line")["event"], "stopped");
    assert!(!dir.join("reserve").exists());
    place.verified_in(&dir);
}

#[test]
fn f12_a_full_disk_stops_everything_where_that_is_set() {
    let site = Site::with_rules(RULES);
    let place = Place::new("[audit]\non_failure = \"stop\"");
    let serve = place.serve_on(SMALL_DISK);
    assert_eq!(serve.get(&site.url("/private/before")).status, 403);
    assert_eq!(serve.get(&site.url("/open")).status, 200);

    let ballast = serve.sees(&place.state_dir()).join("ballast");
    let ballast = Ballast::take(&ballast);
    until("it stops", || {
        let status = serve.get(&site.url("/private/a")).status;
        assert!([403, 503].contains(&status), "{status}");
        status == 503
    });
    let pages = site.pages();
    for path in ["/private/a", "/open"] {
        let answer = serve.get(&site.url(path));
        assert_eq!((answer.status, answer.record), (503, None), "{path}: {}", answer.body);
    }
    assert_eq!(site.pages(), pages, "the site was asked all the same");
    assert!(!serve.is_ready());

    drop(ballast);
    until("it serves again", || serve.get(&site.url("/open")).status == 200);
    assert_eq!(serve.get(&site.url("/private/after")).status, 403);
    let dir = serve.sees(&place.audit_dir());
    Log::read(&dir).assert_whole();
    place.verified_in(&dir);
    serve.stop();
}

#[test]
fn a_state_directory_that_cannot_be_written_leaves_what_is_in_memory() {
    let site = Site::with_rules(RULES);
    let place = Place::new("");
    let elsewhere = place.path().join("records");
    place.set(&format!("[audit]\ndir = \"{}\"", elsewhere.display()));
    // The CA is made at the first start.
    place.serve().stop();

    let serve = place.serve_on("mount --bind \"$1\" \"$1\"; mount -o remount,bind,ro \"$1\"");
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    assert_eq!(serve.get(&site.url("/open")).status, 200);
    assert_eq!(site.fetches(), 1, "it is remembered in memory");
    assert!(serve.is_ready(), "{}", serve.admin("/readyz").body);
    let store = place.store();
    assert!(
        serve.said().contains(&store.display().to_string()),
        "nothing is said: {}",
        serve.said()
    );
    serve.stop();
    Log::read(&elsewhere).assert_whole();
    place.verified_in(&elsewhere);
}
