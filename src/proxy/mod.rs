//! The life of a request: its target, the decision on it, and the origin's response or the proxy's.
//!
//! [`Proxy::handle`] in `handle.rs` is the whole path of one.

mod connect;
pub mod connection;
mod decision;
pub mod denial;
pub mod destination;
mod detect_protocol;
pub mod forward;
mod framing;
pub mod handle;
pub mod hop_by_hop;
mod listener_tls;
mod observe;
pub mod rejection;
pub mod response;
mod socks;
#[doc(hidden)]
pub mod test_hooks;
pub mod upgrade;

use std::time::Duration;

pub use crate::types::problem::{OWN_NAME, Problem};
pub use connect::redirect_kind::RedirectKind;
pub use connect::tunnel::Pipes;
pub use connect::{Https, HttpsMode, TunnelEnds, transparent};
pub use connection::body::Body;
pub use connection::client_io::Timeouts;
pub use connection::connection_state::ConnectionContext;
pub use connection::{Limits, Service};
pub use decision::decision_context::RobotsSummaryCache;
pub use decision::gate::Gate;
pub use decision::rules::{AgentRule, MixedHosts, Mode, OriginRule, Rules};
pub use destination::Scope;
pub use detect_protocol::serve_client;
pub use forward::Forwarding;
pub use handle::{CurrentProxy, Proxy};
pub use hop_by_hop::Via;
pub use listener_tls::{ListenerTls, ListenerTlsError};
pub use observe::access_log::ACCESS;
pub use observe::decision_log::{DECISION_LOG, EACH_DECISION};
pub use observe::decision_metrics::{DecisionCounts, DecisionMetrics};
pub use observe::request_metrics::{RequestCounts, RequestMetrics};
pub use observe::run_observer::{DecisionEvent, DenialEvent, MissingFile, RunEvent, RunObserver};
pub use observe::run_tally::{Few, HostTally, MissingCounts, Progress, RuleKey, RunReport};
pub use rejection::Rejection;
pub use upgrade::UpgradeProtocol;

/// How long hyper's state of an idle HTTP/1 connection is kept, for each request that the connection
/// has made. New state costs a sixth of a request: a client that sends request after request hardly
/// ever pays it.
pub const HTTP1_STATE_IDLE: Duration = Duration::from_millis(100);
/// The same at most.
pub const HTTP1_STATE_IDLE_MAX: Duration = Duration::from_secs(3);

/// Bytes for a client that may wait in the system to be sent, beside those in flight (Linux:
/// TCP_NOTSENT_LOWAT). For a slow client, the proxy reads that many from the origin beyond its own
/// buffers; without the bound, the system would accept megabytes. It is the size of the largest
/// piece that the system sends at once: half of it makes a large response a tenth more expensive,
/// and more makes it no cheaper.
pub const CLIENT_UNSENT_BYTES_MAX: u32 = 64 << 10;

/// Bytes of a request target that hyper takes. RFC 9112 §3 asks for 8,000 at the least.
pub const TARGET_BYTES_MAX: usize = 65_534;

/// Bytes read at once from one direction of an upgraded connection.
pub const TUNNEL_BUFFER_BYTES: usize = 16 * 1024;

/// How long a proxy that shuts down waits for the first request of a client that has just
/// connected.
pub const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// How long a connection that is being closed is read from, so that the last answer arrives.
pub const LINGER: Duration = Duration::from_secs(1);

/// Distinct origins that the summary of one run counts.
pub const ORIGINS_COUNTED_MAX: usize = 100_000;

/// Concurrent requests on one HTTP/2 connection of a client: the least that RFC 9113 §6.5.2
/// recommends.
pub const H2_STREAMS_MAX: u32 = 100;

/// The same when there is no memory for that many refused streams.
pub const H2_STREAMS_FEW: u32 = 10;

/// Bytes of content that a client may send on one HTTP/2 stream before the origin accepts them, and
/// those of all streams of the connection.
pub const H2_STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The flow-control window of an HTTP/2 connection (RFC 9113 §5.2).
pub const H2_CONNECTION_WINDOW_BYTES: u32 = H2_STREAM_WINDOW_BYTES * H2_STREAMS_MAX;
