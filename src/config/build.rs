//! The configuration of each module, made of the settings. Each section builds its own part
//! (`build/`, `settings/`); the functions here put the parts together.

mod rules;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::names::NodeName;
use super::settings::Settings;
use super::units::bytes;
use crate::clients::UsersError;
use crate::store::fetch;
use crate::{audit, ca, clients, egress, pace, proxy, store};

impl Settings {
    /// How a robots.txt is fetched.
    pub fn fetch(&self) -> fetch::Config {
        self.robots.fetch()
    }

    /// When requests go to an origin.
    pub fn pace(&self) -> pace::Config {
        pace::Config {
            max_exchanges: self.egress.max_per_origin,
            drain_timeout: self.limits.drain_timeout,
            away: self.engine.away,
            share: self.engine.share,
            ..self.pace.build(self.robots.mode, &self.origins)
        }
    }

    /// The bounds of the store.
    pub fn store(&self) -> store::Config {
        self.robots.store()
    }

    /// The store on disk, if it is enabled.
    pub fn disk(&self) -> Option<store::disk::Config> {
        self.store.build(&self.state_dir, self.store_pending_max())
    }

    /// Bytes of the write queue to the store, in proportion to the memory of the store.
    pub fn store_pending_max(&self) -> usize {
        self.robots.store_pending_max()
    }

    /// The directory of the denial records.
    pub fn audit_dir(&self) -> PathBuf {
        self.audit.dir(&self.state_dir)
    }

    /// The configuration of the log of denials.
    pub fn audit(&self) -> audit::Config {
        let node = Some(self.node().as_str().into());
        audit::Config { node, ..self.audit.build(&self.state_dir) }
    }

    /// The name of this proxy in its records: `audit.node`, else `engine.name`, else the host's.
    pub fn node(&self) -> NodeName {
        let of_engine = || self.engine.name.as_deref()?.parse().ok();
        self.audit.node.clone().or_else(of_engine).unwrap_or_else(NodeName::of_host)
    }

    /// The location of the CA: the operator's as set, else that of systemd in the directory
    /// `credentials`, else the generated one in the state directory.
    pub fn ca(&self, credentials: Option<&Path>) -> ca::Source {
        self.https.ca(&self.state_dir, credentials)
    }

    /// How many leaf certificates are kept.
    pub fn leaves_max(&self) -> NonZeroUsize {
        self.https.leaf_cache
    }

    /// The configuration of the egress.
    pub fn egress(&self) -> egress::Config {
        self.egress.build(&self.limits, self.under_run)
    }

    /// The proxy's name in `Via`, with the mark by which this process finds itself.
    pub fn via(&self, mark: &str) -> proxy::Via {
        self.egress.via(mark)
    }

    /// How CONNECT is handled.
    pub fn https(&self) -> proxy::Https {
        self.https.build(&self.egress.connect_ports, self.under_run)
    }

    /// The bounds of a client's connection.
    pub fn limits(&self) -> proxy::Limits {
        self.limits.build()
    }

    /// The clients that are permitted. Reads the users from their file.
    pub fn clients(&self) -> Result<clients::Clients, UsersError> {
        self.clients.build()
    }

    /// Bytes that all requests in flight may hold.
    pub fn body_memory(&self) -> usize {
        bytes(self.limits.body_memory)
    }
}
