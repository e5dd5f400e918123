//! What a client must be told to use the proxy and to trust it: one table of environment variables,
//! each with who honours it. A pure function of where the proxy is and where the files of trust
//! are; [`here`] finds that out, [`trust`] writes those files, [`print`] says the variables to shells
//! and programs.
//!
//! No variable works everywhere, and some clients follow none: `courtesy doctor` tries them.

mod here;
mod java;
mod php;
pub mod print;
pub mod trust;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::no_proxy;
pub use here::way;

/// Where clients are to be sent, and whom they are to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub proxy: SocketAddr,
    /// What a client says who it is, `NAME:PASSWORD` as it can stand in a URL.
    pub credentials: Option<String>,
    /// Hosts to go to directly.
    pub no_proxy: no_proxy::NoProxy,
    /// `None`: HTTPS is not intercepted, so there is nobody new to trust.
    pub trust: Option<Trust>,
    /// Options for Java that are in effect already; ours come after them.
    pub java_options: String,
    /// The directories that PHP reads settings from, with ours.
    pub php_scan_dir: String,
}

/// The files by which clients trust our certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Our authority alone, for variables that add to what the client trusts already.
    pub authority: PathBuf,
    /// The system's authorities and ours, for variables that replace.
    pub bundle: PathBuf,
    /// For wget, which takes its authorities from no variable, only from its settings.
    pub wgetrc: PathBuf,
    /// A Java trust store; `None` where there is no `keytool` to make one.
    pub java: Option<PathBuf>,
}

/// A variable to set.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    pub name: &'static str,
    pub value: String,
    /// Who honours it.
    pub who: &'static str,
}

/// What a variable's value is made of.
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

use Kind::{Authority, Bundle, JavaOptions, NoProxy, PhpScanDir, Proxy, Wgetrc, Yes};

/// Names of proxies in both cases: who reads which, and which wins, differs from client to client.
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

/// What to set.
pub fn variables(way: &Way) -> Vec<Variable> {
    let variable = |&(name, kind, who): &(&'static str, Kind, &'static str)| {
        value(kind, way).map(|value| Variable { name, value, who })
    };
    TABLE.iter().filter_map(variable).collect()
}

fn value(kind: Kind, way: &Way) -> Option<String> {
    let file = |choose: fn(&Trust) -> &PathBuf| way.trust.as_ref().map(|trust| text(choose(trust)));
    match kind {
        Proxy => {
            let credentials =
                way.credentials.as_ref().map(|it| format!("{it}@")).unwrap_or_default();
            Some(format!("http://{credentials}{}", reachable(way.proxy)))
        }
        NoProxy => Some(way.no_proxy.variable()),
        Yes => Some("1".into()),
        Authority => file(|trust| &trust.authority),
        Bundle => file(|trust| &trust.bundle),
        Wgetrc => file(|trust| &trust.wgetrc),
        PhpScanDir => Some(way.php_scan_dir.clone()),
        JavaOptions => Some(java_options(way)),
    }
}

fn java_options(way: &Way) -> String {
    let proxy = reachable(way.proxy);
    let mut options = vec![
        format!("-Dhttp.proxyHost={}", proxy.ip()),
        format!("-Dhttp.proxyPort={}", proxy.port()),
        format!("-Dhttps.proxyHost={}", proxy.ip()),
        format!("-Dhttps.proxyPort={}", proxy.port()),
        format!("-Dhttp.nonProxyHosts={}", way.no_proxy.of_java()),
    ];
    if let Some(store) = way.trust.as_ref().and_then(|trust| trust.java.as_deref()) {
        options.push(format!("-Djavax.net.ssl.trustStore={}", text(store)));
        options.push(format!("-Djavax.net.ssl.trustStorePassword={}", java::PASSWORD));
    }
    let ours = options.iter().map(|option| java_word(option)).collect::<Vec<_>>().join(" ");
    format!("{} {ours}", way.java_options).trim_start().to_owned()
}

/// One option among others: Java parts them at white space outside quotes, and knows no escapes.
fn java_word(option: &str) -> String {
    let quote = if option.contains('"') { '\'' } else { '"' };
    if option.contains([' ', '\t', '"', '\'']) {
        format!("{quote}{option}{quote}")
    } else {
        option.to_owned()
    }
}

/// Where clients of this machine find a listener: one on all addresses is on loopback, too.
pub fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
