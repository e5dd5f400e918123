//! The addresses of the proxy and its admin listener.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::address::ADMIN_PORT;
use crate::config::address::PROXY_PORT;
use crate::config::units;
use crate::config::values::AdminAddress;
use crate::proxy::{ListenerTls, ListenerTlsError};

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
