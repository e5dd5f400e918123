//! The log beside the proxy: what becomes of requests while it cannot be written.

use std::fs;

use courtesy::audit::FILE_NAME;
use courtesy::config::OnFailure;
use serde_json::Value;

use crate::testkit::parties::{Origin, Proxy, until};

const ROBOTS: &str = "User-agent: *\nDisallow: /private/\n";

#[test]
fn on_failure_stop_serves_nothing_while_records_cannot_be_written() {
    let origin = Origin::with_robots(ROBOTS);
    let proxy = Proxy::with(|settings| settings.audit.on_failure = OnFailure::Stop);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200, "nothing has failed yet");
    let aside = proxy.audit_dir().with_extension("aside");
    fs::rename(proxy.audit_dir(), &aside).expect("the directory");
    until("it is noticed", || proxy.audit.is_stopped());
    let denied = proxy.get(&origin.url("/private/a"));
    denied.assert_error(503, "proxy_internal_error");
    assert_eq!(denied.json()["type"], "http://courtesy.internal/problems/audit-unavailable");
    assert_eq!((denied.field("retry-after"), denied.field("courtesy-record")), (Some("1"), None));
    proxy.get(&origin.url("/not-now")).assert_error(503, "proxy_internal_error");
    assert_eq!(origin.count("/not-now"), 0);

    fs::rename(&aside, proxy.audit_dir()).expect("the directory");
    until("it serves again", || proxy.get(&origin.url("/")).status() == 200);
    assert_eq!(proxy.get(&origin.url("/private/b")).status(), 403);
    assert_eq!(proxy.records()[0]["url"], origin.url("/private/b"));
}

#[test]
fn without_stop_a_full_disk_still_answers_403() {
    let origin = Origin::with_robots(ROBOTS);
    let proxy = Proxy::with(|settings| {
        let dir = settings.audit_dir();
        fs::create_dir_all(&dir).expect("a directory");
        std::os::unix::fs::symlink("/dev/full", dir.join(FILE_NAME)).expect("a link");
    });
    assert_eq!(proxy.get(&origin.url("/private/a")).status(), 403);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    let health = proxy.audit.health();
    assert_eq!((health.written, health.lost), (0, 1));
}

#[test]
fn the_log_ends_with_how_many_decisions_there_were() {
    let origin = Origin::with_robots(ROBOTS);
    let mut proxy = Proxy::start();
    for path in ["/", "/private/a", "/b", "/robots.txt"] {
        proxy.get(&origin.url(path));
    }
    proxy.stop();
    let lines = proxy.lines();
    let [.., totals, checkpoint] = &lines[..] else { panic!("{lines:?}") };
    let totals = ["event", "allowed", "denied", "by_path", "by_host"].map(|name| &totals[name]);
    assert_eq!(totals, [&Value::from("totals"), &3.into(), &1.into(), &4.into(), &0.into()]);
    assert_eq!(checkpoint["event"], "checkpoint");
}
