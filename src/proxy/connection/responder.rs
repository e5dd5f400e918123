//! The response to one request of a client, over HTTP/1 or HTTP/2: the service makes it; here it
//! gets what belongs to the connection.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::DATE;
use http::{Method, Response, StatusCode, Version};
use hyper::body::Incoming;

use super::service::Service;
use crate::egress::boxed_request::BoxedRequest;
use crate::proxy::connection::state::body::Body;
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::outcome::rejection::Rejection;
use crate::proxy::response::respond;
use crate::runtime::{box_future, clock};

/// Responds to one request by `service`; with `rejection`, by that.
pub async fn respond_to(
    request: BoxedRequest<Incoming>,
    context: Arc<ConnectionContext>,
    service: impl Service,
    rejection: Option<Arc<Rejection>>,
) -> Result<Response<Body>, Infallible> {
    let mut response = if let Some(rejection) = rejection {
        context.state.note_unread_content();
        respond::connection_rejected(&rejection, &request.head)
    } else {
        let head = &request.head;
        let may_close = head.version < Version::HTTP_2 && head.method != Method::CONNECT;
        // Boxed: hyper has room for this future for as long as it is there.
        let response = box_future(|| service.handle(request, &context)).await;
        let is_last =
            context.shutdown.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS;
        // RFC 9112 §9.6: the last response says that it is the last.
        if is_last && may_close { respond::with_close(response) } else { response }
    };
    // RFC 9110 §6.6.1: a response of an origin without a date gets one here, too.
    if !response.headers().contains_key(DATE) {
        response.headers_mut().insert(DATE, clock::http_date());
    }
    Ok(response)
}
