//! The components of the proxy that all workers share, and what is made of them at the start and at
//! each reload.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;

use super::engine::{self, Membership};
use super::lifecycle::Lifecycle;
use super::listeners;
use super::prepare::{self, Prepared, SetupError, SetupErrors, prepare};
use super::witness::Witness;
use crate::admin::{MonitoredParts, Reloads, Token};
use crate::audit::Writer;
use crate::ca::{self, LEAVES_MAX, Leaves};
use crate::clients::{BodyMemory, ClientAdmission};
use crate::config::Settings;
use crate::egress::{self, AddressPolicy, ConfigSnapshot, Egress, Parents, Tls};
use crate::engine::{Engine, HoldListener, KeptRank, LocalEngine, RedisConfig, RedisEngine};
use crate::pace::{Away, Lanes};
use crate::proxy::{
    DecisionMetrics, Forwarding, Gate, ListenerTls, Pipes, Proxy, RequestMetrics,
    RobotsSummaryCache, TunnelEnds, Via,
};
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::crypto_provider;
use crate::runtime::lock::Lock;
use crate::store::Store;
use crate::store::disk::Disk;
use crate::store::fetch::{FetchRobots, RobotsFetcher};
use crate::types::loop_token::LoopToken;
use crate::types::timestamp::Timestamp;
use crate::watch::Watch;

/// The components that all workers share, for the life of the process.
#[derive(Clone, Debug)]
pub struct Components {
    /// Threads that serve requests.
    pub workers: usize,
    pub admission: Arc<ClientAdmission>,
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub request_metrics: Arc<RequestMetrics>,
    pub leaves: Arc<Leaves>,
    pub(super) pipes: Arc<Pipes>,
    pub(super) tunnel_ends: Arc<TunnelEnds>,
    /// The results of reloads.
    pub reloads: Arc<Reloads>,
    /// The token of the admin listener, and that of those who may only look at its console.
    pub token: Arc<Token>,
    pub viewer_token: Arc<Token>,
    /// Counts of decisions.
    pub decision_metrics: Arc<DecisionMetrics>,
    /// Follows changes of robots.txt files.
    pub(super) watch: Arc<Watch>,
    pub(super) clock: Arc<dyn Clock>,
    /// Writes the notices of the proxy itself.
    pub lifecycle: Arc<Lifecycle>,
    /// The settings in effect.
    pub(super) settings: Arc<ArcSwap<Settings>>,
    /// TLS between clients and the proxy itself.
    pub(super) listener_tls: Arc<ArcSwap<ListenerTls>>,
    pub egress: Arc<egress::EgressState>,
    /// The addresses that the proxy listens on, and those of the engine: it never connects to them.
    pub(super) own: Arc<Lock<Vec<SocketAddr>>>,
    /// What several proxies share, if they do.
    pub(super) engine: Option<Arc<dyn Engine>>,
    /// The same, as the settings name it.
    pub(super) redis: Option<Arc<RedisEngine>>,
    /// What the processes of the state directory share, and what is kept beside the engine.
    pub(super) local: Option<Arc<LocalEngine>>,
    /// The rank that the process before this one has left.
    rank_before: Option<KeptRank>,
    /// The mark by which this process finds itself in `Via`.
    pub(super) mark: String,
    /// By which it recognises what a parent proxy sends back.
    pub(super) loop_token: LoopToken,
}

impl Components {
    /// The components that the admin listener reads.
    pub fn monitored_parts(&self, started: Timestamp) -> MonitoredParts {
        MonitoredParts {
            store: Arc::clone(&self.store),
            audit: Arc::clone(&self.audit),
            request_metrics: Arc::clone(&self.request_metrics),
            decision_metrics: Arc::clone(&self.decision_metrics),
            watch: Arc::clone(&self.watch),
            egress: Arc::clone(&self.egress),
            leaves: Arc::clone(&self.leaves),
            reloads: Arc::clone(&self.reloads),
            admission: Arc::clone(&self.admission),
            engine: self.engine.clone(),
            is_engine_required: self.settings().engine.required,
            keeps_share: self.settings().engine.away == Away::Share,
            token: Arc::clone(&self.token),
            via: Via::new(&self.mark),
            clock: Arc::clone(&self.clock),
            started,
            draining: AtomicBool::new(false),
        }
    }

