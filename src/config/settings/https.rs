//! Interception of HTTPS, and trust in the certificates of origins.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::units;
use crate::egress::Roots;
use crate::proxy::HttpsMode;
use crate::proxy::Mixed;
use crate::types::origin::Host;
use crate::types::origin::HostPattern;

/// `[https]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Https {
    pub mode: HttpsMode,
    /// Hosts that are tunnelled whatever the mode.
    pub tunnel: Vec<HostPattern>,
    /// How a mixed host is treated in `classify` mode.
    pub mixed: Mixed,
    /// The certificate of the operator's CA, PEM; absent: one is generated in the state directory.
    pub ca_cert: Option<PathBuf>,
    /// Its key; both are set or neither.
    pub ca_key: Option<PathBuf>,
    /// Leaf certificates in memory.
    #[serde(with = "units::non_zero")]
    pub leaf_cache: NonZeroUsize,
}

impl Default for Https {
    fn default() -> Self {
        Self {
            mode: HttpsMode::Intercept,
            tunnel: Vec::new(),
            mixed: Mixed::Refuse,
            ca_cert: None,
            ca_key: None,
            leaf_cache: NonZeroUsize::MIN.saturating_add(1023),
        }
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
