//! One worker's proxy: the parts that its requests are handled with.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::connect::Https;
use super::connection::Limits;
use super::decision::gate::Gate;
use super::forward::Forwarding;
use super::listener_tls::ListenerTls;
use super::observe::request_metrics::RequestMetrics;
use crate::ca::Leaves;
use crate::clients::ClientAdmission;

/// A worker's proxy as it is now. Each request is handled by the one that is there when it comes:
/// new settings apply from the next request on, and one under way ends under those it began with.
pub type CurrentProxy = Arc<ArcSwap<Proxy>>;

/// One worker's proxy.
#[derive(Debug)]
pub struct Proxy {
    pub gate: Arc<Gate>,
    pub forwarding: Forwarding,
    pub metrics: Arc<RequestMetrics>,
    pub limits: Limits,
    pub https: Https,
    /// For the first bytes inside a CONNECT, and for the TLS handshake.
    pub handshake_timeout: Duration,
    /// TLS between clients and the proxy itself.
    pub listener_tls: ListenerTls,
    pub leaves: Arc<Leaves>,
    pub admission: Arc<ClientAdmission>,
}
