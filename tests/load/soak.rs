//! Everything at once, for as long as one likes: at the end the proxy is as it was in the beginning,
//! and every 403 that a client saw has its record.

mod traffic;
mod watch;

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::gauge::Gauge;
use crate::site::Site;
use crate::testkit::parties::tls;
use crate::testkit::processes::{Log, Place, Serve, until};
use crate::turn::Turn;
use traffic::{Field, TRAFFIC};
use watch::Watch;

/// Runs shorter than this say nothing of memory: it still fills what it may have.
const JUDGED: Duration = Duration::from_secs(600);

/// What may be open, or run, at the end beside what was at the beginning: the store's file has grown,
/// threads for the disk live on for a while.
const DESCRIPTORS_SLACK: usize = 8;
const THREADS_SLACK: usize = 4;

/// Time passes quickly, so that each limit is met often. There are more origins than are remembered.
fn settings(ports: [u16; 2], turn: usize) -> String {
    let [plain, secure] = ports;
    let level = if turn == 0 { "info" } else { "error" };
    format!(
        "[robots]\nfetch_timeout = \"2s\"\ncache_size = \"1MiB\"\n\
         [egress]\nconnect_ports = [{plain}, {secure}]\nidle_timeout = \"{}s\"\n\
         [limits]\nheader_timeout = \"2s\"\nidle_timeout = \"5s\"\n\
         [audit]\nrotate_size = \"32MiB\"\n\
         [log]\nlevel = \"{level}\"",
        3 + turn % 2
    )
}

#[test]
fn l9_mixed_traffic_and_faults_leave_nothing_behind() {
    let _turn = Turn::wait();
    let length = length();
    let (plain, secure) = (Site::plain(), Site::secure());
    let ports = [plain.port(), secure.port()];
    let place = Place::new(&settings(ports, 0));
    let root = place.path().join("origins.pem");
    fs::write(&root, tls::origins_ca()).expect("a directory that can be written to");
    let serve = Serve::start(
        place.command(&format!("serve --allow-private --extra-root {}", root.display())),
    );
    let trust = serve.get("http://courtesy.internal/ca.pem").body;
    let field = Field::new(serve.address(), plain, secure, trust);
    assert_eq!(serve.get(&field.plain.url(1, 1, "/open")).status, 200);
    let before = Gauge::of(&serve);

    let end = monotonic() + length;
    let mut watch = Watch::begin(&serve, &field, length);
    thread::scope(|scope| {
        for traffic in TRAFFIC {
            let field = &field;
            scope.spawn(move || field.send(traffic));
        }
        let mut turn = 0;
        while monotonic() < end && !field.is_over() {
            turn += 1;
            reload(&place, &serve, ports, turn);
            watch.look_for(&serve, &field, Duration::from_secs(5));
        }
        field.finish();
    });
    watch.print(&serve, &field);

    until("nobody is inside", || serve.metric("courtesy_connections") == 0);
    until("nothing is fetched", || serve.metric("courtesy_robots_fetches_under_way") == 0);
    until("descriptors and threads are what they were", || {
        let now = Gauge::of(&serve);
        now.descriptors <= before.descriptors + DESCRIPTORS_SLACK
            && now.threads <= before.threads + THREADS_SLACK
    });
    println!("before {before:?}\nafter  {:?}", Gauge::of(&serve));
    assert_eq!(serve.metric("courtesy_requests_under_way"), 0);
    assert_eq!(serve.metric("courtesy_cache_waiters"), 0);
    assert_eq!(serve.metric("courtesy_panics_total"), 0);
    assert_eq!(serve.metric("courtesy_audit_lost_total"), 0);
    assert_eq!(
        field.plain.breaches() + field.secure.breaches(),
        0,
        "a page that is disallowed was asked for"
    );
    let said = serve.stop();
    assert!(!said.contains("panicked"), "{said}");

    let denied = field.denied();
    let records = Log::record_ids(&place.audit_dir());
    assert_eq!(denied.len(), records.len(), "403s at clients, and records");
    let denied: HashSet<_> = denied.into_iter().collect();
    let recorded: HashSet<_> = records.into_iter().collect();
    assert_eq!(denied, recorded, "the ids in the answers, and in the log");
    println!("{} denials, each with its record\n{}", recorded.len(), place.verified());
    assert!(denied.len() > 50, "hardly any was denied: {}", denied.len());
    if length >= JUDGED {
        watch.assert_flat();
    }
}

/// Other settings in effect, which mean the same; every third time settings that cannot be used.
fn reload(place: &Place, serve: &Serve, ports: [u16; 2], turn: usize) {
    let settings = settings(ports, turn);
    let settings =
        if turn.is_multiple_of(3) { settings.replace("[robots]", "[rowbots]") } else { settings };
    place.set(&settings);
    serve.signal("HUP");
}

#[expect(clippy::disallowed_methods, reason = "a test is a program of its own")]
fn length() -> Duration {
    let text = std::env::var("COURTESY_TEST_SOAK").unwrap_or_else(|_| "15s".into());
    humantime::parse_duration(&text)
        .unwrap_or_else(|_| panic!("COURTESY_TEST_SOAK is {text:?}, such as 1h"))
}
