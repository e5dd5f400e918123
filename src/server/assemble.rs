//! From settings to the parts of a running proxy, put together in one place.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::connection::Limits;
use super::reception::Clients;
use crate::audit::{OpenError, Writer};
use crate::clock::Clock;
use crate::config::{FetchAs, Settings};
use crate::egress::{self, AddressPolicy, Egress};
use crate::fetch::{self, RobotsFetcher};
use crate::policy::profile::Profile;
use crate::proxy::{AgentRule, Deadlines, Forwarding, Gate, OriginRule, Proxy, Rules, Via};
use crate::store::{self, Store};

/// Everything that the workers share, and the settings they need.
#[derive(Debug)]
pub struct Assembly {
    pub workers: usize,
    pub clients: Clients,
    pub limits: Limits,
    pub drain_timeout: Duration,
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    gate: Arc<Gate>,
    egress: Arc<egress::Shared>,
    via: Via,
    body_idle_timeout: Duration,
    tunnel_idle_timeout: Duration,
}

/// Why the settings cannot become a proxy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Roots(#[from] egress::RootsError),
    #[error(transparent)]
    Audit(#[from] OpenError),
}

/// Puts the proxy together. `own` are the addresses it listens on: it never connects to them.
pub fn assemble(
    settings: &Settings,
    own: Vec<SocketAddr>,
    clock: Arc<dyn Clock>,
) -> Result<Assembly, SetupError> {
    let egress = way_out(settings, own)?;
    let store = store(settings, &egress, &clock);
    let audit = Arc::new(Writer::open(&settings.audit_dir())?);
    let limits = &settings.limits;
    let deadlines =
        Deadlines { idle: limits.idle_timeout, head: limits.header_timeout, write: limits.body_idle_timeout };
    Ok(Assembly {
        workers: settings.workers.unwrap_or_else(cores),
        clients: Clients {
            open: settings.clients.open,
            allow: settings.clients.allow.clone(),
            connections_max: settings.clients.max_connections,
        },
        limits: Limits {
            deadlines,
            head_max: usize::try_from(limits.max_header_bytes).unwrap_or(usize::MAX),
            fields_max: limits.max_headers,
        },
        drain_timeout: limits.drain_timeout,
        gate: Arc::new(Gate {
            rules: rules(settings),
            store: Arc::clone(&store),
            audit: Arc::clone(&audit),
            clock,
        }),
        store,
        audit,
        egress,
        via: via(settings),
        body_idle_timeout: limits.body_idle_timeout,
        tunnel_idle_timeout: limits.tunnel_idle_timeout,
    })
}

impl Assembly {
    /// A proxy of its own for a worker: its idle connections are not shared.
    pub fn proxy(&self) -> Proxy {
        let forwarding = Forwarding {
            egress: Arc::new(Egress::new(Arc::clone(&self.egress))),
            via: self.via.clone(),
            body_idle_timeout: self.body_idle_timeout,
            tunnel_idle_timeout: self.tunnel_idle_timeout,
        };
        Proxy { gate: Arc::clone(&self.gate), forwarding }
    }
}

/// What a command that fetches needs besides settings: the way out, as the proxy has it.
pub fn way_out(settings: &Settings, own: Vec<SocketAddr>) -> Result<Arc<egress::Shared>, egress::RootsError> {
    let tls = egress::tls_connector(settings.tls.roots.into(), &settings.tls.extra_roots)?;
    let policy = AddressPolicy::new(settings.egress.allow.clone(), settings.egress.deny.clone(), own);
    Ok(egress::Shared::new(settings.egress(), policy, tls))
}

/// The store over a way out. Its fetches keep no idle connections: whichever worker's task fetches,
/// the connection ends with the fetch.
pub fn store(settings: &Settings, egress: &Arc<egress::Shared>, clock: &Arc<dyn Clock>) -> Arc<Store> {
    let robots = &settings.robots;
    let fetch_as = match &robots.fetch_as {
        FetchAs::Client => None,
        FetchAs::Agent(agent) => HeaderValue::try_from(agent.as_str()).ok(),
    };
    let max_size = usize::try_from(robots.max_size).unwrap_or(usize::MAX);
    let config = fetch::Config { fetch_as, timeout: robots.fetch_timeout, max_size };
    let way_out = Arc::new(Egress::without_pool(Arc::clone(egress)));
    let fetcher = RobotsFetcher::new(way_out, config, Arc::clone(clock));
    let config = store::Config {
        entries_max: NonZeroUsize::new(robots.cache_entries).unwrap_or(NonZeroUsize::MIN),
        bytes_max: usize::try_from(robots.cache_size).unwrap_or(usize::MAX),
        // A little more than the fetch's own deadline, so that its verdict is heard.
        wait: robots.fetch_timeout + Duration::from_millis(500),
        ..store::Config::default()
    };
    Store::new(config, Arc::new(fetcher), Arc::clone(clock))
}

/// What the operator has set about agents and origins.
pub fn rules(settings: &Settings) -> Rules {
    // One value for each profile that is used: the store knows a profile by its identity.
    let mut profiles: HashMap<&'static str, Arc<Profile>> = HashMap::new();
    let mut profile = |name: crate::config::ProfileName| {
        Arc::clone(profiles.entry(name.as_str()).or_insert_with(|| Arc::new(settings.profile(name))))
    };
    Rules {
        profile: profile(settings.robots.profile),
        mode: settings.robots.mode.into(),
        agent_required: settings.agents.require,
        agents: settings
            .agents
            .rules
            .iter()
            .map(|rule| AgentRule {
                matches: rule.matches.clone(),
                token: rule.token.as_ref().map(|token| token.as_str().to_owned()),
                mode: rule.mode.map(Into::into),
                profile: rule.profile.map(&mut profile),
                deny_status: rule.deny_status,
            })
            .collect(),
        origins: settings
            .origins
            .iter()
            .map(|rule| {
                let settings =
                    OriginRule { mode: rule.mode.map(Into::into), profile: rule.profile.map(&mut profile) };
                (rule.origin.clone(), settings)
            })
            .collect(),
        exemptions: settings.exemptions(),
        deny_status: settings.deny.status,
        unreachable_status: settings.deny.unreachable_status,
        serves_robots_txt: settings.robots.serve_cached,
    }
}

fn via(settings: &Settings) -> Via {
    let pseudonym = match &settings.egress.via {
        crate::config::Via::Off => None,
        crate::config::Via::As(pseudonym) => Some(pseudonym.clone()),
    };
    // Random: two proxies in a row must not take each other for themselves.
    Via::new(pseudonym, format!("{:x}", ulid::Ulid::new().random() & 0xffff_ffff))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
