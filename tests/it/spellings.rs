//! Paths that are allowed as they are written, and that a server which mends paths takes for disallowed ones.

use std::process::Command;

use courtesy::audit::read::replay::{Replay, Replayed};
use courtesy::config::ProfileName;
use courtesy::policy::profile;

use crate::testkit::parties::{Origin, Proxy};

const RULES: &str = "User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /Upper/\nDisallow: /a/b;c\n";

/// A path, and what is mended in it where it is disallowed.
const MENDED: [(&str, &[&str]); 12] = [
    ("//private/a", &["slashes_merged"]),
    ("/%2Fprivate/a", &["decoded", "slashes_merged"]),
    ("/x/..;/private;a=b", &["parameters_removed"]),
    ("/\\private/a", &["backslashes_turned", "slashes_merged"]),
    ("/PRIVATE/a", &["case_ignored"]),
    // Three more of each kind, and together.
    ("/upper/a", &["case_ignored"]),
    ("/%252Fprivate/a", &["decoded", "decoded", "slashes_merged"]),
    ("/%25252fprivate/a", &["decoded", "decoded", "decoded", "slashes_merged"]),
    ("/x%5C..%5Cprivate/a", &["decoded", "backslashes_turned"]),
    ("/pri%2576ate", &["decoded"]),
    ("/a//b;c", &["slashes_merged"]),
    (
        "/;a//%2550rivate%3Bb?q=//x",
        &["decoded", "parameters_removed", "slashes_merged", "case_ignored"],
    ),
];

/// Disallowed in no reading.
const ALLOWED: [&str; 6] =
    ["/", "//public//a", "/%2Fopen;a=b", "//private/open/a", "/a?b=//private", "/a/%3F/private"];

#[test]
fn a14_in_all_readings_what_a_server_may_mend_is_judged_as_mended() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::with(|settings| settings.robots.profile = ProfileName::Conservative);
    for (path, _) in MENDED {
        assert_eq!(proxy.get(&origin.url(path)).status(), 403, "{path}");
    }
    for path in ALLOWED {
        assert_eq!(proxy.get(&origin.url(path)).status(), 200, "{path}");
    }
    let expected = ["/robots.txt"].into_iter().chain(ALLOWED);
    let expected: Vec<String> = expected.map(|path| format!("GET {path}")).collect();
    assert_eq!(origin.request_lines(), expected);

    let records = proxy.records();
    assert_eq!(records.len(), MENDED.len());
    for (record, (path, mended)) in records.iter().zip(MENDED) {
        assert_eq!(record["rule"]["read_as"], serde_json::json!(mended), "{path}");
    }
    is_proved(&proxy, &records);
}

/// The records are decided again from their evidence, and say how the path was read.
#[track_caller]
fn is_proved(proxy: &Proxy, records: &[serde_json::Value]) {
    let make = |name: &str, version: u32, changes: &_| profile::recorded(name, version, changes);
    let mut replay = Replay::recorded(&proxy.audit_dir(), make);
    for record in records {
        let record = serde_json::from_value(record.clone()).expect("a record");
        assert_eq!(replay.again(&record), Replayed::Same);
    }
    let show = Command::new(env!("CARGO_BIN_EXE_courtesy"))
        .args(["audit", "show", &records[0]["seq"].to_string(), "--dir"])
        .arg(proxy.audit_dir())
        .output()
        .expect("courtesy");
    let said = String::from_utf8_lossy(&show.stdout);
    assert!(said.contains("applies to ExampleBot, with the path read as slashes merged"), "{said}");
}

#[test]
fn a4_as_written_only_what_rfc9309_makes_equal_is_judged_alike() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    for (path, _) in MENDED {
        assert_eq!(proxy.get(&origin.url(path)).status(), 200, "{path}");
    }
    for path in ["/%70rivate/a", "/./private/a", "/x/../private/a", "/private%2Fa", "/private;a=b"]
    {
        let denied = proxy.get(&origin.url(path));
        assert_eq!(denied.status(), 403, "{path}");
        assert!(denied.json()["rule"].get("read_as").is_none(), "{path}");
    }
}

#[test]
fn a14_the_query_of_a_record_may_be_redacted() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::with(|settings| {
        settings.robots.profile = ProfileName::Conservative;
        settings.audit.redact_query = true;
    });
    for path in ["//private/a?b=secret", "//private?b=secret", "/PRIVATE?b=c"] {
        assert_eq!(proxy.get(&origin.url(path)).status(), 403, "{path}");
    }
    let records = proxy.records();
    assert!(!format!("{records:?}").contains("secret"));
    is_proved(&proxy, &records);
}
