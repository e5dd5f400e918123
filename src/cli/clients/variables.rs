//! The environment variables that set a client up: one table, with the clients that honour each.

use std::path::PathBuf;

use Kind::{Authority, Bundle, JavaOptions, NoProxy, PhpScanDir, Proxy, Wgetrc, Yes};

use super::setup::{ClientSetup, TrustFiles, reachable, text};
use super::trust_files;

/// An environment variable to set.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    pub name: &'static str,
    pub value: String,
    /// The clients that honour it.
    pub who: &'static str,
}

/// The kind of a variable's value.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Proxy,
    NoProxy,
    Yes,
    Authority,
    Bundle,
    Wgetrc,
    JavaOptions,
    PhpScanDir,
}

/// Each variable with its kind and the clients that honour it. Proxy variables stand in both cases:
/// which one a client reads, and which wins, differs between clients.
const TABLE: [(&str, Kind, &str); 30] = [
    (
        "http_proxy",
        Proxy,
        "curl and wget, which do not read HTTP_PROXY (a CGI client could set it: httpoxy)",
    ),
    ("HTTP_PROXY", Proxy, "Python, Go, Ruby, reqwest, axios, and most others"),
    ("https_proxy", Proxy, "curl, wget, and all that read HTTPS_PROXY"),
    (
        "HTTPS_PROXY",
        Proxy,
        "Python, Go, Ruby, reqwest, axios, and most others; the proxy itself speaks HTTP",
    ),
    ("all_proxy", Proxy, "curl, Python requests, reqwest"),
    ("ALL_PROXY", Proxy, "curl, Python requests, reqwest"),
    ("no_proxy", NoProxy, "all of the above; an inherited list would lead around the proxy"),
    ("NO_PROXY", NoProxy, "all of the above; an inherited list would lead around the proxy"),
    ("NODE_USE_ENV_PROXY", Yes, "Node from 22.21 and 24 on; older ones follow no variable"),
    ("PERL_LWP_ENV_PROXY", Yes, "Perl's LWP; without it, LWP follows no variable"),
    ("MOJO_PROXY", Yes, "Perl's Mojo::UserAgent; without it, Mojo follows no variable"),
    (
        "SSL_CERT_FILE",
        Bundle,
        "OpenSSL, Go, Ruby, httpx, aiohttp, urllib, reqwest; replaces the system's",
    ),
    ("CURL_CA_BUNDLE", Bundle, "curl, curl_cffi; replaces the system's"),
    ("REQUESTS_CA_BUNDLE", Bundle, "Python requests; replaces the system's"),
    ("PIP_CERT", Bundle, "pip; replaces its own"),
    ("HTTPLIB2_CA_CERTS", Bundle, "Python httplib2; replaces its own"),
    ("AWS_CA_BUNDLE", Bundle, "AWS tools and SDKs; replaces their own"),
    ("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", Bundle, "Google Cloud tools; replaces their own"),
    ("GIT_SSL_CAINFO", Bundle, "git; replaces the system's"),
    ("CARGO_HTTP_CAINFO", Bundle, "cargo; replaces the system's"),
    ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", Bundle, "gRPC; replaces its own"),
    ("NIX_SSL_CERT_FILE", Bundle, "programs from Nix; replaces the system's"),
    ("PERL_LWP_SSL_CA_FILE", Bundle, "Perl's LWP; replaces its own"),
    ("MOJO_CA_FILE", Bundle, "Perl's Mojo::UserAgent; replaces the system's"),
    ("NPM_CONFIG_CAFILE", Bundle, "npm; replaces its own, and what an npmrc names"),
    ("NODE_EXTRA_CA_CERTS", Authority, "Node and Bun; adds to their own"),
    ("DENO_CERT", Authority, "Deno; adds to its own"),
    ("WGETRC", Wgetrc, "wget, which trusts what its settings name; yours are in the file, too"),
    (
        "PHP_INI_SCAN_DIR",
        PhpScanDir,
        "PHP: its streams follow the proxy, its curl and streams trust the bundle",
    ),
    (
        "JAVA_TOOL_OPTIONS",
        JavaOptions,
        "every Java virtual machine; Java follows no other variable",
    ),
];

/// The variables to set.
pub fn variables(setup: &ClientSetup) -> Vec<Variable> {
    let variable = |&(name, kind, who): &(&'static str, Kind, &'static str)| {
        value(kind, setup).map(|value| Variable { name, value, who })
    };
    TABLE.iter().filter_map(variable).collect()
}

/// The names of all variables that may be set.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _, _)| *name)
}

fn value(kind: Kind, setup: &ClientSetup) -> Option<String> {
    let file =
        |choose: fn(&TrustFiles) -> &PathBuf| setup.trust.as_ref().map(|trust| text(choose(trust)));
    match kind {
        Proxy => {
            let credentials =
                setup.credentials.as_ref().map(|it| format!("{it}@")).unwrap_or_default();
            Some(format!("http://{credentials}{}", reachable(setup.proxy)))
        }
        NoProxy => Some(setup.no_proxy.variable()),
        Yes => Some("1".into()),
        Authority => file(|trust| &trust.authority),
        Bundle => file(|trust| &trust.bundle),
        Wgetrc => file(|trust| &trust.wgetrc),
        PhpScanDir => Some(setup.php_scan_dir.clone()),
        JavaOptions => Some(java_options(setup)),
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
