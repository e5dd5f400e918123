//! A server with TLS.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use courtesy::engine::redis::tls_config;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::*;
use crate::testkit::inside;

/// Files of an authority and of a certificate that it has signed.
struct Files {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn files(dir: &Path, name: &str) -> Files {
    files_until(dir, name, (4096, 1, 1))
}

/// The same; the certificate ends on this date.
fn files_until(dir: &Path, name: &str, (year, month, day): (i32, u8, u8)) -> Files {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    // With the name of its issuer it would be taken for one that has signed itself.
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.not_after = rcgen::date_time_ymd(year, month, day);
    let certificate = params.signed_by(&key, &ca).unwrap();
    let write = |kind: &str, pem: String| {
        let file = dir.join(format!("{name}-{kind}.pem"));
        fs::write(&file, pem).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    };
    Files {
        ca: write("ca", ca.pem()),
        certificate: write("certificate", certificate.pem()),
        key: write("key", key.serialize_pem()),
    }
}

/// A server with these certificates; `auth_clients` is its `tls-auth-clients`.
fn serve(own: &Files, auth_clients: &str) -> RedisServer {
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let (ca, certificate, key) = (text(&own.ca), text(&own.certificate), text(&own.key));
    RedisServer::start(&[
        "--tls-port",
        "7000",
        "--tls-ca-cert-file",
        &ca,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-auth-clients",
        auth_clients,
    ])
}

#[test]
fn a_server_and_a_client_know_each_other_by_their_certificates() {
    inside(|| {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (files(dir.path(), "own"), files(dir.path(), "other"));
        let _server = serve(&own, "yes");
        let address = Address::Tcp { host: "localhost".into(), port: 7000, is_tls: true };
        let start = |ca: &Path, client: Option<(&Path, &Path)>| {
            let tls = Some(tls_config(Some(ca), client).unwrap());
            let timeouts = RedisConfig::at(address.clone());
            let timeouts = RedisConfig { timeout: TIMEOUT, ..timeouts };
            super::start("a", RedisConfig { tls, ..timeouts })
        };
        let known = (own.certificate.as_path(), own.key.as_path());
        let engine = start(&own.ca, Some(known));
        is_reached(&engine);
        get(engine.announce_presence(&site("example.com")));
        let wrong = fault(&start(&other.ca, Some(known)), ErrorKind::Tls);
        assert!(wrong.detail.contains("certificate"), "{wrong}");
        let unknown = start(&own.ca, None);
        fault(&unknown, ErrorKind::Tls);
    });
}

#[test]
fn a_certificate_that_has_lapsed_is_named() {
    inside(|| {
        let dir = tempfile::tempdir().unwrap();
        let own = files_until(dir.path(), "own", (2020, 1, 1));
        let _server = serve(&own, "no");
        let address = Address::Tcp { host: "localhost".into(), port: 7000, is_tls: true };
        let tls = Some(tls_config(Some(&own.ca), None).unwrap());
        let config = RedisConfig::at(address);
        let config = RedisConfig { tls, timeout: TIMEOUT, ..config };
        let error = fault(&super::start("a", config), ErrorKind::Tls);
        assert!(error.detail.to_lowercase().contains("expired"), "{error}");
    });
}

#[test]
fn files_for_tls_are_named_if_they_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let own = files(dir.path(), "own");
    let error = |ca: &Path, client| tls_config(Some(ca), client).unwrap_err().to_string();
    let none = dir.path().join("none");
    assert!(error(&none, None).starts_with("engine.ca: "));
    assert!(error(&own.key, None).starts_with("engine.ca: no certificate"));
    assert!(error(&own.ca, Some((&none, &own.key))).starts_with("engine.cert: "));
    assert!(error(&own.ca, Some((&own.certificate, &none))).starts_with("engine.key: "));
    fs::set_permissions(&own.key, Permissions::from_mode(0o644)).unwrap();
    assert!(error(&own.ca, Some((&own.certificate, &own.key))).contains("0600"));
}

/// The two mistakes of a port, on real servers.
#[test]
fn plain_against_tls_and_tls_against_plain_say_what_to_write() {
    inside(|| {
        let dir = tempfile::tempdir().unwrap();
        let own = files(dir.path(), "own");
        let _secure = serve(&own, "no");
        let _plain = RedisServer::start(&["--port", "7001"]);
        let address = |port, is_tls| Address::Tcp { host: "localhost".into(), port, is_tls };
        let tls = Some(tls_config(Some(&own.ca), None).unwrap());
        for (port, is_tls, words) in [
            (7000, false, "write rediss:// in engine.url"),
            (7001, true, "write redis:// in engine.url"),
        ] {
            let config = RedisConfig::at(address(port, is_tls));
            let limit = Duration::from_secs(1);
            let config = RedisConfig { tls: tls.clone(), timeout: limit, ..config };
            let engine = super::start("a", config);
            until(words, || {
                engine.status().last_error.is_some_and(|error| error.detail.contains(words))
            });
        }
    });
}
