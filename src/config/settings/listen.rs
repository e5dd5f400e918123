//! The addresses of the proxy and its admin listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ca;
use crate::config::units;
use crate::config::values::{
    ADMIN_PORT, AdminAddress, BrowserOrigin, ConsoleAccess, LogFormat, LogLevel, PROXY_PORT,
};
use crate::egress::Roots;
use crate::proxy::{self, HttpsMode, ListenerTls, ListenerTlsError, MixedHosts};
use crate::types::origin::{Host, HostPattern};

/// `[listen]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// The addresses on which the proxy listens.
    #[serde(with = "units::listen")]
    pub proxy: Vec<SocketAddr>,
    /// The addresses to which the network redirects connections to origins.
    #[serde(with = "units::listen")]
    pub transparent: Vec<SocketAddr>,
    /// The address of health and metrics.
    pub admin: AdminAddress,
    /// TLS is served on the proxy's addresses, beside what is in clear.
    pub tls: bool,
    /// The certificate of that TLS, with its chain; absent: of the local CA.
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate.
    pub tls_key: Option<PathBuf>,
}

impl Listen {
    /// TLS between clients and the proxy itself. Reads the certificate and the key from their files.
    pub fn tls(&self) -> Result<ListenerTls, ListenerTlsError> {
        match (&self.tls_cert, &self.tls_key) {
            _ if !self.tls => Ok(ListenerTls::Off),
            (Some(certificate), Some(key)) => ListenerTls::read(certificate, key),
            _ => Ok(ListenerTls::Leaf),
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            proxy: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT))],
            transparent: Vec::new(),
            admin: AdminAddress::default(),
            tls: false,
            tls_cert: None,
            tls_key: None,
        }
    }
}

impl Default for AdminAddress {
    fn default() -> Self {
        Self::At(SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)))
    }
}

/// `[tls]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    pub roots: Roots,
    /// Files of further certificate authorities, PEM.
    pub extra_roots: Vec<PathBuf>,
    /// Hosts whose certificates are not verified.
    #[serde(with = "units::hosts")]
    pub insecure_origins: Vec<Host>,
}

impl Default for Tls {
    fn default() -> Self {
        Self { roots: Roots::System, extra_roots: Vec::new(), insecure_origins: Vec::new() }
    }
}

/// `[https]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Https {
    pub mode: HttpsMode,
    /// Hosts that are tunnelled whatever the mode.
    pub tunnel: Vec<HostPattern>,
    /// How a mixed host is treated in `classify` mode.
    pub mixed: MixedHosts,
    /// The certificate of the operator's CA, PEM; absent: one is generated in the state directory.
    pub ca_cert: Option<PathBuf>,
    /// Its key; both are set or neither.
    pub ca_key: Option<PathBuf>,
}

impl Default for Https {
    fn default() -> Self {
        Self {
            mode: HttpsMode::Intercept,
            tunnel: Vec::new(),
            mixed: MixedHosts::Refuse,
            ca_cert: None,
            ca_key: None,
        }
    }
}

impl Https {
    /// The location of the CA: the operator's as set, else that of systemd in the directory
    /// `credentials`, else the generated one in `state_dir`.
    pub fn ca(&self, state_dir: &Path, credentials: Option<&Path>) -> ca::Source {
        if let (Some(certificate), Some(key)) = (&self.ca_cert, &self.ca_key) {
            return ca::Source::Files { certificate: certificate.clone(), key: key.clone() };
        }
        let handed_over = credentials.map(|dir| (dir.join("ca.crt"), dir.join("ca.key")));
        match handed_over.filter(|(certificate, key)| certificate.exists() || key.exists()) {
            Some((certificate, key)) => ca::Source::Credentials { certificate, key },
            None => ca::Source::Own(state_dir.join("ca")),
        }
    }

    /// How CONNECT is handled, to these `ports`.
    pub fn build(&self, ports: &[u16], under_run: bool) -> proxy::Https {
        proxy::Https {
            mode: self.mode,
            tunnel: self.tunnel.clone(),
            mixed: self.mixed,
            ports: ports.to_vec(),
            under_run,
        }
    }
}

/// `[admin]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// A file with the token that requests need; absent: none is required.
    pub token_file: Option<PathBuf>,
    /// Whether the admin listener has the pages of the console, and for whom.
    pub console: ConsoleAccess,
    /// The origins by which browsers reach the admin listener, beside those of this machine.
    pub origins: Vec<BrowserOrigin>,
    /// A file with the token of those who may see the console, but nothing of persons, and do nothing.
    pub viewer_token_file: Option<PathBuf>,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info }
    }
}
