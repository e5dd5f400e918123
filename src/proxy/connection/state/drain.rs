//! When a connection begins to drain.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection_context::ConnectionContext;
use super::connection_state::ConnectionState;
use crate::proxy::limits::FIRST_REQUEST_GRACE;

/// How often a connection without a request is looked at.
const FIRST_REQUEST_POLL: Duration = Duration::from_millis(10);

/// Returns when the proxy shuts down, and the request under way is to be the last. A client that
/// has just connected has a first request on its way, which no other process can take: it is waited
/// for a little.
pub async fn wait_for_drain(context: &ConnectionContext) {
    context.shutdown.cancelled().await;
    let first = Box::pin(timeout(FIRST_REQUEST_GRACE, first_request(&context.state)));
    first.await.unwrap_or_default();
}

async fn first_request(state: &ConnectionState) {
    while state.requests() == 0 {
        sleep(FIRST_REQUEST_POLL).await;
    }
}
