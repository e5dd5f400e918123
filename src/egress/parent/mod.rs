//! Parent proxies: connections to origins are made through another proxy, by CONNECT of HTTP (RFC
//! 9110 §9.3.6), in clear or inside TLS, or by SOCKS5 (RFC 1928). What a parent answers is never
//! taken for the origin's answer, and nothing falls back to a direct connection.

mod address;
mod connect;
mod credentials;
mod socks;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tracing::{info, warn};

pub use address::{ParentAddress, ParentRule, ParentScheme};
pub use credentials::{ParentCredentials, ParentCredentialsError};
pub use target::ParentTarget;

use super::error::{Error, Failure};
use crate::types::origin::Host;
use crate::types::words::words;

words! {
    /// Where the names of origins are resolved when a parent makes the connection.
    #[derive(Default)]
    pub enum ParentResolve {
        /// Here, and the addresses are judged; the parent is given the name and resolves it again.
        #[default]
        Check = "check",
        /// Here, and the parent is given the address that was judged.
        Pin = "pin",
        /// By the parent alone: only addresses that a client names are judged.
        Parent = "parent",
    }
}

/// Which parent makes the connections to which hosts.
#[derive(Clone, Debug, Default)]
pub struct Parents {
    rules: Vec<(ParentRule, Option<Arc<Parent>>)>,
    default: Option<Arc<Parent>>,
    pub resolve: ParentResolve,
}

/// A parent proxy.
#[derive(Debug)]
pub struct Parent {
    pub address: ParentAddress,
    credentials: Option<ParentCredentials>,
    /// Whether the last attempt failed.
    is_down: AtomicBool,
    failures: AtomicU64,
}

/// A parent's state, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentStats {
    /// Scheme, host and port.
    pub parent: String,
    /// Whether the last attempt succeeded; true before the first.
    pub is_up: bool,
    /// Attempts that failed.
    pub failures: u64,
}

impl Parents {
    /// `default` for the hosts that no rule has. `credentials` are those of the default, and of
    /// rules that name the same.
    pub fn new(
        default: Option<ParentAddress>,
        rules: Vec<ParentRule>,
        credentials: Option<&ParentCredentials>,
        resolve: ParentResolve,
    ) -> Self {
        let mut known: Vec<Arc<Parent>> = Vec::new();
        let mut parent = |address: &ParentAddress| {
            if let Some(same) = known.iter().find(|it| it.address == *address) {
                return Arc::clone(same);
            }
            let credentials = credentials.filter(|_| Some(address) == default.as_ref()).cloned();
            let made = Arc::new(Parent::new(address.clone(), credentials));
            known.push(Arc::clone(&made));
            made
        };
        let of_hosts = rules.into_iter().map(|rule| {
            let made = rule.parent.as_ref().map(&mut parent);
            (rule, made)
        });
        let rules = of_hosts.collect();
        let default = default.as_ref().map(parent);
        Self { rules, default, resolve }
    }

    /// The parent for `host`: of the first rule that has it. `None`: the connection is direct.
    pub fn of(&self, host: &Host) -> Option<&Arc<Parent>> {
        let rule = self.rules.iter().find(|(rule, _)| rule.host.matches(host));
        rule.map_or(self.default.as_ref(), |(_, parent)| parent.as_ref())
    }

    /// Whether the name `host` is resolved here.
    pub(super) fn resolve_here(&self, host: &Host) -> bool {
        self.resolve != ParentResolve::Parent
            || self.of(host).is_none_or(|it| it.address.scheme() == ParentScheme::Socks5)
    }

    /// Whether a connection to `host` under `before` was made in the same way.
    pub(super) fn leads_as(&self, before: &Self, host: &Host) -> bool {
        match (self.of(host), before.of(host)) {
            (None, None) => true,
            (Some(now), Some(then)) => now.is_same(then) && self.resolve == before.resolve,
            _ => false,
        }
    }

    /// The state of each parent.
    pub fn stats(&self) -> Vec<ParentStats> {
        let mut stats: Vec<ParentStats> = Vec::new();
        for parent in self.rules.iter().filter_map(|(_, it)| it.as_ref()).chain(&self.default) {
            let of_parent = parent.stats();
            if !stats.contains(&of_parent) {
                stats.push(of_parent);
            }
        }
        stats
    }
}

impl Parent {
    fn new(address: ParentAddress, credentials: Option<ParentCredentials>) -> Self {
        let (is_down, failures) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { address, credentials, is_down, failures }
    }

    /// Whether connections by `other` are those by this one.
    pub fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && self.credentials == other.credentials
    }

    /// Has the parent, to which `stream` leads, connect to `target` within `limit`.
    ///
    /// # Errors
    ///
    /// [`Failure::Parent`] or [`Failure::ParentTimeout`], whatever has failed.
    pub async fn open(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        target: ParentTarget<'_>,
        limit: Duration,
    ) -> Result<(), Error> {
        let credentials = self.credentials.as_ref();
        let opened = async {
            match self.address.scheme() {
                ParentScheme::Http | ParentScheme::Https => {
                    connect::open(stream, target, credentials).await
                }
                ParentScheme::Socks5 | ParentScheme::Socks5h => {
                    socks::open(stream, target, credentials).await
                }
            }
        };
        match timeout(limit, opened).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(self.error(Failure::Parent, &reason)),
            Err(_) => {
                let reason = format!("no answer within {limit:?}");
                Err(self.error(Failure::ParentTimeout, &reason))
            }
        }
    }

    /// A failure of this parent, with its reason.
    pub fn error(&self, failure: Failure, reason: &str) -> Error {
        Error::new(failure, format!("the parent proxy {}: {reason}", self.address))
    }

    /// Notes whether an attempt succeeded; a change is logged.
    pub fn note(&self, result: Result<(), &Error>) {
        match result {
            Ok(()) => {
                if self.is_down.swap(false, Ordering::Relaxed) {
                    info!(parent = %self.address, "the parent proxy serves again");
                }
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    warn!(parent = %self.address, "the parent proxy fails: {error}");
                }
            }
        }
    }

    fn stats(&self) -> ParentStats {
        ParentStats {
            parent: self.address.to_string(),
            is_up: !self.is_down.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::{Origin, Scheme};

    fn host(name: &str) -> Host {
        Origin::from_authority(Scheme::Https, name).unwrap().host().clone()
    }

    #[test]
    fn the_first_rule_that_has_the_host_names_its_parent() {
        let rules = ["a.example=direct", "*.example=socks5h://s:1080", "b.test=http://p:3128"];
        let rules = rules.map(|rule| rule.parse().unwrap()).to_vec();
        let default: ParentAddress = "http://p:3128".parse().unwrap();
        let secret = "name:password".parse().unwrap();
        let parents = Parents::new(Some(default), rules, Some(&secret), ParentResolve::default());
        for (name, expected) in [
            ("a.example", None),
            ("b.example", Some("socks5h://s:1080")),
            ("b.test", Some("http://p:3128")),
            ("c.test", Some("http://p:3128")),
        ] {
            let found = parents.of(&host(name));
            let shown = found.map(|it| it.address.to_string());
            assert_eq!(shown.as_deref(), expected, "{name}");
            let is_default = expected == Some("http://p:3128");
            assert_eq!(found.is_some_and(|it| it.credentials.is_some()), is_default, "{name}");
        }
        assert_eq!(parents.stats().len(), 2);
        assert!(!format!("{parents:?}").contains("password"));
    }
}
