//! From settings to the parts of a running proxy, put together in one place.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Limits;
use super::reception::Clients;
use crate::audit::{OpenError, Writer};
use crate::clock::Clock;
use crate::config::Settings;
use crate::egress::{self, AddressPolicy, Egress};
use crate::fetch::RobotsFetcher;
use crate::proxy::{Forwarding, Gate, Proxy, Via};
use crate::store::Store;

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
    Ok(Assembly {
        workers: settings.workers.unwrap_or_else(cores),
        clients: Clients {
            open: settings.clients.open,
            allow: settings.clients.allow.clone(),
            connections_max: settings.clients.max_connections,
        },
        limits: Limits {
            deadlines: settings.deadlines(),
            head_max: usize::try_from(limits.max_header_bytes).unwrap_or(usize::MAX),
            fields_max: limits.max_headers,
        },
        drain_timeout: limits.drain_timeout,
        gate: Arc::new(Gate {
            rules: settings.rules(),
            store: Arc::clone(&store),
            audit: Arc::clone(&audit),
            clock,
        }),
        store,
        audit,
        egress,
        via: settings.via(mark()),
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
    let tls = egress::tls_connector(settings.tls.roots.into(), &settings.tls.extra_roots)?
        .without_verification_for(&settings.tls.insecure_origins);
    let policy = AddressPolicy::new(settings.egress.allow.clone(), settings.egress.deny.clone(), own);
    Ok(egress::Shared::new(settings.egress(), policy, tls))
}

/// The store over a way out. Its fetches keep no idle connections: whichever worker's task fetches,
/// the connection ends with the fetch.
pub fn store(settings: &Settings, egress: &Arc<egress::Shared>, clock: &Arc<dyn Clock>) -> Arc<Store> {
    let way_out = Arc::new(Egress::without_pool(Arc::clone(egress)));
    let fetcher = RobotsFetcher::new(way_out, settings.fetch(), Arc::clone(clock));
    Store::new(settings.store(), Arc::new(fetcher), Arc::clone(clock))
}

/// Random: two proxies in a row must not take each other for themselves.
fn mark() -> String {
    format!("{:x}", ulid::Ulid::new().random() & 0xffff_ffff)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
