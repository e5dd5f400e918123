//! A CA that has expired, or is not valid yet: the proxy starts and serves what needs no certificate,
//! refuses to intercept with the reason, and takes up another CA.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};

use crate::serve::support::{Served, Site, courtesy, end, exchange, state_dir, status, until};

/// Writes a CA that is valid in these years.
fn write_ca(dir: &Path, years: (i32, i32)) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "the CA of a test");
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let (key_file, next) = (dir.join("ca.key"), dir.join("next"));
    for (file, text) in [(key_file, key.serialize_pem()), (dir.join("ca.pem"), certificate.pem())] {
        fs::write(&next, text).unwrap();
        fs::set_permissions(&next, Permissions::from_mode(0o600)).unwrap();
        fs::rename(&next, file).unwrap();
    }
}

fn start(dir: &Path, more: &str) -> Served {
    let config = dir.join("courtesy.toml");
    let at = dir.display();
    let text = format!("[https]\nca_cert = \"{at}/ca.pem\"\nca_key = \"{at}/ca.key\"\n{more}");
    fs::write(&config, text).unwrap();
    Served::start(&dir.join("state"), &["--config", config.to_str().unwrap()])
}

fn connect(served: &Served, target: &str) -> String {
    exchange(
        served.proxy,
        &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close"),
    )
}

#[test]
fn an_expired_ca_refuses_interception_and_serves_http() {
    let (dir, site) = (state_dir(), Site::start(""));
    write_ca(dir.path(), (2020, 2021));
    let served = start(dir.path(), "");
    let said = "expired on 2021-01-01";
    assert!(served.said.contains("listening"), "{}", served.said);
    assert_eq!(served.get(&site.url("/")), 200);
    let refused = connect(&served, "example.com:443");
    assert_eq!(status(&refused), 503, "{refused}");
    for part in [said, "courtesy ca rotate", "problems/ca-not-valid", "proxy_configuration_error"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let ready = served.ask_admin("/readyz");
    assert_eq!(status(&ready), 200, "{ready}");
    assert!(
        ready.contains("\"status\":\"degraded\"") && ready.contains("courtesy ca rotate"),
        "{ready}"
    );
    assert_eq!(served.metric("courtesy_ca_valid"), 0.0);
    let config = dir.path().join("courtesy.toml");
    let checked = end(&mut courtesy(
        &dir.path().join("other"),
        &["config", "check", config.to_str().unwrap()],
    ));
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.contains("note: HTTPS will not be intercepted: the CA"), "{checked:?}");

    write_ca(dir.path(), (2020, 2090));
    until("the other CA is taken up", || served.metric("courtesy_ca_valid") == 1.0);
    let log = served.terminate();
    assert_eq!(
        log.matches("HTTPS is not intercepted, and CONNECT is refused").count(),
        1,
        "once: {log}"
    );
}

#[test]
fn a_ca_not_yet_valid_is_refused_and_listed_hosts_are_tunnelled() {
    let dir = state_dir();
    write_ca(dir.path(), (2089, 2090));
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = origin.local_addr().unwrap().port();
    let more = format!("tunnel = [\"127.0.0.1\"]\n[egress]\nconnect_ports = [443, {port}]\n");
    let served = start(dir.path(), &more);
    let refused = connect(&served, "example.com:443");
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(refused.contains("is not valid before 2089-01-01"), "{refused}");
    std::thread::spawn(move || origin.incoming().for_each(drop));
    let tunnelled = connect(&served, &format!("127.0.0.1:{port}"));
    assert!(!tunnelled.contains("ca-not-valid"), "{tunnelled}");
    served.terminate();
}
