//! Builds the egress and what fetches by it from the settings.

use std::net::SocketAddr;
use std::sync::Arc;

use super::descriptors;
use super::prepare::{self, SetupErrors};
use crate::config::Settings;
use crate::egress::{self, AddressPolicy, ConfigSnapshot, Egress, Parents, Tls};
use crate::pace::Lanes;
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::crypto_provider;
use crate::store::Store;
use crate::store::disk::Disk;
use crate::store::fetch::{FetchRobots, RobotsFetcher};
use crate::types::loop_token::LoopToken;

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
    ConfigSnapshot { config: descriptors::bound(settings.egress()), policy, tls, parents }
}

/// The store, with fetches through `egress`. Without a `disk` it does not outlive the process.
pub fn store(
    settings: &Settings,
    egress: &Arc<egress::EgressState>,
    clock: &Arc<dyn Clock>,
    disk: Option<Disk>,
) -> Arc<Store> {
    Store::new(settings.store(), fetcher(settings, egress, clock), Arc::clone(clock), disk)
}

/// The fetcher of robots.txt files. Its egress keeps no connections: each is closed after its
/// fetch. On a worker, https origins are fetched through the worker's.
pub(super) fn fetcher(
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
