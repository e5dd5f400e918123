//! A client's own connection, by the protocol of its first bytes.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::serve;
use super::exchange::connection_context::ConnectionContext;
use super::exchange::drain::drain_begins;
use super::instance::Current;
use super::outcome::rejection::Rejection;
use super::socks;
use crate::runtime::box_future::box_future;

/// Serves a client's connection to the proxy, from its first byte to its last, in the protocol that
/// the client speaks. With `rejection`, that is the response to every request.
pub async fn serve_client(
    stream: TcpStream,
    context: Arc<ConnectionContext>,
    current: Current,
    rejection: Option<Rejection>,
) {
    let idle = current.load().limits.timeouts.idle;
    let first = tokio::select! {
        // What came before the shutdown is served.
        biased;
        first = timeout(idle, first_byte(&stream)) => first.ok().flatten(),
        () = drain_begins(&context) => None,
    };
    match first {
        Some(socks::VERSION) => {
            box_future(|| socks::serve(stream, context, current, rejection.is_some())).await;
        }
        Some(_) => serve(stream, context, current, rejection).await,
        None => {}
    }
}

/// The first byte that the client sends, which is left to be read. `None`: it sends none.
async fn first_byte(stream: &TcpStream) -> Option<u8> {
    let mut first = [0];
    let count = stream.peek(&mut first).await.ok()?;
    (count > 0).then_some(first[0])
}
