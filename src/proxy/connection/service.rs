//! What a connection needs of the proxy that it serves, and the response to one request of a client,
//! over HTTP/1 or HTTP/2: the service makes it; here it gets what belongs to the connection.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::DATE;
use http::{Method, Response, StatusCode, Version};
use hyper::body::Incoming;

use super::body::Body;
use super::client_io::Timeouts;
use super::connection_state::ConnectionContext;
use crate::clients::{BodyMemory, Client};
use crate::egress::BoxedRequest;
use crate::proxy::framing::foreign_protocol::ForeignProtocol;
use crate::proxy::rejection::Rejection;
use crate::proxy::response;
use crate::runtime::{box_future, clock};

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeouts: Timeouts,
    /// Bytes of a request's head.
    pub head_max: usize,
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

/// Responds to one request by `service`; with `rejection`, by that.
pub async fn respond_to(
    request: BoxedRequest<Incoming>,
    context: Arc<ConnectionContext>,
    service: impl Service,
    rejection: Option<Arc<Rejection>>,
) -> Result<Response<Body>, Infallible> {
    let mut response = if let Some(rejection) = rejection {
        context.state.note_unread_content();
        response::connection_rejected(&rejection, &request.head)
    } else {
        let head = &request.head;
        let may_close = head.version < Version::HTTP_2 && head.method != Method::CONNECT;
        // Boxed: hyper has room for this future for as long as it is there.
        let response = box_future(|| service.handle(request, &context)).await;
        let is_last =
            context.shutdown.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS;
        // RFC 9112 §9.6: the last response says that it is the last.
        if is_last && may_close { response::with_close(response) } else { response }
    };
    // RFC 9110 §6.6.1: a response of an origin without a date gets one here, too.
    if !response.headers().contains_key(DATE) {
        response.headers_mut().insert(DATE, clock::http_date());
    }
    Ok(response)
}
