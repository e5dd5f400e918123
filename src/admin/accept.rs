//! Accepts connections until shutdown.

use std::collections::VecDeque;
use std::io;

use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::listener::ACCEPT_RETRY_INTERVAL;

/// Passes each connection of `accept` to `converse`. `to` names the listener in the log.
pub(super) async fn each<T, F: Future<Output = io::Result<T>>>(
    to: &str,
    stop: &CancellationToken,
    accept: impl Fn() -> F,
    mut converse: impl FnMut(T),
) {
    loop {
        let accepted = tokio::select! {
            accepted = accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok(connection) => converse(connection),
            Err(error) => {
                warn!("cannot accept a connection to {to}: {error}");
                sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

/// The connections of a listener on which new ones never wait: beyond a maximum, the oldest is closed.
/// A connection serves one request, which takes moments, so the oldest sends none, or does not read its
/// response.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// In the order in which they came.
    connections: VecDeque<AbortHandle>,
}

impl Newest {
    /// Notes a connection, and closes the oldest where there would be more than `max`.
    pub fn admit(&mut self, connection: AbortHandle, max: usize) {
        self.connections.retain(|other| !other.is_finished());
        while self.connections.len() >= max {
            let Some(oldest) = self.connections.pop_front() else { break };
            oldest.abort();
        }
        self.connections.push_back(connection);
    }
}
