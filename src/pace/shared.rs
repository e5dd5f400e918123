//! What all lanes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use arc_swap::ArcSwap;

use super::cluster::Cluster;
use super::config::Config;
use super::stats::Stats;
use super::ticks::Ticks;
use super::timer::Timer;
use super::visits::Visits;
use crate::runtime::clock::Clock;

#[derive(Debug)]
pub(super) struct Shared {
    pub config: ArcSwap<Config>,
    pub ticks: Ticks,
    pub timer: Timer,
    pub stats: Stats,
    pub visits: Visits,
    pub cluster: Cluster,
    /// Requests that wait.
    pub waiting: AtomicUsize,
    /// A long hold has begun that is not written yet.
    pub has_new_holds: AtomicBool,
}

impl Shared {
    pub(super) fn new(config: Config, clock: Arc<dyn Clock>) -> Arc<Self> {
        let ticks = Ticks::new(clock);
        Arc::new(Self {
            config: ArcSwap::from_pointee(config),
            timer: Timer::new(ticks.clone()),
            ticks,
            stats: Stats::default(),
            visits: Visits::default(),
            cluster: Cluster::default(),
            waiting: AtomicUsize::new(0),
            has_new_holds: AtomicBool::new(false),
        })
    }
}
