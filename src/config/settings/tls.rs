//! The certificates of origins.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::units;
use crate::egress::Roots;
use crate::types::origin::Host;

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
