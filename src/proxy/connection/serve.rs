//! Serves HTTP/1 on a connection, from its first byte to its last: a client's own connection, or
//! what runs inside a CONNECT. hyper is there only while it has something to do, so that
//! a silent client costs the bytes of this task and no more.

use std::fmt::Display;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tracing::debug;

use super::client_io::{ClientIo, LargeHeads};
use super::client_socket::ClientStream;
use super::connection_state::{ConnectionContext, wait_for_drain};
use super::http1::{self, NextStep};
use super::service::{Limits, Service};
use crate::proxy::LINGER;
use crate::proxy::framing::{Framing, head};
use crate::proxy::rejection::Rejection;
use crate::proxy::response::raw_rejection;
use crate::runtime::box_future;

/// Bytes read, and discarded, from a connection that is being closed.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Serves HTTP/1 on `stream` until either side ends it, or the shutdown lets the request under way
/// be the last. With `rejection`, that is the response to every request.
///
/// What an idle client does not need is boxed, and freed while it idles.
pub async fn serve<S, P>(
    stream: S,
    context: Arc<ConnectionContext>,
    service: P,
    rejection: Option<Rejection>,
) where
    S: ClientStream + Send + 'static,
    P: Service,
{
    let rejection = rejection.map(Arc::new);
    let mut client_io = new_client_io(stream, &context, &service);
    loop {
        let has_request = tokio::select! {
            // A request that was sent before the shutdown gets its response.
            biased;
            has_request = client_io.wait_for_request() => has_request,
            () = wait_for_drain(&context) => Ok(false),
        };
        if !matches!(has_request, Ok(true)) {
            return box_future(|| close(client_io, has_request.map(drop), &context, &service))
                .await;
        }
        let rejection = rejection.clone();
        match box_future(|| http1::serve_requests(client_io, &context, &service, rejection)).await {
            NextStep::Idle(idle) => client_io = idle,
            NextStep::Close(client_io, result) => {
                return box_future(|| close(client_io, result, &context, &service)).await;
            }
            NextStep::Upgraded(after) => {
                drop((context, service));
                return after.await;
            }
            NextStep::Closed => return,
        }
    }
}

/// Boxed: it is large, and moved often.
fn new_client_io<S: ClientStream>(
    stream: S,
    context: &ConnectionContext,
    service: &impl Service,
) -> Box<ClientIo<S>> {
    let Limits { timeouts, head_max } = service.limits();
    let framing = Framing::new(head_max, head::FIELDS_MAX);
    let heads = LargeHeads::new(context.client.key(), &service.memory(), head_max);
    Box::new(
        ClientIo::new(stream, Arc::clone(&context.state), timeouts, framing)
            .with_large_heads(heads),
    )
}

/// Sends the last response, if one is due, and closes in stages, so that the client receives it
/// (RFC 9112 §9.6).
async fn close<S: ClientStream, E: Display>(
    client_io: Box<ClientIo<S>>,
    result: Result<(), E>,
    context: &ConnectionContext,
    service: &impl Service,
) {
    let (client, state) = (&context.client, &context.state);
    if let Err(error) = &result {
        debug!(client = %client.address, "a connection ended: {error}");
    }
    // Nothing follows a response that was cut off.
    let rejection = state.take_rejection().filter(|_| result.is_ok());
    if let Some(protocol) = rejection.as_ref().and_then(|rejection| rejection.foreign) {
        service.log_foreign_protocol(client, protocol);
    }
    let last = rejection.map(|rejection| raw_rejection(&rejection));
    let is_shut = client_io.is_shut();
    let mut stream = client_io.into_inner();
    if let Some(response) = &last {
        let _ = timeout(LINGER, stream.write_all(response)).await;
    }
    // Unread bytes would cause a reset, which would take the last response away from the client.
    if last.is_some() || state.has_unread_content() {
        close_in_stages(stream).await;
    } else if !is_shut {
        let _ = timeout(LINGER, stream.shutdown()).await;
    }
}

/// Ends this side of `stream`, and reads on for a while before it is closed (RFC 9112 §9.6).
pub async fn close_in_stages(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let _ = timeout(LINGER, stream.shutdown()).await;
    let _ = timeout(LINGER, discard(&mut stream)).await;
}

async fn discard(stream: &mut (impl AsyncRead + Unpin)) {
    let mut buffer = vec![0; 4096];
    let mut left = LINGER_BYTES_MAX;
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        left = left.saturating_sub(count);
        if left == 0 {
            return;
        }
    }
}