    /// The log and its witness, if there is an engine. The log of a `courtesy run` is none that
    /// goes on: its head would be taken for that of the proxy on this host.
    pub(super) fn witness(&self) -> Option<Witness> {
        let engine = self.engine.clone().filter(|_| !self.settings().under_run)?;
        Some(Witness::new(Arc::clone(&self.audit), engine, Arc::clone(&self.clock)))
    }

    /// This proxy among those of the engine and the file that keeps its rank, if there is an engine.
    pub(super) fn membership(&self) -> Option<Membership> {
        let (engine, name) = (self.engine.clone()?, self.redis.as_ref()?.name().to_owned());
        // Several runs of one state directory are proxies of their own.
        let file = self.local.clone().filter(|_| !self.settings().under_run);
        Some(Membership::new(engine, name, file, self.rank_before.clone()))
    }

    /// Shares robots.txt files and the pace through the engine, or else through the file.
    pub(super) fn share(&self) {
        let listener = || {
            let lanes = Arc::downgrade(self.egress.lanes());
            HoldListener::new(move |lane, hold, is_used| {
                lanes.upgrade().iter().for_each(|lanes| lanes.take_up_hold(lane, hold, is_used));
            })
        };
        if let Some(engine) = &self.engine {
            engine.on_hold(listener());
        }
        if let Some(local) = &self.local {
            local.on_hold(listener());
            if !self.settings().under_run {
                // One that stays says at its start that the file cannot be used.
                drop(local.flush());
            }
        }
        let local = || self.local.clone().map(|local| local as Arc<dyn Engine>);
        let Some(engine) = self.engine.clone().or_else(local) else { return };
        self.store.set_engine(Arc::clone(&engine));
        self.egress.lanes().set_engine(engine);
    }

    /// The settings in effect.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// The gate for these settings; one for all workers.
    pub(super) fn gate(&self, settings: &Settings) -> Arc<Gate> {
        let rules = settings.rules();
        self.store.set_profiles(rules.profiles());
        Arc::new(Gate {
            rules,
            store: Arc::clone(&self.store),
            audit: Arc::clone(&self.audit),
            clock: Arc::clone(&self.clock),
            metrics: Arc::clone(&self.decision_metrics),
            summaries: RobotsSummaryCache::default(),
            watch: Arc::clone(&self.watch),
        })
    }

    /// A worker's proxy for these settings, with its own egress: idle connections are not shared.
    pub(super) fn proxy(
        &self,
        settings: &Settings,
        gate: &Arc<Gate>,
        egress: Arc<Egress>,
    ) -> Proxy {
        let limits = &settings.limits;
        let has_parent = settings.egress.parent.is_some() || !settings.egress.parents.is_empty();
        let forwarding = Forwarding {
            egress,
            pipes: Arc::clone(&self.pipes),
            tunnel_ends: Arc::clone(&self.tunnel_ends),
            via: Via::new(&self.mark),
            loop_token: has_parent.then(|| self.loop_token.clone()),
            upgrades: settings.egress.upgrades.clone().into(),
            body_idle_timeout: limits.body_idle_timeout,
            tunnel_idle_timeout: limits.tunnel_idle_timeout,
        };
        Proxy {
            gate: Arc::clone(gate),
            forwarding,
            metrics: Arc::clone(&self.request_metrics),
            limits: settings.limits(),
            https: settings.https(),
            handshake_timeout: limits.handshake_timeout,
            listener_tls: ListenerTls::clone(&self.listener_tls.load()),
            leaves: Arc::clone(&self.leaves),
            admission: Arc::clone(&self.admission),
        }
    }

