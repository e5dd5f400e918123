//! What a connection needs of the proxy that it serves.

use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;

use super::client_io::Timeouts;
use crate::clients::{BodyMemory, Client};
use crate::egress::boxed_request::BoxedRequest;
use crate::proxy::connection::state::body::Body;
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::framing::foreign_protocol::ForeignProtocol;

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeouts: Timeouts,
    /// Bytes of a request's head.
    pub head_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// Whether a target is refused that has bytes no URL has unencoded.
    pub strict_target: bool,
}

/// Responds to the requests of connections. A clone is another handle of the same service. Settings
/// may change between two calls: each takes those of its moment.
pub trait Service: Clone + Send + Sync + 'static {
    /// The bounds for a connection that begins now.
    fn limits(&self) -> Limits;

    /// The memory that requests under way share.
    fn memory(&self) -> Arc<BodyMemory>;

    /// Responds to one request that came on the connection of `context`.
    fn handle(
        &self,
        request: BoxedRequest<Incoming>,
        context: &ConnectionContext,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Logs that `client` does not speak HTTP.
    fn log_foreign_protocol(&self, client: &Client, protocol: ForeignProtocol);
}
