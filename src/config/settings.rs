//! The schema of the settings. `config/courtesy.toml` documents each for operators; a test keeps
//! the two equal. Values are parsed types, which need not be checked again. Each section has its
//! settings and their defaults in one file.

mod admin;
mod agents;
mod audit;
mod clients;
mod deny;
mod egress;
mod engine;
mod https;
mod limits;
mod listen;
mod log;
mod pace;
mod robots;
mod store;
mod tls;
mod watch;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use admin::Admin;
pub use agents::Agents;
pub use audit::Audit;
pub use clients::Clients;
pub use deny::Deny;
pub use egress::Egress;
pub use engine::{Engine, SEVERAL_SERVERS_HINT};
pub use https::Https;
pub use limits::Limits;
pub use listen::Listen;
pub use log::Log;
pub use pace::Pace;
pub use robots::{Knobs, Outage, Robots};
pub(super) use robots::{apply_knobs, fill_knobs};
pub use store::Store;
pub use tls::Tls;
pub use watch::Watch;

use super::rules::{Exemption, OriginRule};
use super::units;

/// All settings, effective and checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The state directory. Filled in by loading when not set.
    pub state_dir: PathBuf,
    /// Threads that serve requests; absent: one per processor core.
    #[serde(with = "units::count_option")]
    pub workers: Option<usize>,
    pub listen: Listen,
    pub admin: Admin,
    pub clients: Clients,
    pub agents: Agents,
    pub robots: Robots,
    pub origins: Vec<OriginRule>,
    pub outage: Outage,
    pub exemptions: Vec<Exemption>,
    pub pace: Pace,
    pub engine: Engine,
    pub deny: Deny,
    pub https: Https,
    pub tls: Tls,
    pub egress: Egress,
    pub audit: Audit,
    pub store: Store,
    pub watch: Watch,
    pub limits: Limits,
    pub log: Log,
    /// Whether this is the proxy of `courtesy run`, whose flags the remedies then name. Not a
    /// setting of files.
    #[serde(skip)]
    pub under_run: bool,
}

impl Settings {
    /// The files that settings name and a reload reads again, by the names of the settings: a change
    /// of one is a reload. The CA is not among them: [`crate::ca::Source`] says where it is.
    pub fn named_files(&self) -> Vec<(&'static str, &Path)> {
        let Self { listen, admin, clients, engine, egress, tls, .. } = self;
        let single = [
            ("listen.tls_cert", &listen.tls_cert),
            ("listen.tls_key", &listen.tls_key),
            ("admin.token_file", &admin.token_file),
            ("clients.users_file", &clients.users_file),
            ("engine.url_file", &engine.url_file),
            ("engine.password_file", &engine.password_file),
            ("engine.ca", &engine.ca),
            ("engine.cert", &engine.cert),
            ("engine.key", &engine.key),
            ("engine.seal_key_file", &engine.seal_key_file),
            ("egress.parent_credentials_file", &egress.parent_credentials_file),
        ];
        let single = single.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?)));
        single.chain(tls.extra_roots.iter().map(|file| ("tls.extra_roots", &**file))).collect()
    }
}
