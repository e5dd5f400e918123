//! Builds the configuration of each module from the settings.

mod rules;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::names::{FetchAs, NodeName, Via};
use super::rules::OriginRule;
use super::settings::{Pace, Settings};
use crate::clients::{Users, UsersError};
use crate::config::limits::ATTEMPTS_BESIDE_MAX;
use crate::pace::{self, PaceMode};
use crate::policy::mode::Mode;
use crate::store::fetch;
use crate::store::fetch::FetchIdentity;
use crate::store::limits::{STORE_PENDING_BYTES_MAX, STORE_PENDING_BYTES_MIN};
use crate::types::origin::Origin;
use crate::{audit, ca, clients, egress, proxy, store};

/// The time between the end of a fetch's timeout and the answer to the requests that wait for it.
const FETCH_GRACE: Duration = Duration::from_millis(500);

impl Settings {
    /// How a robots.txt is fetched.
    pub fn fetch(&self) -> fetch::Config {
        let fetch_as = match &self.robots.fetch_as {
            FetchAs::Agent => None,
            FetchAs::Text(text) => Some(FetchIdentity::fixed(text)),
        };
        fetch::Config {
            fetch_as,
            contact: self.robots.contact.as_ref().map(ToString::to_string),
            timeout: self.robots.fetch_timeout,
            max_size: bytes(self.robots.max_size),
        }
    }

    /// When requests go to an origin.
    pub fn pace(&self) -> pace::Config {
        let Pace { mode, delay, concurrency, .. } = self.pace;
        // What is only observed must not slow a crawler down.
        let is_observed = self.robots.mode == Mode::Observe && mode == PaceMode::Enforce;
        pace::Config {
            mode: if is_observed { PaceMode::Observe } else { mode },
            lane: pace::lane::Config {
                delay,
                concurrency,
                holds: pace::hold::Bounds {
                    backoff_min: self.pace.backoff_min,
                    backoff_max: self.pace.backoff_max,
                },
                hold_scope: self.pace.holds,
                long_transfer: self.pace.long_transfer,
                adapt: self.pace.adapt,
                adapt_max: self.pace.adapt_max,
            },
            max_exchanges: self.egress.max_per_origin,
            max_wait: self.pace.max_wait,
            max_waiting: self.pace.max_waiting,
            max_waiting_per_origin: self.pace.max_waiting_per_origin,
            max_crawl_delay: self.pace.max_crawl_delay,
            max_retry_after: self.pace.max_retry_after,
            rate_limit_fields: self.pace.rate_limit_fields,
            subresources: self.pace.subresources,
            drain_timeout: self.limits.drain_timeout,
            origins: self.origins.iter().map(origin_pace).collect(),
        }
    }

    /// The bounds of the store.
    pub fn store(&self) -> store::Config {
        store::Config {
            entries_max: self.robots.cache_entries,
            bytes_max: bytes(self.robots.cache_size),
            fetches_max: self.robots.max_fetches,
            queue_max: self.robots.max_queued_fetches,
            waiters_max: self.robots.max_waiting,
            wait: self.robots.fetch_timeout + FETCH_GRACE,
            busy_wait: self.robots.busy_fetch_timeout,
        }
    }

    /// The store on disk, if it is enabled.
    pub fn disk(&self) -> Option<store::disk::Config> {
        let path = self.state_dir.join(store::disk::FILE_NAME);
        let kept = store::disk::Config {
            size_max: self.store.max_size,
            pending_max: self.store_pending_max(),
            ..store::disk::Config::new(path)
        };
        self.store.enabled.then_some(kept)
    }

    /// Bytes of the write queue to the store, in proportion to the memory of the store.
    pub fn store_pending_max(&self) -> usize {
        let quarter = usize::try_from(self.robots.cache_size / 4).unwrap_or(usize::MAX);
        quarter.clamp(STORE_PENDING_BYTES_MIN, STORE_PENDING_BYTES_MAX)
    }

    /// The configuration of the log of denials.
    pub fn audit(&self) -> audit::Config {
        audit::Config {
            dir: self.audit_dir(),
            sync: self.audit.sync,
            on_failure: self.audit.on_failure,
            write_timeout: self.audit.write_timeout,
            rotate_size: self.audit.rotate_size,
            rotate_age: self.audit.rotate_age,
            retain: self.audit.retain.0,
            retain_size: self.audit.retain_size.0,
            redact_query: self.audit.redact_query,
            node: Some(self.node().as_str().into()),
        }
    }

