//! The configuration of egress at one moment: limits, permitted hosts and addresses, TLS.
//!
//! It can change while the proxy runs: code reads it at the time of use, and a kept connection is
//! checked against the current configuration before it is used again ([`Revalidation`]).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::parent::Parents;
use super::policy::{AddressPolicy, HostRules};
use super::tls::Tls;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::{Origin, Scheme};

/// The settings of egress; see `config/courtesy.toml` for their meaning and defaults.
#[derive(Clone, Debug)]
pub struct Config {
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
    pub body_idle_timeout: Duration,
    pub idle_timeout: Duration,
    pub max_idle: usize,
    /// DNS lookups under way at one time.
    pub max_lookups: usize,
    /// Connection attempts at one time, besides the first one of each request.
    pub max_attempts_beside: usize,
    pub max_header_bytes: usize,
    pub hosts: HostRules,
    /// Whether the proxy serves one command, `courtesy run`: a refusal then names its flags.
    pub under_run: bool,
}

/// The configuration at one moment.
pub struct ConfigSnapshot {
    pub config: Config,
    pub policy: AddressPolicy,
    pub tls: Tls,
    pub parents: Parents,
}

impl ConfigSnapshot {
    /// Whether a connection to `origin` at `peer`, made under `before`, could also have been made
    /// under this configuration.
    fn permits(&self, before: &Self, origin: &Origin, peer: IpAddr) -> bool {
        self.config.hosts.judge(origin.host()).is_ok()
            && self.policy.judge(SocketAddr::new(peer, origin.port())).is_ok()
            && self.parents.leads_as(&before.parents, origin.host())
            && (origin.scheme() != Scheme::Https || self.tls.trusts_as(&before.tls, origin.host()))
    }
}

impl fmt::Debug for ConfigSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSnapshot").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The peer of a connection, and the configuration under which the connection was last permitted.
#[derive(Debug)]
pub(super) struct Revalidation {
    peer: Option<IpAddr>,
    snapshot: Arc<ConfigSnapshot>,
    /// What its parent was sent, if it is a tunnel by one.
    loop_tokens: Option<LoopTokens>,
}

impl Revalidation {
    /// For a new connection.
    pub const fn new(peer: Option<IpAddr>, snapshot: Arc<ConfigSnapshot>) -> Self {
        Self { peer, snapshot, loop_tokens: None }
    }

    /// For a tunnel by a parent, which was sent `loop_tokens`.
    pub fn of_tunnel(self, loop_tokens: &LoopTokens) -> Self {
        Self { loop_tokens: Some(loop_tokens.clone()), ..self }
    }

    /// Whether it is for requests that came by the proxies of `loop_tokens`: a parent is not sent
    /// the tokens of a request that takes a tunnel of others, so that no loop would be recognised.
    pub fn is_for(&self, loop_tokens: &LoopTokens) -> bool {
        self.loop_tokens.as_ref().is_none_or(|own| own == loop_tokens)
    }

    /// Whether it is a tunnel that was opened with the loop tokens of other proxies.
    pub fn has_loop_tokens(&self) -> bool {
        self.loop_tokens.as_ref().is_some_and(|tokens| !tokens.is_empty())
    }

    /// The address of the peer.
    pub const fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The parent that a connection to `origin` goes by: scheme, host and port.
    pub fn via(&self, origin: &Origin) -> Option<String> {
        self.snapshot.parents.of(origin.host()).map(|parent| parent.address.to_string())
    }

    /// The settings under which the connection was last permitted.
    pub fn config(&self) -> &Config {
        &self.snapshot.config
    }

    /// Checks whether the connection, which leads to `origin`, may be used under `current`. When
    /// the configuration has not changed, this costs one comparison of pointers.
    pub fn revalidate(&mut self, origin: &Origin, current: &Arc<ConfigSnapshot>) -> bool {
        if Arc::ptr_eq(&self.snapshot, current) {
            return true;
        }
        let is_permitted =
            self.peer.is_some_and(|peer| current.permits(&self.snapshot, origin, peer));
        if is_permitted {
            self.snapshot = Arc::clone(current);
        }
        is_permitted
    }
}
