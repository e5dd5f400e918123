//! `courtesy store` beside a running proxy, which it asks, and without one.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use serde_json::Value;

use crate::serve::support::{Ended, Served, Site, courtesy, end, state_dir};

const ROBOTS_TXT: &str = "User-agent: *\nDisallow: /private/\n\nUser-agent: Greedy\nDisallow: /\n";

fn offline(state_dir: &Path, arguments: &[&str]) -> Ended {
    end(&mut courtesy(state_dir, arguments))
}

#[track_caller]
fn done(ended: &Ended) -> &str {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    &ended.stdout
}

#[track_caller]
fn json(ended: &Ended) -> Value {
    serde_json::from_str(done(ended)).unwrap()
}

/// What only a look at memory or at the file itself can tell.
fn without_lines(mut known: Value) -> Value {
    known["file"].as_object_mut().unwrap().remove("lines");
    known
}

#[test]
fn what_is_known_is_told_beside_the_proxy_and_after_it() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let served = Served::start(dir.path(), &[]);
    assert_eq!((served.get(&site.url("/")), served.get(&site.url("/private/"))), (200, 403));

    let get = ["store", "get", &site.origin];
    let get_json = ["store", "get", "--format", "json", &site.origin];
    let known = json(&served.beside(&get_json));
    assert_eq!(known["origin"], site.origin);
    let file = &known["file"];
    assert_eq!(
        (&file["octets"], &file["lines"]),
        (&Value::from(ROBOTS_TXT.len()), &Value::from(5))
    );
    assert_eq!(file["url"], format!("{}/robots.txt", site.origin));
    let state = &known["states"][0];
    assert_eq!((&state["profile"], &state["state"]), (&"rfc9309".into(), &"rules".into()));
    assert!(state["since"].as_str() < state["next_try"].as_str(), "{state}");
    let text = served.beside(&get);
    let text = done(&text);
    for part in [
        &site.origin,
        "  rfc9309      rules, since 20",
        "5 lines, ",
        file["sha256"].as_str().unwrap(),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours but on a terminal");
    let exported = served.beside(&["store", "export"]);
    let line: Value = serde_json::from_str(done(&exported).trim_end()).unwrap();
    assert_eq!(line, without_lines(known.clone()));

    served.terminate();
    assert_eq!(json(&offline(dir.path(), &get_json)), known);
    assert_eq!(offline(dir.path(), &["store", "export"]).stdout, exported.stdout);
}

#[test]
fn what_is_forgotten_is_fetched_anew() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let served = Served::start(dir.path(), &[]);
    let forget = ["store", "forget", &site.origin];
    let nothing = format!("Nothing was known of {}.\n", site.origin);
    let ended = served.beside(&forget);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), nothing.as_str()), "{ended:?}");
    served.get(&site.url("/"));
    served.get(&site.url("/"));
    assert_eq!(site.asked(), 1);
    assert!(done(&served.beside(&forget)).contains("is forgotten"));
    assert_eq!(served.beside(&forget).code, Some(1));
    assert_eq!(served.beside(&["store", "get", &site.origin]).code, Some(1));
    served.get(&site.url("/"));
    assert_eq!(site.asked(), 2);

    // Kept over the restart, unless it is forgotten in between.
    served.terminate();
    let served = Served::start(dir.path(), &[]);
    served.get(&site.url("/"));
    assert_eq!(site.asked(), 2);
    served.terminate();
    assert!(done(&offline(dir.path(), &forget)).contains("is forgotten"));
    assert_eq!(offline(dir.path(), &forget).code, Some(1));
    let served = Served::start(dir.path(), &[]);
    served.get(&site.url("/"));
    assert_eq!(site.asked(), 3);
}

