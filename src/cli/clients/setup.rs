//! What a client needs to use the proxy: its address, and the files of trust.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::cli::environment;

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
    /// The directories that PHP reads settings from, with the one for the proxy.
    pub php_scan_dir: String,
}

/// The files that make clients trust the proxy's certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustFiles {
    /// The proxy's authority alone, for variables that add to what the client trusts.
    pub authority: PathBuf,
    /// The system's authorities and the proxy's, for variables that replace what the client trusts.
    pub bundle: PathBuf,
    /// Settings for wget, which takes its authorities from no variable.
    pub wgetrc: PathBuf,
    /// A Java trust store; `None` without a `keytool` to make one.
    pub java: Option<PathBuf>,
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

/// A path as text for a variable.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
