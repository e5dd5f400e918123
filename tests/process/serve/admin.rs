//! The admin listener by its flag and its setting.

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};

use crate::serve::support::{Served, courtesy, end, exchange, state_dir, status};

#[test]
fn the_admin_listener_answers_at_the_address_of_the_flag() {
    let dir = state_dir();
    let served = Served::start(dir.path(), &[]);
    let admin = served.admin.expect("an address in the log");
    let get = |path| exchange(admin, &format!("GET {path} HTTP/1.1\r\nHost: {admin}"));
    assert!(get("/healthz").ends_with("\r\n\r\nok\n"));
    assert_eq!(status(&get("/readyz")), 200);
    assert!(get("/metrics").contains("\ncourtesy_connections 0\n"));
    assert_eq!(served.get(&format!("http://{admin}/metrics")), 502, "it is no origin");
    served.terminate();
    assert!(std::net::TcpStream::connect(admin).is_err());
}

#[test]
fn admin_off_opens_no_admin_listener() {
    let dir = state_dir();
    let served = Served::start(dir.path(), &["--admin", "off"]);
    assert_eq!(served.admin, None, "{}", served.said);
    let shown = served.beside(&["config", "show"]);
    assert!(shown.stdout.contains("listen.admin"), "{shown:?}");
}

#[test]
fn an_address_in_use_is_named_with_the_setting_and_the_remedy() {
    let dir = state_dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended =
        end(&mut courtesy(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--admin", &address]));
    assert_eq!(ended.code, Some(69));
    let expected = format!(
        "error: cannot listen on {address} (listen.admin); give --admin another address, or \"off\": "
    );
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
}

#[test]
fn what_other_machines_could_reach_is_refused() {
    let dir = state_dir();
    for (flag, complaint) in [
        (
            "0.0.0.0:3129",
            "--admin: listen.admin: 0.0.0.0:3129 can be reached from other machines; set admin.token_file",
        ),
        ("127.0.0.1:3128", "--admin: listen.admin: 127.0.0.1:3128 is where the proxy listens"),
    ] {
        let ended = end(&mut courtesy(dir.path(), &["serve", "--admin", flag]));
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.stderr.contains(complaint), "{}", ended.stderr);
    }
    assert_eq!(end(&mut courtesy(dir.path(), &["serve", "--admin", "nowhere"])).code, Some(2));
}

/// The value of a setting in `/config`, and where it came from.
fn setting(served: &Served, key: &str) -> (serde_json::Value, String) {
    let answer = served.ask_admin("/config");
    let (_, json) = answer.split_once("\r\n\r\n").expect("an answer");
    let settings: Vec<serde_json::Value> = serde_json::from_str(json).expect("a list");
    let found = settings
        .into_iter()
        .find(|setting| setting["key"] == key)
        .unwrap_or_else(|| panic!("no {key}"));
    (found["value"].clone(), found["from"].as_str().expect("a place").to_owned())
}

#[test]
fn the_settings_in_effect_are_told_with_where_each_came_from() {
    let dir = state_dir();
    let file = dir.path().join("courtesy.toml");
    std::fs::write(&file, "[robots]\nprofile = \"google\"\n").unwrap();
    let served = Served::start(dir.path(), &["--config", file.to_str().unwrap(), "--workers", "1"]);
    let of_file = format!("{}:2", file.display());
    assert_eq!(setting(&served, "robots.profile"), ("google".into(), of_file.clone()));
    assert_eq!(setting(&served, "workers"), (1.into(), "--workers".into()));
    assert_eq!(setting(&served, "tls.roots"), ("bundled".into(), "$COURTESY__TLS__ROOTS".into()));
    assert_eq!(setting(&served, "log.level").1, "default");

    // What needs a restart is not in effect, and not told as if it were.
    std::fs::write(&file, "[robots]\nprofile = \"archival\"\n[log]\nformat = \"json\"\n").unwrap();
    served.signal("HUP");
    served.wait_for("courtesy_config_reloads_total", 1.0);
    assert_eq!(setting(&served, "robots.profile"), ("archival".into(), of_file));
    assert_eq!(setting(&served, "log.format"), ("text".into(), "default".into()));
    served.terminate();
}

/// Whoever asks nothing, asks by half, or does not read what is answered keeps nobody from an answer: the
/// oldest connection is closed for the newest.
#[test]
fn connections_that_ask_nothing_hold_up_no_answer() {
    /// More than are served at one time.
    const MANY: usize = 300;
    let dir = state_dir();
    let served = Served::start(dir.path(), &[]);
    let admin = served.admin.expect("an address in the log");
    let whole = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: ", &whole[..whole.len() - 2], "\r\n"] {
        let mut silent: Vec<_> = (0..MANY).map(|_| TcpStream::connect(admin).unwrap()).collect();
        for stream in &mut silent {
            // Whether it is still there: the oldest may be gone already.
            let _ = stream.write_all(begun.as_bytes());
        }
        assert!(served.ask_admin("/healthz").ends_with("\r\n\r\nok\n"), "{begun:?}");
        assert_eq!(status(&served.ask_admin("/readyz")), 200, "{begun:?}");
        let is_open = |stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        // Not for the want of time: of those that came last many are still waited for.
        let open: Vec<_> = silent.iter().map(is_open).collect();
        assert!(!open[0] && open[MANY - 1], "{begun:?}: {open:?}");
        let first = open.iter().position(|is_open| *is_open).expect("the last");
        assert!(open[first..].iter().all(|is_open| *is_open), "{begun:?}: {open:?}");
    }
    served.terminate();
}
