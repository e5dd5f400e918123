//! Runs hyper on the connection of a client, from a request until the connection is idle or ends.

use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::client_io::ClientIo;
use super::client_socket::ClientStream;
use super::connection_state::{AfterUpgrade, ConnectionContext, wait_for_drain};
use super::service::{Limits, Service, respond_to};
use crate::proxy::rejection::Rejection;
use crate::runtime::lock::Lock;

/// What follows on a connection when hyper has ended.
pub enum NextStep<S> {
    /// The connection is idle, and waits for its next request without hyper.
    Idle(Box<ClientIo<S>>),
    /// The connection is to be closed, after this result of hyper.
    Close(Box<ClientIo<S>>, hyper::Result<()>),
    /// The connection has left HTTP: this runs a tunnel, or what is inside a CONNECT.
    Upgraded(AfterUpgrade),
    /// The connection has been closed.
    Closed,
}

/// Serves the requests that are read from `client_io`, until it is idle or ends. With `rejection`,
/// that is the response to each.
pub async fn serve_requests<S, P>(
    client_io: Box<ClientIo<S>>,
    context: &Arc<ConnectionContext>,
    service: &P,
    rejection: Option<Arc<Rejection>>,
) -> NextStep<S>
where
    S: ClientStream + Send + 'static,
    P: Service,
{
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
    let mut connection = hyper_builder(service.limits())
        .serve_connection(TokioIo::new(client_io), hyper_service)
        .with_upgrades();
    let result = tokio::select! {
        // hyper must have read the request before `graceful_shutdown`, or it closes without a
        // response.
        biased;
        result = &mut connection => result,
        () = wait_for_drain(context) => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    match connection.into_parts() {
        Some(parts) => after_http(parts.io.into_inner(), parts.read_buf.is_empty(), result),
        None => {
            let upgrade = upgrade.lock().take();
            after_upgrade(context, upgrade, result).await
        }
    }
}

/// What follows on a connection that is still one of HTTP; `is_read_whole`: hyper has no bytes of
/// it left.
fn after_http<S: ClientStream>(
    client_io: Box<ClientIo<S>>,
    is_read_whole: bool,
    result: hyper::Result<()>,
) -> NextStep<S> {
    if result.is_ok() && client_io.is_without_hyper() && is_read_whole {
        NextStep::Idle(client_io)
    } else {
        NextStep::Close(client_io, result)
    }
}

/// What follows on a connection that hyper has given to `upgrade`.
async fn after_upgrade<S: ClientStream + Send + 'static>(
    context: &ConnectionContext,
    upgrade: Option<OnUpgrade>,
    result: hyper::Result<()>,
) -> NextStep<S> {
    if let Some(after) = context.state.take_after_upgrade() {
        return NextStep::Upgraded(after);
    }
    match reclaim(upgrade).await {
        Some(client_io) => NextStep::Close(client_io, result),
        None => NextStep::Closed,
    }
}

/// hyper's settings for one connection.
fn hyper_builder(limits: Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        // The proxy's own date is valid whatever the clock says.
        .auto_date_header(false)
        // `ClientIo` has the timeouts: hyper's own would also count the time between requests.
        .header_read_timeout(None)
        .max_header_size(limits.head_max)
        .max_buf_size(limits.head_max);
    builder
}

/// The connection of a request that asked for an upgrade and got none: hyper gives it to the
/// upgrade all the same, and it is to be closed.
async fn reclaim<S: ClientStream + Send + 'static>(
    unused: Option<OnUpgrade>,
) -> Option<Box<ClientIo<S>>> {
    let upgraded = unused?.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Box<ClientIo<S>>>>().ok()?;
    Some(parts.io.into_inner())
}
