//! The variables for given setups.

use std::path::PathBuf;

use super::setup::{ClientSetup, TrustFiles};
use super::variables::variables;
use crate::cli::environment;

pub fn setup(proxy: &str) -> ClientSetup {
    let file = |name: &str| PathBuf::from("/state/clients").join(name);
    let trust = TrustFiles {
        authority: file("ca.pem"),
        bundle: file("bundle.pem"),
        wgetrc: file("wgetrc"),
        java: Some(file("java.truststore")),
    };
    ClientSetup {
        credentials: None,
        proxy: proxy.parse().unwrap(),
        no_proxy: environment::NoProxy::default(),
        trust: Some(trust),
        java_options: String::new(),
        php_scan_dir: ":/state/clients/php".into(),
    }
}

fn value_of(setup: &ClientSetup, name: &str) -> Option<String> {
    variables(setup)
        .into_iter()
        .find(|variable| variable.name == name)
        .map(|variable| variable.value)
}

#[test]
fn a_listener_on_all_addresses_is_reached_on_loopback() {
    for (listener, url) in [
        ("127.0.0.1:3128", "http://127.0.0.1:3128"),
        ("0.0.0.0:3128", "http://127.0.0.1:3128"),
        ("[::]:3128", "http://[::1]:3128"),
        ("192.0.2.7:80", "http://192.0.2.7:80"),
    ] {
        for name in
            ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
        {
            assert_eq!(value_of(&setup(listener), name).as_deref(), Some(url), "{name}");
        }
    }
}

#[test]
fn credentials_stand_before_the_address() {
    let setup = ClientSetup { credentials: Some("ada:a%3Ab".into()), ..setup("127.0.0.1:3128") };
    assert_eq!(value_of(&setup, "https_proxy").as_deref(), Some("http://ada:a%3Ab@127.0.0.1:3128"));
    assert!(!value_of(&setup, "JAVA_TOOL_OPTIONS").unwrap().contains("ada"));
}

#[test]
fn no_host_is_left_out_unless_asked_for() {
    let mut setup = setup("127.0.0.1:3128");
    setup.no_proxy.proxy_loopback = true;
    assert_eq!(value_of(&setup, "NO_PROXY").as_deref(), Some("<-loopback>"));
    assert!(value_of(&setup, "JAVA_TOOL_OPTIONS").unwrap().contains("-Dhttp.nonProxyHosts= "));
    setup.no_proxy.hosts = "localhost, .internal".into();
    assert_eq!(value_of(&setup, "no_proxy"), value_of(&setup, "NO_PROXY"));
    let java = value_of(&setup, "JAVA_TOOL_OPTIONS").unwrap();
    assert!(java.contains("-Dhttp.nonProxyHosts=localhost|*.internal "), "{java}");
}

#[test]
fn variables_name_the_bundle_or_the_authority() {
    let setup = setup("127.0.0.1:3128");
    for variable in variables(&setup) {
        if variable.value.starts_with("/state/") && variable.name != "WGETRC" {
            let file = if variable.who.contains("adds to") { "ca.pem" } else { "bundle.pem" };
            assert_eq!(variable.value, format!("/state/clients/{file}"), "{}", variable.name);
        }
    }
}

#[test]
fn without_interception_no_trust_is_changed() {
    let setup = ClientSetup { trust: None, ..setup("127.0.0.1:3128") };
    let trusting =
        variables(&setup).into_iter().filter(|variable| variable.value.contains("/state/"));
    // Where PHP finds the proxy, and no more.
    assert_eq!(trusting.map(|variable| variable.name).collect::<Vec<_>>(), ["PHP_INI_SCAN_DIR"]);
    assert_eq!(value_of(&setup, "SSL_CERT_FILE"), None);
}

#[test]
fn java_keeps_the_options_it_has_and_reads_ours_as_single_words() {
    let mut setup = setup("127.0.0.1:3128");
    setup.java_options = "-Xmx1g".into();
    setup.trust.as_mut().unwrap().java = Some("/my state/java.truststore".into());
    let java = value_of(&setup, "JAVA_TOOL_OPTIONS").unwrap();
    assert!(java.starts_with("-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 "), "{java}");
    assert!(java.contains(" \"-Djavax.net.ssl.trustStore=/my state/java.truststore\" "), "{java}");
}
