//! The admin listener by its flag and its setting.

use std::net::TcpListener;

use crate::support::{Served, courtesy, end, exchange, state_dir, status};

#[test]
fn it_listens_where_the_flag_says() {
    let dir = state_dir();
    let served = Served::start(dir.path(), &[]);
    let admin = served.admin.expect("an address in the log");
    let get = |path| exchange(admin, &format!("GET {path} HTTP/1.1\r\nHost: {admin}"));
    assert!(get("/healthz").ends_with("\r\n\r\nok\n"));
    assert_eq!(status(&get("/readyz")), 200);
    assert!(get("/metrics").ends_with("# EOF\n"));
    assert_eq!(served.get(&format!("http://{admin}/metrics")), 502, "it is no origin");
    served.terminate();
    assert!(std::net::TcpStream::connect(admin).is_err());
}

#[test]
fn off_is_off() {
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
    let ended = end(&mut courtesy(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--admin", &address]));
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
        ("0.0.0.0:3129", "--admin: listen.admin: 0.0.0.0:3129 can be reached from other machines"),
        ("127.0.0.1:3128", "--admin: listen.admin: 127.0.0.1:3128 is where the proxy listens"),
    ] {
        let ended = end(&mut courtesy(dir.path(), &["serve", "--admin", flag]));
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.stderr.contains(complaint), "{}", ended.stderr);
    }
    assert_eq!(end(&mut courtesy(dir.path(), &["serve", "--admin", "nowhere"])).code, Some(2));
}
