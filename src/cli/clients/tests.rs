use super::*;

pub fn way(proxy: &str) -> Way {
    let file = |name: &str| PathBuf::from("/state/clients").join(name);
    let trust = Trust {
        authority: file("ca.pem"),
        bundle: file("bundle.pem"),
        wgetrc: file("wgetrc"),
        java: Some(file("java.truststore")),
    };
    Way {
        credentials: None,
        proxy: proxy.parse().unwrap(),
        no_proxy: no_proxy::NoProxy::default(),
        trust: Some(trust),
        java_options: String::new(),
        php_scan_dir: ":/state/clients/php".into(),
    }
}

fn value_of(way: &Way, name: &str) -> Option<String> {
    variables(way).into_iter().find(|variable| variable.name == name).map(|variable| variable.value)
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
            assert_eq!(value_of(&way(listener), name).as_deref(), Some(url), "{name}");
        }
    }
}

#[test]
fn credentials_stand_before_the_address() {
    let way = Way { credentials: Some("ada:a%3Ab".into()), ..way("127.0.0.1:3128") };
    assert_eq!(value_of(&way, "https_proxy").as_deref(), Some("http://ada:a%3Ab@127.0.0.1:3128"));
    assert!(!value_of(&way, "JAVA_TOOL_OPTIONS").unwrap().contains("ada"));
}

#[test]
fn nothing_goes_around_the_proxy_unless_asked_to() {
    let mut way = way("127.0.0.1:3128");
    way.no_proxy.proxy_loopback = true;
    assert_eq!(value_of(&way, "NO_PROXY").as_deref(), Some("<-loopback>"));
    assert!(value_of(&way, "JAVA_TOOL_OPTIONS").unwrap().contains("-Dhttp.nonProxyHosts= "));
    way.no_proxy.hosts = "localhost, .internal".into();
    assert_eq!(value_of(&way, "no_proxy"), value_of(&way, "NO_PROXY"));
    let java = value_of(&way, "JAVA_TOOL_OPTIONS").unwrap();
    assert!(java.contains("-Dhttp.nonProxyHosts=localhost|*.internal "), "{java}");
}

#[test]
fn what_replaces_gets_the_bundle_and_what_adds_gets_our_authority() {
    let way = way("127.0.0.1:3128");
    for variable in variables(&way) {
        if variable.value.starts_with("/state/") && variable.name != "WGETRC" {
            let file = if variable.who.contains("adds to") { "ca.pem" } else { "bundle.pem" };
            assert_eq!(variable.value, format!("/state/clients/{file}"), "{}", variable.name);
        }
    }
}

#[test]
fn without_interception_no_trust_is_changed() {
    let way = Way { trust: None, ..way("127.0.0.1:3128") };
    let trusting =
        variables(&way).into_iter().filter(|variable| variable.value.contains("/state/"));
    // Where PHP finds the proxy, and no more.
    assert_eq!(trusting.map(|variable| variable.name).collect::<Vec<_>>(), ["PHP_INI_SCAN_DIR"]);
    assert_eq!(value_of(&way, "SSL_CERT_FILE"), None);
}

#[test]
fn java_keeps_the_options_it_has_and_reads_ours_as_single_words() {
    let mut way = way("127.0.0.1:3128");
    way.java_options = "-Xmx1g".into();
    way.trust.as_mut().unwrap().java = Some("/my state/java.truststore".into());
    let java = value_of(&way, "JAVA_TOOL_OPTIONS").unwrap();
    assert!(java.starts_with("-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 "), "{java}");
    assert!(java.contains(" \"-Djavax.net.ssl.trustStore=/my state/java.truststore\" "), "{java}");
}
