//! The engine through which several proxies act as one.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::engine_url::EngineUrl;
use crate::config::units;
use crate::engine::ServerUrl;
use crate::pace::Away;

/// `[engine]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Engine {
    /// The server, the nodes of a cluster, or sentinels; absent, and no file: no engine.
    pub url: Option<EngineUrl>,
    /// A file with that, which may have a password.
    pub url_file: Option<PathBuf>,
    /// The user of the server.
    pub user: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// The authorities that servers are verified by; absent: those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate of this client, and its key.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name of the primary; the URLs are those of sentinels then.
    pub sentinel: Option<String>,
    /// Whether the servers are nodes of a cluster.
    pub cluster: bool,
    /// Proxies with the same one share.
    pub prefix: String,
    /// The name of this proxy among them; absent: that of the host, and four letters.
    pub name: Option<String>,
    /// Whether robots.txt files are shared.
    pub share_policies: bool,
    /// Whether the pace is shared.
    pub share_pace: bool,
    /// The longest time of an operation.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// The longest time to connect.
    #[serde(with = "units::duration")]
    pub connect_timeout: Duration,
    /// Whether the proxy is not ready before the engine has been reached.
    pub required: bool,
    /// What the pace is while the engine is away.
    pub away: Away,
    /// The parts of the pace then, of which one is taken; 0: as many as there were proxies.
    pub share: u32,
    /// How long what is known of an origin is kept after its last change.
    #[serde(with = "units::duration")]
    pub keep: Duration,
    /// A key that seals what is known, for engines that others can write to.
    pub seal_key_file: Option<PathBuf>,
}

/// What to do about several servers of which the settings do not say what they are.
pub const SEVERAL_SERVERS_HINT: &str = "nodes of one cluster need engine.cluster = true, sentinels \
     need engine.sentinel = \"NAME\", the name of the primary; otherwise name one server";

impl Engine {
    /// Why so many servers cannot be used: they are neither nodes of a cluster nor sentinels, and
    /// all but the first would be ignored.
    pub fn several_servers(&self, servers: &[ServerUrl]) -> Option<String> {
        (servers.len() > 1 && !self.cluster && self.sentinel.is_none()).then(|| {
            format!("{} servers, and neither engine.cluster nor engine.sentinel", servers.len())
        })
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            user: None,
            password_file: None,
            ca: None,
            cert: None,
            key: None,
            sentinel: None,
            cluster: false,
            prefix: "courtesy".into(),
            name: None,
            share_policies: true,
            share_pace: true,
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            required: false,
            away: Away::Share,
            share: 0,
            keep: Duration::from_hours(45 * 24),
            seal_key_file: None,
        }
    }
}
