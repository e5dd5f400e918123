//! Connections to origins.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clients::Limits;
use crate::config::limits::{ATTEMPTS_BESIDE_MAX, LOOKUPS_MAX};
use crate::config::units::{self, bytes};
use crate::config::values::EngineUrl;
use crate::egress::{
    self, AddressBlock, ParentAddress, ParentCredentials, ParentCredentialsError, ParentHttp,
    ParentResolve, ParentRule, Parents,
};
use crate::pace::Away;
use crate::proxy::UpgradeProtocol;
use crate::types::origin::HostPattern;

/// `[egress]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Special-purpose blocks that are permitted, at every port or at one.
    pub allow: Vec<AddressBlock>,
    /// Blocks that may not be reached; wins over `allow`.
    pub deny: Vec<AddressBlock>,
    /// The hosts that may be asked for; none: all.
    pub allow_hosts: Vec<HostPattern>,
    /// Hosts that may not be asked for; wins over `allow_hosts`.
    pub deny_hosts: Vec<HostPattern>,
    /// For a connection, TLS included.
    #[serde(with = "units::duration")]
    pub connect_timeout: Duration,
    /// Until the head of the answer.
    #[serde(with = "units::duration")]
    pub response_timeout: Duration,
    /// How long an unused connection to an origin is kept.
    #[serde(with = "units::duration")]
    pub idle_timeout: Duration,
    /// Requests under way to one origin, paced or not: what `pace.concurrency` bounds where requests are
    /// paced, is bounded by this where they are not. No setting; tests lower it.
    #[serde(skip)]
    pub max_per_origin: usize,
    /// The ports of CONNECT.
    pub connect_ports: Vec<u16>,
    /// The protocols that a request may upgrade to (RFC 9110 §7.8).
    pub upgrades: Vec<UpgradeProtocol>,
    /// The parent proxy for hosts that `parents` does not name; absent: connections are direct.
    pub parent: Option<ParentAddress>,
    /// Hosts with another parent, or none; the first that matches.
    pub parents: Vec<ParentRule>,
    /// A file with the name and password for `parent`.
    pub parent_credentials_file: Option<PathBuf>,
    /// Where the names of origins are resolved.
    pub parent_resolve: ParentResolve,
    /// How `http://` origins are asked for by a parent that speaks HTTP.
    pub parent_http: ParentHttp,
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            allow_hosts: Vec::new(),
            deny_hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_secs(30),
            max_per_origin: 256,
            connect_ports: vec![80, 443],
            upgrades: vec![UpgradeProtocol::websocket()],
            parent: None,
            parents: Vec::new(),
            parent_credentials_file: None,
            parent_resolve: ParentResolve::Check,
            parent_http: ParentHttp::Connect,
        }
    }
}

impl Egress {
    /// The configuration of the egress, whose messages have the bounds of `limits`.
    pub fn build(&self, limits: &Limits, under_run: bool) -> egress::Config {
        egress::Config {
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            body_idle_timeout: limits.body_idle_timeout,
            idle_timeout: self.idle_timeout,
            max_lookups: LOOKUPS_MAX,
            max_attempts_beside: ATTEMPTS_BESIDE_MAX,
            max_header_bytes: bytes(limits.max_header_bytes),
            under_run,
            hosts: egress::HostRules {
                allow: self.allow_hosts.clone(),
                deny: self.deny_hosts.clone(),
            },
        }
    }

    /// The parent proxies. Reads the name and password from their file.
    pub fn parents(&self) -> Result<Parents, ParentCredentialsError> {
        let credentials = self.parent_credentials_file.as_deref();
        let credentials = credentials.map(ParentCredentials::read).transpose()?;
        let (parent, rules) = (self.parent.clone(), self.parents.clone());
        let mut parents = Parents::new(parent, rules, credentials.as_ref(), self.parent_resolve);
        parents.http = self.parent_http;
        Ok(parents)
    }
}

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
    /// Proxies with the same one share.
    pub prefix: String,
    /// The name of this proxy among them; absent: that of the host, and four letters.
    pub name: Option<String>,
    /// The longest time of an operation.
    #[serde(with = "units::duration")]
    pub timeout: Duration,
    /// How many proxies there are, for one that starts while the engine is away and knows no rank; 0: it
    /// starts nothing with a delay before it has reached the engine.
    pub share: u32,
    /// Whether the proxy is not ready before the engine has been reached.
    pub required: bool,
    /// What the pace is while the engine is away.
    pub away: Away,
    /// A key that seals what is known, for engines that others can write to.
    pub seal_key_file: Option<PathBuf>,
}

impl Engine {
    /// Whether there is one.
    pub const fn is_set(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
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
            prefix: "courtesy".into(),
            name: None,
            timeout: Duration::from_millis(50),
            required: false,
            away: Away::Share,
            share: 0,
            seal_key_file: None,
        }
    }
}
