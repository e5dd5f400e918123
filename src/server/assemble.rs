//! From settings to the parts of a running proxy, put together in one place.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::Watched;
use crate::audit::{OpenError, Writer};
use crate::ca::{self, CaError, Leaves};
use crate::clients::{Door, UsersError};
use crate::clock::Clock;
use crate::config::Settings;
use crate::egress::{self, AddressPolicy, Egress};
use crate::fetch::RobotsFetcher;
use crate::moment::Moment;
use crate::proxy::{Decisions, Forwarding, Gate, Proxy, Tally, Via};
use crate::store::Store;
use crate::store::disk::{self, Disk};

/// Everything that the workers share, and the settings they need.
#[derive(Debug)]
pub struct Assembly {
    pub workers: usize,
    pub door: Arc<Door>,
    pub drain_timeout: Duration,
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub tally: Arc<Tally>,
    pub leaves: Arc<Leaves>,
    pub gate: Arc<Gate>,
    egress: Arc<egress::Shared>,
    via: Via,
    settings: Settings,
}

/// Why the settings cannot become a proxy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Roots(#[from] egress::RootsError),
    #[error(transparent)]
    Audit(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] disk::OpenError),
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error(transparent)]
    Users(#[from] UsersError),
}

/// Puts the proxy together. `own` are the addresses it listens on, as a proxy and for its operator: it
/// never connects to them. The CA is in `ca`, and is made at the first start.
pub fn assemble(
    settings: &Settings,
    own: Vec<SocketAddr>,
    ca: ca::Source,
    clock: Arc<dyn Clock>,
) -> Result<Assembly, SetupError> {
    let egress = way_out(settings, own)?;
    let clients = settings.clients()?;
    let audit = Arc::new(Writer::open(settings.audit(), Arc::clone(&clock))?);
    let disk = settings.disk().map(|config| Disk::open(config, Arc::clone(&clock))).transpose()?;
    let store = store(settings, &egress, &clock, disk);
    let rules = settings.rules();
    store.introduce(rules.profiles());
    let leaves = Leaves::open(ca, Arc::clone(&clock), settings.leaves_max())?;
    Ok(Assembly {
        workers: settings.workers.unwrap_or_else(cores),
        door: Arc::new(Door::new(clients)),
        drain_timeout: settings.limits.drain_timeout,
        gate: Arc::new(Gate {
            rules,
            store: Arc::clone(&store),
            audit: Arc::clone(&audit),
            clock,
            decisions: Decisions::default(),
        }),
        store,
        audit,
        tally: Arc::default(),
        leaves: Arc::new(leaves),
        egress,
        via: settings.via(mark()),
        settings: settings.clone(),
    })
}

impl Assembly {
    /// The parts that the admin listener looks at.
    pub fn watched(&self, started: Moment) -> Watched {
        let Self { store, audit, tally, door, .. } = self;
        Watched::new(Arc::clone(store), Arc::clone(audit), Arc::clone(tally), Arc::clone(door), started)
    }

    /// A proxy of its own for a worker: its idle connections are not shared.
    pub fn proxy(&self) -> Proxy {
        let limits = &self.settings.limits;
        let forwarding = Forwarding {
            egress: Arc::new(Egress::new(Arc::clone(&self.egress))),
            via: self.via.clone(),
            body_idle_timeout: limits.body_idle_timeout,
            tunnel_idle_timeout: limits.tunnel_idle_timeout,
        };
        Proxy {
            gate: Arc::clone(&self.gate),
            forwarding,
            tally: Arc::clone(&self.tally),
            limits: self.settings.limits(),
            https: self.settings.https(),
            handshake_timeout: limits.handshake_timeout,
            leaves: Arc::clone(&self.leaves),
            door: Arc::clone(&self.door),
        }
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
/// the connection ends with the fetch. Without a `disk` nothing outlives it.
pub fn store(
    settings: &Settings,
    egress: &Arc<egress::Shared>,
    clock: &Arc<dyn Clock>,
    disk: Option<Disk>,
) -> Arc<Store> {
    let way_out = Arc::new(Egress::without_pool(Arc::clone(egress)));
    let fetcher = RobotsFetcher::new(way_out, settings.fetch(), Arc::clone(clock));
    Store::new(settings.store(), Arc::new(fetcher), Arc::clone(clock), disk)
}

/// Random: two proxies in a row must not take each other for themselves.
fn mark() -> String {
    format!("{:x}", ulid::Ulid::new().random() & 0xffff_ffff)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
