//! The addresses of the proxy and its admin listener.

use std::net::Ipv4Addr;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::config::address::ADMIN_PORT;
use crate::config::address::PROXY_PORT;
use crate::config::units;
use crate::config::values::AdminAddress;

/// `[listen]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// The addresses on which the proxy listens.
    #[serde(with = "units::listen")]
    pub proxy: Vec<SocketAddr>,
    /// The address of health and metrics.
    pub admin: AdminAddress,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            proxy: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT))],
            admin: AdminAddress::default(),
        }
    }
}

impl Default for AdminAddress {
    fn default() -> Self {
        Self::At(SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)))
    }
}