    /// The name of this proxy in its records.
    pub(super) fn node(&self) -> NodeName {
        self.audit.node.clone().unwrap_or_else(NodeName::of_host)
    }

    /// The location of the CA: the operator's as set, else that of systemd in the directory
    /// `credentials`, else the generated one in the state directory.
    pub fn ca(&self, credentials: Option<&Path>) -> ca::Source {
        if let (Some(certificate), Some(key)) = (&self.https.ca_cert, &self.https.ca_key) {
            return ca::Source::Files { certificate: certificate.clone(), key: key.clone() };
        }
        let handed_over = credentials.map(|dir| (dir.join("ca.crt"), dir.join("ca.key")));
        match handed_over.filter(|(certificate, key)| certificate.exists() || key.exists()) {
            Some((certificate, key)) => ca::Source::Credentials { certificate, key },
            None => ca::Source::Own(self.state_dir.join("ca")),
        }
    }

    /// How many leaf certificates are kept.
    pub fn leaves_max(&self) -> NonZeroUsize {
        self.https.leaf_cache
    }

    /// The configuration of the egress.
    pub fn egress(&self) -> egress::Config {
        egress::Config {
            connect_timeout: self.egress.connect_timeout,
            response_timeout: self.egress.response_timeout,
            body_idle_timeout: self.limits.body_idle_timeout,
            idle_timeout: self.egress.idle_timeout,
            max_idle: self.egress.max_idle,
            max_lookups: self.egress.max_lookups,
            max_attempts_beside: ATTEMPTS_BESIDE_MAX,
            max_header_bytes: bytes(self.limits.max_header_bytes),
            max_headers: self.limits.max_headers,
            under_run: self.under_run,
            hosts: egress::HostRules {
                allow: self.egress.allow_hosts.clone(),
                deny: self.egress.deny_hosts.clone(),
            },
        }
    }

    /// The proxy's name in `Via`, with the mark by which this process finds itself.
    pub fn via(&self, mark: &str) -> proxy::Via {
        let pseudonym = match &self.egress.via {
            Via::Off => None,
            Via::As(name) => Some(name.as_str()),
        };
        proxy::Via::new(pseudonym, mark)
    }

    /// How CONNECT is handled.
    pub fn https(&self) -> proxy::Https {
        proxy::Https {
            mode: self.https.mode,
            tunnel: self.https.tunnel.clone(),
            mixed: self.https.mixed,
            ports: self.egress.connect_ports.clone(),
            under_run: self.under_run,
        }
    }

    /// The bounds of a client's connection.
    pub fn limits(&self) -> proxy::Limits {
        proxy::Limits {
            timeouts: self.timeouts(),
            head_max: bytes(self.limits.max_header_bytes),
            fields_max: self.limits.max_headers,
            strict_target: self.limits.strict_target,
        }
    }

    /// The clients that are permitted. Reads the users from their file.
    pub fn clients(&self) -> Result<clients::Clients, UsersError> {
        let set = &self.clients;
        let users = set.users_file.as_deref().map(Users::load).transpose()?;
        Ok(clients::Clients {
            open: set.open,
            allow: set.allow.clone(),
            users: users.map(Arc::new),
            connections_max: set.max_connections,
            per_client_max: set.max_per_client,
            requests_max: set.max_requests_per_client,
        })
    }

    /// Bytes that all requests in flight may hold.
    pub fn body_memory(&self) -> usize {
        bytes(self.limits.body_memory)
    }

    /// The timeouts of a client's connection.
    fn timeouts(&self) -> proxy::Timeouts {
        proxy::Timeouts {
            idle: self.limits.idle_timeout,
            head: self.limits.header_timeout,
            write: self.limits.body_idle_timeout,
        }
    }
}

fn origin_pace(rule: &OriginRule) -> (Origin, pace::OriginPace) {
    let OriginRule { pace: mode, delay, concurrency, .. } = *rule;
    (rule.origin.clone(), pace::OriginPace { mode, delay, concurrency })
}

/// A size as `usize`, saturating.
fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
