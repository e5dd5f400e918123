//! TLS on the proxy's port (`listen.tls`), for a proxy that is named by `https://`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use courtesy::config::Settings;
use http::{Method, Request};

use crate::testkit::parties::{AGENT, H2, Origin, Proxy, tls};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

/// Writes a certificate for 127.0.0.1 and its key; returns the certificate.
fn write_certificate(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    fs::write(dir.join("proxy.pem"), made.cert.pem()).expect("a file");
    let key = dir.join("proxy.key");
    fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    made.cert.pem()
}

fn with_own_certificate(settings: &mut Settings) {
    settings.listen.tls = true;
    settings.listen.tls_cert = Some(settings.state_dir.join("proxy.pem"));
    settings.listen.tls_key = Some(settings.state_dir.join("proxy.key"));
}

#[test]
fn http_1_is_served_inside_tls_and_beside_it() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], |settings| settings.listen.tls = true);
    for name in ["127.0.0.1", "localhost"] {
        let trusted = proxy.trusted(&["http/1.1"]);
        let mut client = proxy.client().secured(trusted, name).expect("a handshake");
        assert_eq!(client.get(&origin.url("/open")).status(), 200);
        client.get(&origin.url("/private/a")).assert_error(403, "http_request_denied");
        let mut inside = client.tunnel(&origin.authority());
        assert_eq!(inside.get("/open").text(), "this is /open\n");
        inside.get("/private/b").assert_error(403, "http_request_denied");
    }
    assert_eq!(proxy.get(&origin.url("/open")).status(), 200, "in clear");
}

#[test]
fn http_2_is_chosen_by_the_handshake() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], |settings| settings.listen.tls = true);
    let address = proxy.address().to_string();
    let client = H2::start(proxy.client().into_tcp(), proxy.trusted(&["h2"]), &address);
    for (path, status) in [("/open", 200), ("/private/a", 403)] {
        let asked = Request::builder().method(Method::GET).uri(origin.url(path));
        let answer = client.answer(client.ask(asked.header("user-agent", AGENT)));
        assert_eq!(answer.status, status, "{path}");
    }
}

#[test]
fn the_operators_certificate_is_served_and_read_again() {
    let origin = Origin::start();
    let mut first = String::new();
    let proxy = Proxy::with(|settings| {
        first = write_certificate(&settings.state_dir);
        with_own_certificate(settings);
    });
    let served = |pem: &str| {
        let trusted = tls::trusting(pem, &["http/1.1"]);
        let client = proxy.client().secured(trusted, "127.0.0.1");
        client.is_ok_and(|mut client| client.get(&origin.url("/open")).status() == 200)
    };
    assert!(served(&first) && !served(&proxy.leaves.authority().bundle()));
    let trusted = tls::trusting(&first, &["http/1.1"]);
    let mut kept = proxy.client().secured(trusted, "127.0.0.1").expect("a handshake");
    assert_eq!(kept.get(&origin.url("/open")).status(), 200);
    let mut second = String::new();
    proxy.change(|settings| second = write_certificate(&settings.state_dir));
    assert!(served(&second) && !served(&first));
    assert_eq!(kept.get(&origin.url("/open")).status(), 200, "what was connected stays so");
    let refused = proxy.try_change(|settings| {
        let key = settings.listen.tls_key.as_ref().expect("a key");
        fs::set_permissions(key, fs::Permissions::from_mode(0o644)).expect("a mode");
    });
    let said = refused.expect_err("a key that others can read").to_string();
    assert!(said.contains("listen.tls_key") && said.contains("0600"), "{said}");
    assert!(served(&second), "as before");
}
