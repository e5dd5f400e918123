//! Builds the components of the proxy from the settings: those that live as long as the process,
//! and those that are built again at a reload.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::components::Components;
use super::egress::{egress_config, loop_token, store};
use super::engine;
use super::lifecycle::Lifecycle;
use super::pace_keeper;
use super::prepare::{Prepared, SetupError, SetupErrors, prepare};
use crate::admin::Token;
use crate::audit::Writer;
use crate::ca::{self, Leaves};
use crate::clients::{BodyMemory, ClientAdmission};
use crate::config::Settings;
use crate::egress;
use crate::engine::Engine;
use crate::pace::Lanes;
use crate::runtime::clock::{Clock, uptime};
use crate::runtime::lock::Lock;
use crate::store::Store;
use crate::store::disk::Disk;
use crate::watch::Watch;

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
    Prepared { tls, parents, clients, listener_tls, secret, engine: client, .. }: Prepared,
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
    let token = Token::default();
    token.change(secret);
    let audit = Arc::new(Writer::open(settings.audit(), Arc::clone(&clock))?);
    let disk = settings.disk().map(|config| Disk::open(config, Arc::clone(&clock))).transpose()?;
    if !settings.under_run {
        take_up_pace(egress.lanes(), disk.as_ref(), &*clock);
    }
    let store = store(settings, &egress, &clock, disk);
    let lifecycle = Lifecycle::new(Arc::clone(&audit), Arc::clone(&clock), settings.clone());
    let watch = watch(settings, &store);
    let leaves = Leaves::open(ca, Arc::clone(&clock), settings.leaves_max())?;
    let members = store.disk().map_or(0, Disk::members);
    let redis = client.map(|client| engine::start(settings, client, members, &clock));
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
        token: Arc::new(token),
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
    };
    components.share();
    Ok(components)
}

/// Follows changes of the files in `store`.
fn watch(settings: &Settings, store: &Store) -> Arc<Watch> {
    let (watch, audit) = (&settings.watch, &settings.audit);
    let watch = Watch::new(watch.changes, audit.pace, audit.redact_query);
    store.set_listener(Arc::clone(&watch) as _);
    watch
}

/// Takes up the pace of origins as the process before this one has left it on `disk`.
fn take_up_pace(lanes: &Lanes, disk: Option<&Disk>, clock: &dyn Clock) {
    let kept = disk.and_then(Disk::begin_pace).unwrap_or_default();
    let is_whole = kept.is_whole;
    lanes.restore(pace_keeper::taken_up(kept, (clock.wall(), uptime())), is_whole);
}

/// Random: two proxies in a chain must not mistake each other for a loop.
fn mark() -> String {
    format!("{:x}", ulid::Ulid::new().random() & 0xffff_ffff)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}
