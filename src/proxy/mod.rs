//! The life of a request: its target, the decision on it, and the origin's response or the proxy's.
//!
//! [`Proxy::handle`] in `handle.rs` is the whole path of one.

mod before_decision;
mod client_protocol;
mod connect;
mod connection;
mod decision;
mod forward;
mod framing;
mod handle;
mod instance;
pub mod limits;
mod listener_tls;
mod observe;
mod outcome;
mod request;
mod response;
mod socks;
#[doc(hidden)]
pub mod test_hooks;
mod turn;

pub use client_protocol::serve_client;
pub use connect::redirect_kind::RedirectKind;
pub use connect::transparent;
pub use connect::tunnel::Pipes;
pub use connect::{Https, HttpsMode, TunnelEnds};
pub use connection::client_io::Timeouts;
pub use connection::state::body::Body;
pub use connection::state::connection_context::ConnectionContext;
pub use connection::{Limits, Service};
pub use decision::gate::Gate;
pub use decision::robots_summary_cache::RobotsSummaryCache;
pub use decision::rules::{AgentRule, MixedHosts, Mode, OriginRule, Rules};
pub use forward::Forwarding;
pub use instance::{CurrentProxy, Proxy};
pub use listener_tls::{ListenerTls, ListenerTlsError};
pub use observe::access_log::ACCESS;
pub use observe::decision_log::EACH_DECISION;
pub use observe::decision_metrics::{DecisionCounts, DecisionMetrics};
pub use observe::request_metrics::{RequestCounts, RequestMetrics};
pub use outcome::rejection::Rejection;
pub use request::target::Scope;
pub use request::upgrade_protocol::Protocol;
pub use request::via::Via;

pub use crate::types::problem::{OWN_NAME, Problem};