    /// The configuration of the egress by these settings; it connects to none of `own`.
    pub(super) fn egress_config(
        &self,
        settings: &Settings,
        tls: Tls,
        parents: Parents,
        own: Vec<SocketAddr>,
    ) -> ConfigSnapshot {
        egress_config(settings, tls, (parents, &self.loop_token), own)
    }

    /// The addresses that no request may reach: the proxy's own, and those that the engine had or
    /// has by `engine`.
    pub(super) fn own_with(&self, engine: Option<&RedisConfig>) -> Vec<SocketAddr> {
        let mut own = self.own.lock();
        let running = self.redis.as_ref().map(|redis| redis.settings());
        let is_other = |engine: &&RedisConfig| {
            running.is_some_and(|running| running.addresses != engine.addresses)
        };
        let others = engine.filter(is_other).map(engine::addresses).unwrap_or_default();
        let others: Vec<_> = others.into_iter().filter(|it| !own.contains(it)).collect();
        own.extend(others);
        own.clone()
    }

    /// The fetcher of robots.txt files for these settings.
    pub(super) fn fetcher(&self, settings: &Settings) -> Arc<dyn FetchRobots> {
        build_fetcher(settings, &self.egress, &self.clock)
    }
}

// Builds the components of the proxy from the settings: those that live as long as the process,
// and those that are built again at a reload.

/// Prepares and builds the proxy, as [`build_prepared`].
pub fn build(
    settings: &Settings,
    own: Vec<SocketAddr>,
    ca: ca::Source,
    clock: Arc<dyn Clock>,
) -> Result<Components, SetupErrors> {
    let prepared = prepare(settings, &ca, clock.wall())?;
    build_prepared(settings, prepared, own, ca, clock)
}

/// Builds the proxy from what was prepared by the same settings. `own` are the addresses of its
/// listeners, to which it never connects. The CA is in `ca`, and is generated at the first start.
pub fn build_prepared(
    settings: &Settings,
    Prepared { tls, parents, clients, listener_tls, secret, viewer_secret, engine: client, .. }: Prepared,
    mut own: Vec<SocketAddr>,
    ca: ca::Source,
    clock: Arc<dyn Clock>,
) -> Result<Components, SetupErrors> {
    let memory = Arc::new(BodyMemory::new(settings.body_memory()));
    own.extend(client.iter().flat_map(engine::addresses));
    let lanes = Lanes::new(settings.pace(), Arc::clone(&clock));
    let (mark, loop_token) = (mark(), loop_token());
    let egress = egress::EgressState::with_memory(
        egress_config(settings, tls, (parents, &loop_token), own.clone()),
        lanes,
        Arc::clone(&memory),
    );
    let [token, viewer_token] = [secret, viewer_secret].map(|secret| {
        let token = Token::default();
        token.change(secret);
        Arc::new(token)
    });
    let audit = Arc::new(Writer::open(settings.audit(), Arc::clone(&clock))?);
    let local = settings.store.enabled.then(|| Arc::new(engine::local(settings, &clock)));
    // Without a server the file decides on each start.
    let kept = client.as_ref().and(local.as_ref()).and_then(|local| local.begin_lanes());
    let (lanes, is_whole, rank_before) = kept.unwrap_or((Vec::new(), client.is_none(), None));
    let rank_before = rank_before.filter(|_| !settings.under_run);
    let lanes = lanes.into_iter().map(|ahead| (ahead.lane.clone(), ahead.into()));
    egress.lanes().restore(lanes.collect(), is_whole);
    let store = build_store(settings, &egress, &clock, local.clone().map(Disk));
    let lifecycle = Lifecycle::new(Arc::clone(&audit), Arc::clone(&clock), settings.clone());
    let watch = watch(settings, &store);
    let leaves = Leaves::open(ca, Arc::clone(&clock), LEAVES_MAX)?;
    let redis = client.map(|client| engine::start(settings, client, rank_before.clone(), &clock));
    let redis = redis.transpose().map_err(SetupError::from)?;
    let components = Components {
        workers: settings.workers.unwrap_or_else(cores),
        admission: Arc::new(ClientAdmission::new(clients, memory)),
        store,
        audit,
        request_metrics: Arc::default(),
        leaves: Arc::new(leaves),
        pipes: Arc::default(),
        tunnel_ends: Arc::default(),
        reloads: Arc::default(),
        token,
        viewer_token,
        decision_metrics: Arc::default(),
        watch,
        clock,
        lifecycle: Arc::new(lifecycle),
        settings: Arc::new(ArcSwap::from_pointee(settings.clone())),
        listener_tls: Arc::new(ArcSwap::from_pointee(listener_tls)),
        egress,
        own: Arc::new(Lock::new(own)),
        mark,
        loop_token,
        engine: redis.clone().map(|engine| engine as Arc<dyn Engine>),
        redis,
        local,
        rank_before,
    };
    components.share();
    Ok(components)
}

