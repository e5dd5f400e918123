//! The components of the proxy that all workers share, and what is made of them at the start and at
//! each reload.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;

use super::egress::{egress_config, fetcher};
use super::engine;
use super::lifecycle::Lifecycle;
use super::membership::Membership;
use super::witness::Witness;
use crate::admin::{MonitoredParts, Reloads, Token};
use crate::audit::Writer;
use crate::ca::Leaves;
use crate::clients::ClientAdmission;
use crate::config::Settings;
use crate::egress::{self, ConfigSnapshot, Egress, Parents, Tls};
use crate::engine::{Engine, RedisConfig, RedisEngine};
use crate::proxy::{
    DecisionMetrics, Forwarding, Gate, ListenerTls, Pipes, Proxy, RequestMetrics,
    RobotsSummaryCache, TunnelEnds,
};
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::store::Store;
use crate::store::fetch::FetchRobots;
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
    /// The token of the admin listener.
    pub(super) token: Arc<Token>,
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
            token: Arc::clone(&self.token),
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

    /// The members of the engine and the store that keeps their count, if there is an engine.
    pub(super) fn membership(&self) -> Option<Membership> {
        Some(Membership::new(self.engine.clone()?, Arc::clone(&self.store)))
    }

    /// Shares an engine with other proxies, in place of one of the settings. To be called before
    /// the proxy starts, where the settings name none.
    pub fn join(&mut self, engine: Arc<dyn Engine>) {
        self.engine = Some(engine);
        self.share();
    }

    /// Shares what the settings say through the engine, if there is one.
    pub(super) fn share(&self) {
        let (Some(engine), settings) = (&self.engine, self.settings()) else { return };
        if settings.engine.share_policies {
            self.store.set_engine(Arc::clone(engine));
        }
        if settings.engine.share_pace {
            self.egress.lanes().set_engine(Arc::clone(engine));
        }
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
            via: settings.via(&self.mark),
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
        fetcher(settings, &self.egress, &self.clock)
    }
}
