//! Interception of HTTPS.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ca;
use crate::config::units;
use crate::proxy::{self, HttpsMode, MixedHosts};
use crate::types::origin::HostPattern;

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
    /// Leaf certificates in memory.
    #[serde(with = "units::non_zero")]
    pub leaf_cache: NonZeroUsize,
}

impl Default for Https {
    fn default() -> Self {
        Self {
            mode: HttpsMode::Intercept,
            tunnel: Vec::new(),
            mixed: MixedHosts::Refuse,
            ca_cert: None,
            ca_key: None,
            leaf_cache: NonZeroUsize::MIN.saturating_add(1023),
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
