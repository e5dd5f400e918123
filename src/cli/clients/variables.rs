//! The environment variables that set a client up, by the table of clients, and what their values
//! are made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::trust_files::{self, TrustFiles, text};
use crate::ca::{TABLE, VariableKind, VariableRow};
use crate::cli::environment;

/// An environment variable to set.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    pub name: &'static str,
    pub value: String,
    /// The clients that honour it.
    pub who: &'static str,
}

/// The variables to set.
pub fn variables(setup: &ClientSetup) -> Vec<Variable> {
    let variable = |row: &'static VariableRow| {
        value(row.kind, setup).map(|value| Variable { name: &row.name, value, who: &row.who })
    };
    TABLE.variables.iter().filter_map(variable).collect()
}

/// The names of all variables that may be set.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.variables.iter().map(|row| &*row.name)
}

fn value(kind: VariableKind, setup: &ClientSetup) -> Option<String> {
    let file =
        |choose: fn(&TrustFiles) -> &PathBuf| setup.trust.as_ref().map(|trust| text(choose(trust)));
    match kind {
        VariableKind::Proxy => {
            let credentials =
                setup.credentials.as_ref().map(|it| format!("{it}@")).unwrap_or_default();
            Some(format!("http://{credentials}{}", reachable(setup.proxy)))
        }
        VariableKind::NoProxy => Some(setup.no_proxy.variable()),
        VariableKind::Yes => Some("1".into()),
        VariableKind::Authority => file(|trust| &trust.authority),
        VariableKind::Bundle => file(|trust| &trust.bundle),
        VariableKind::Wgetrc => file(|trust| &trust.wgetrc),
        VariableKind::PhpScanDir => {
            Some(setup.php_scan_dir.clone()).filter(|dirs| !dirs.is_empty())
        }
        VariableKind::JavaOptions => Some(java_options(setup)),
    }
}

fn java_options(setup: &ClientSetup) -> String {
    let proxy = reachable(setup.proxy);
    let mut options = vec![
        format!("-Dhttp.proxyHost={}", proxy.ip()),
        format!("-Dhttp.proxyPort={}", proxy.port()),
        format!("-Dhttps.proxyHost={}", proxy.ip()),
        format!("-Dhttps.proxyPort={}", proxy.port()),
        format!("-Dhttp.nonProxyHosts={}", setup.no_proxy.of_java()),
    ];
    if let Some(store) = setup.trust.as_ref().and_then(|trust| trust.java.as_deref()) {
        options.push(format!("-Djavax.net.ssl.trustStore={}", text(store)));
        options.push(format!("-Djavax.net.ssl.trustStorePassword={}", trust_files::PASSWORD));
    }
    let ours = options.iter().map(|option| java_word(option)).collect::<Vec<_>>().join(" ");
    format!("{} {ours}", setup.java_options).trim_start().to_owned()
}

/// Quotes one option. Java splits options at white space outside of quotes, and has no escapes.
fn java_word(option: &str) -> String {
    let quote = if option.contains('"') { '\'' } else { '"' };
    if option.contains([' ', '\t', '"', '\'']) {
        format!("{quote}{option}{quote}")
    } else {
        option.to_owned()
    }
}

/// The proxy that clients are to use, and the authorities that they are to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSetup {
    /// The address of the proxy's listener.
    pub proxy: SocketAddr,
    /// The client's `NAME:PASSWORD`, encoded for a URL.
    pub credentials: Option<String>,
    /// Hosts that clients contact directly.
    pub no_proxy: environment::NoProxy,
    /// `None` when HTTPS is not intercepted: there is no new authority to trust.
    pub trust: Option<TrustFiles>,
    /// Java options that are set already; those for the proxy follow them.
    pub java_options: String,
    /// The directories that PHP reads settings from, with the one for the proxy; empty without that.
    pub php_scan_dir: String,
}

/// The address at which clients of this machine reach a listener: loopback for one on all addresses.
pub fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A setup for this proxy.
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
        let setup =
            ClientSetup { credentials: Some("ada:a%3Ab".into()), ..setup("127.0.0.1:3128") };
        assert_eq!(
            value_of(&setup, "https_proxy").as_deref(),
            Some("http://ada:a%3Ab@127.0.0.1:3128")
        );
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
        assert_eq!(
            trusting.map(|variable| variable.name).collect::<Vec<_>>(),
            ["PHP_INI_SCAN_DIR"]
        );
        assert_eq!(value_of(&setup, "SSL_CERT_FILE"), None);
    }

    #[test]
    fn java_keeps_the_options_it_has_and_reads_ours_as_single_words() {
        let mut setup = setup("127.0.0.1:3128");
        setup.java_options = "-Xmx1g".into();
        setup.trust.as_mut().unwrap().java = Some("/my state/java.truststore".into());
        let java = value_of(&setup, "JAVA_TOOL_OPTIONS").unwrap();
        assert!(
            java.starts_with("-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 "),
            "{java}"
        );
        assert!(
            java.contains(" \"-Djavax.net.ssl.trustStore=/my state/java.truststore\" "),
            "{java}"
        );
    }
}
