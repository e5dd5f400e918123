//! How connections are taken: so many at a time, until it is told to stop. Who comes when all places
//! are taken waits in the system's queue.

use std::io;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::limits::ACCEPT_PAUSE;

/// Hands each connection that `accept` gives to `converse`, with its place: to be held as long as it
/// lasts. `to`: what they are connections to.
pub(super) async fn each<T, F: Future<Output = io::Result<T>>>(
    to: &str,
    places_max: usize,
    stop: &CancellationToken,
    accept: impl Fn() -> F,
    converse: impl Fn(T, OwnedSemaphorePermit),
) {
    let places = Arc::new(Semaphore::new(places_max));
    let next = async || {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        Ok::<_, io::Error>((accept().await?, place))
    };
    loop {
        let accepted = tokio::select! {
            accepted = next() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, place)) => converse(stream, place),
            Err(error) => {
                warn!("cannot accept a connection to {to}: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