#[test]
fn the_store_is_counted() {
    let (dir, sites) = (state_dir(), [Site::start(ROBOTS_TXT), Site::start(ROBOTS_TXT)]);
    let served = Served::start(dir.path(), &[]);
    sites.iter().for_each(|site| assert_eq!(served.get(&site.url("/")), 200));
    let stats = ["store", "stats", "--format", "json"];
    let counted = json(&served.beside(&stats));
    assert_eq!(
        (&counted["entries"], &counted["states"]["rules"]),
        (&2.into(), &2.into()),
        "{counted}"
    );
    assert!(
        done(&served.beside(&["store", "stats"]))
            .starts_with("origins      2\nstates       2 rules\n")
    );
    assert_eq!(done(&served.beside(&["store", "export"])).lines().count(), 2);
    assert!(done(&served.beside(&["store", "compact"])).contains(" now."));
    served.terminate();
    assert!(done(&offline(dir.path(), &["store", "compact"])).contains(" now."));
    assert_eq!(json(&offline(dir.path(), &stats))["entries"], 2);
}

#[test]
fn the_socket_is_ours_alone_and_outlives_nobody() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let socket = dir.path().join("control.sock");
    let served = Served::start(dir.path(), &[]);
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    served.get(&site.url("/"));
    assert_eq!(
        done(&served.beside(&["store", "export"])).lines().count(),
        1,
        "and so it is on the disk"
    );
    served.kill();
    assert!(socket.exists(), "nobody could remove it");
    done(&offline(dir.path(), &["store", "get", &site.origin]));

    let served = Served::start(dir.path(), &[]);
    done(&served.beside(&["store", "get", &site.origin]));
    served.terminate();
    assert!(!socket.exists());
}

#[test]
fn who_connects_and_asks_nothing_keeps_no_proxy_from_ending() {
    let dir = state_dir();
    let served = Served::start(dir.path(), &[]);
    let silent = UnixStream::connect(dir.path().join("control.sock")).unwrap();
    // The one that comes later is answered, so the first has been accepted.
    done(&served.beside(&["store", "stats"]));
    let begun = monotonic();
    served.terminate();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let dir = state_dir();
    std::fs::write(dir.path().join("control.sock"), "mine").unwrap();
    let served = Served::start(dir.path(), &[]);
    assert!(
        served.said.contains("`courtesy reload` and `courtesy store` cannot ask this proxy: "),
        "{}",
        served.said
    );
    served.terminate();
    assert_eq!(std::fs::read_to_string(dir.path().join("control.sock")).unwrap(), "mine");
}

#[test]
fn a_proxy_in_a_directory_of_a_long_name_serves_without_the_socket() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let long = dir.path().join("x".repeat(100));
    let served = Served::start(&long, &[]);
    assert!(served.said.contains("choose a shorter state_dir"), "{}", served.said);
    assert_eq!(served.get(&site.url("/")), 200);
    done(&served.beside(&["store", "get", &site.origin]));
    served.terminate();
    done(&offline(&long, &["store", "get", &site.origin]));
}

#[test]
fn what_cannot_be_told_is_said_with_the_remedy() {
    let dir = state_dir();
    let missing = offline(dir.path(), &["store", "stats"]);
    assert_eq!(missing.code, Some(69), "{missing:?}");
    assert!(missing.stderr.contains("there is no store at "), "{}", missing.stderr);
    let bare = offline(dir.path(), &["store", "get", "example.com"]);
    assert_eq!(bare.code, Some(2), "{bare:?}");
    assert!(
        bare.stderr.contains("the scheme is missing: write https://example.com"),
        "{}",
        bare.stderr
    );

    let file = dir.path().join("courtesy.toml");
    std::fs::write(&file, "[store]\nenabled = false\n").unwrap();
    let served = Served::start(dir.path(), &["--config", file.to_str().unwrap()]);
    let disabled = served.beside(&["store", "stats"]);
    assert_eq!(disabled.code, Some(69), "{disabled:?}");
    assert!(disabled.stderr.contains("store.enabled"), "{}", disabled.stderr);
}
