//! Runs hyper on the connection of a client, from a request to the next idle moment, or to the end.

use std::convert::Infallible;
use std::sync::Arc;

use http::header::DATE;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::client_io::ClientIo;
use super::client_stream::ClientStream;
use super::service::{Limits, Service};
use crate::egress::boxed_request::BoxedRequest;
use crate::egress::limits::HYPER_HEADERS_MAX;
use crate::proxy::client_state::body::Body;
use crate::proxy::client_state::connection_context::ConnectionContext;
use crate::proxy::client_state::connection_state::AfterUpgrade;
use crate::proxy::client_state::drain::wait_for_drain;
use crate::proxy::outcome::rejection::Rejection;
use crate::proxy::response::respond;
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::runtime::lock::Lock;

/// How hyper ended its turn.
pub enum ConnectionEnd<S> {
    /// No request is under way: the connection waits without hyper.
    Idle(Box<ClientIo<S>>),
    /// The connection is to be closed.
    Ended(Box<ClientIo<S>>, hyper::Result<()>),
    /// The connection has left HTTP: a tunnel goes on, or what runs inside a CONNECT.
    Upgraded(AfterUpgrade),
    /// The connection is closed.
    Lost,
}

/// Serves the requests that come by `client_io`. With `rejection`, that is the response to each.
pub async fn run<S, P>(
    mut client_io: Box<ClientIo<S>>,
    context: &Arc<ConnectionContext>,
    service: &P,
    rejection: Option<Arc<Rejection>>,
) -> ConnectionEnd<S>
where
    S: ClientStream + Send + 'static,
    P: Service,
{
    let limits = service.limits();
    let (responder, responder_context) = (service.clone(), Arc::clone(context));
    let upgrade = Arc::new(Lock::new(None));
    let last_upgrade = Arc::clone(&upgrade);
    let hyper_service = service_fn(move |request: Request<Incoming>| {
        if let Some(wanted) = request.extensions().get::<OnUpgrade>() {
            *last_upgrade.lock() = Some(wanted.clone());
        }
        let context = Arc::clone(&responder_context);
        respond_to(request.into(), context, responder.clone(), rejection.clone())
    });
    let preserves_case = client_io.choose_case();
    let mut connection = hyper_builder(limits, preserves_case)
        .serve_connection(TokioIo::new(client_io), hyper_service)
        .with_upgrades();
    let ended = tokio::select! {
        // hyper must have read the request before `graceful_shutdown`, or it closes without a
        // response.
        biased;
        ended = &mut connection => ended,
        () = wait_for_drain(context) => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if let Some(parts) = connection.into_parts() {
        let client_io = parts.io.into_inner();
        return match ended {
            Ok(()) if client_io.rests() && parts.read_buf.is_empty() => {
                ConnectionEnd::Idle(client_io)
            }
            ended => ConnectionEnd::Ended(client_io, ended),
        };
    }
    if let Some(after) = context.state.take_after_upgrade() {
        return ConnectionEnd::Upgraded(after);
    }
    let unused = upgrade.lock().take();
    match reclaim(unused).await {
        Some(client_io) => ConnectionEnd::Ended(client_io, ended),
        None => ConnectionEnd::Lost,
    }
}

/// hyper's settings for one connection.
fn hyper_builder(limits: Limits, preserves_case: bool) -> http1::Builder {
    let mut builder = http1::Builder::new();
    if limits.headers_max != HYPER_HEADERS_MAX {
        builder.max_headers(limits.headers_max);
    }
    builder
        .half_close(true)
        // The proxy's own date is valid whatever the clock says.
        .auto_date_header(false)
        .preserve_header_case(preserves_case)
        // `ClientIo` has the timeouts: hyper's own would also count the time between requests.
        .header_read_timeout(None)
        .max_header_size(limits.head_max)
        .max_buf_size(limits.head_max);
    builder
}

/// The connection of a request that asked for an upgrade and got none: hyper gives it away all the
/// same, and it is to be closed.
async fn reclaim<S: ClientStream + Send + 'static>(
    unused: Option<OnUpgrade>,
) -> Option<Box<ClientIo<S>>> {
    let upgraded = unused?.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Box<ClientIo<S>>>>().ok()?;
    Some(parts.io.into_inner())
}

/// Responds to one request, over HTTP/1 or HTTP/2.
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