/// Follows changes of the files in `store`.
fn watch(settings: &Settings, store: &Store) -> Arc<Watch> {
    let watch = Watch::new(settings.audit.redact_query);
    store.set_listener(Arc::clone(&watch) as _);
    watch
}

/// Random: two proxies in a chain must not mistake each other for a loop.
fn mark() -> String {
    format!("{:x}", ulid::Ulid::new().random() & 0xffff_ffff)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The egress of a command that fetches, as the proxy has it.
pub fn build_egress(
    settings: &Settings,
    own: Vec<SocketAddr>,
) -> Result<Arc<egress::EgressState>, SetupErrors> {
    let mut found = Vec::new();
    let tls = prepare::tls(settings, &mut found);
    let parents = prepare::note(settings.egress.parents(), &mut found);
    let (tls, parents) = prepare::finish(tls.zip(parents), found)?;
    let config = egress_config(settings, tls, (parents, &loop_token()), own);
    Ok(egress::EgressState::new(config, Lanes::off(Arc::new(SystemClock))))
}

/// The configuration of the egress by these settings. `own` are addresses that it never connects
/// to.
pub(super) fn egress_config(
    settings: &Settings,
    tls: Tls,
    (parents, loop_token): (Parents, &LoopToken),
    own: Vec<SocketAddr>,
) -> ConfigSnapshot {
    // Half of the fetches of robots.txt are left to other hosts, whatever a parent does.
    let parents = parents.of_process(loop_token, (settings.robots.max_fetches / 2).max(1));
    let policy =
        AddressPolicy::new(settings.egress.allow.clone(), settings.egress.deny.clone(), own);
    ConfigSnapshot { config: listeners::bound(settings.egress()), policy, tls, parents }
}

/// The store, with fetches through `egress`. Without a `disk` it does not outlive the process.
pub fn build_store(
    settings: &Settings,
    egress: &Arc<egress::EgressState>,
    clock: &Arc<dyn Clock>,
    disk: Option<Disk>,
) -> Arc<Store> {
    Store::new(settings.store(), build_fetcher(settings, egress, clock), Arc::clone(clock), disk)
}

/// The fetcher of robots.txt files. Its egress keeps no connections: each is closed after its
/// fetch. On a worker, https origins are fetched through the worker's.
pub(super) fn build_fetcher(
    settings: &Settings,
    egress: &Arc<egress::EgressState>,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn FetchRobots> {
    let egress = Arc::new(Egress::without_pool(Arc::clone(egress)));
    Arc::new(RobotsFetcher::new(egress, settings.fetch(), Arc::clone(clock)))
}

/// Random: no other process has it.
pub(super) fn loop_token() -> LoopToken {
    let mut random = [0; 16];
    crypto_provider().secure_random.fill(&mut random).expect("the system has random numbers");
    LoopToken::new(random)
}
