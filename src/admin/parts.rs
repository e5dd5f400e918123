//! The parts of the proxy that the admin listener reads: metrics, readiness and control.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::reloads::Reloads;
use super::token::Token;
use crate::audit::Writer;
use crate::ca::Leaves;
use crate::clients::ClientAdmission;
use crate::egress;
use crate::engine::Engine;
use crate::proxy::{DecisionMetrics, RequestMetrics};
use crate::runtime::clock::Clock;
use crate::store::Store;
use crate::types::timestamp::Timestamp;
use crate::watch::Watch;

/// The parts of the proxy that the admin listener reports on.
#[derive(Debug)]
pub struct MonitoredParts {
    pub store: Arc<Store>,
    pub audit: Arc<Writer>,
    pub request_metrics: Arc<RequestMetrics>,
    pub decision_metrics: Arc<DecisionMetrics>,
    pub watch: Arc<Watch>,
    pub egress: Arc<egress::EgressState>,
    pub leaves: Arc<Leaves>,
    pub reloads: Arc<Reloads>,
    pub admission: Arc<ClientAdmission>,
    /// What several proxies share, if there is an engine.
    pub engine: Option<Arc<dyn Engine>>,
    /// The proxy is not ready before the engine has been reached.
    pub is_engine_required: bool,
    /// The token that requests need.
    pub token: Arc<Token>,
    pub clock: Arc<dyn Clock>,
    /// When the process began.
    pub started: Timestamp,
    /// The proxy takes no more requests.
    pub draining: AtomicBool,
}
