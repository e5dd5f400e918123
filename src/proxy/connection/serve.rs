//! A connection that speaks HTTP/1 to us, from the first byte to the last: a client's own, or what
//! runs inside a CONNECT of it. The HTTP engine is there only while it has something to do: a client
//! that is silent for a moment costs the bytes of this task, and no more.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tracing::debug;

use crate::proxy::connection::client_io::{ClientIo, Deadlines, LargeHeads};
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::connection::http1::{self, Outcome};
use crate::proxy::exchange::connection_context::Channel;
use crate::proxy::exchange::drain::drain_begins;
use crate::proxy::framing::Framing;
use crate::proxy::limits::LINGER;
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::response::respond::raw_refusal;
use crate::runtime::box_future::box_future;

/// Bytes read, and thrown away, from a connection that is being closed.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub deadlines: Deadlines,
    /// Bytes of a request's head.
    pub head_max: usize,
    pub fields_max: usize,
    /// Whether a target is refused that has bytes which no URL has as themselves.
    pub strict_target: bool,
}

/// Serves HTTP/1 on `stream` until either side has had enough of it, or the channel's stop lets the
/// request under way be the last. With `turned_away`, that is the answer to whatever is asked.
///
/// Whatever is not needed by a client that does nothing is on the heap, and comes and goes.
pub async fn serve<S>(stream: S, channel: Arc<Channel>, turned_away: Option<Refusal>)
where
    S: ClientStream + Send + 'static,
{
    let turned_away = turned_away.map(Arc::new);
    let mut client_io = new_client_io(stream, &channel);
    loop {
        let came = tokio::select! {
            // What has come before the proxy stops is answered.
            biased;
            came = client_io.request() => came,
            () = drain_begins(&channel) => Ok(false),
        };
        if !matches!(came, Ok(true)) {
            return box_future(|| end(client_io, came.map(drop), &channel)).await;
        }
        match box_future(|| http1::run(client_io, &channel, turned_away.clone())).await {
            Outcome::Rests(resting) => client_io = resting,
            Outcome::Ended(client_io, ended) => {
                return box_future(|| end(client_io, ended, &channel)).await;
            }
            Outcome::Left(sequel) => {
                drop((channel, turned_away));
                return sequel.await;
            }
            Outcome::Lost => return,
        }
    }
}

/// It goes from hand to hand, and is large.
fn new_client_io<S>(stream: S, channel: &Channel) -> Box<ClientIo<S>>
where
    S: ClientStream,
{
    let proxy = channel.proxy.load();
    let Limits { deadlines, head_max, fields_max, strict_target } = proxy.limits;
    let framing = Framing::new(head_max, fields_max, strict_target);
    let heads = LargeHeads::new(channel.client.key(), proxy.door.memory(), head_max);
    Box::new(ClientIo::new(stream, Arc::clone(&channel.state), deadlines, framing).holding(heads))
}

/// Says what is still to be said, and closes in stages, so that the last answer survives (RFC 9112 §9.6).
async fn end<S, E: std::fmt::Display>(
    client_io: Box<ClientIo<S>>,
    ended: Result<(), E>,
    channel: &Channel,
) where
    S: ClientStream,
{
    let (client, state) = (channel.client.address, &channel.state);
    if let Err(error) = &ended {
        debug!(%client, "a connection ended: {error}");
    }
    // Behind an answer that did not get out whole nothing more is said.
    let refusal = state.take_refusal().filter(|_| ended.is_ok());
    if let Some(foreign) = refusal.as_ref().and_then(|refusal| refusal.foreign) {
        channel.proxy.load().metrics.foreign_protocols.log(&channel.client, foreign);
    }
    let last = refusal.map(|refusal| raw_refusal(&refusal));
    let is_shut = client_io.is_shut();
    let mut stream = client_io.into_inner();
    if let Some(answer) = &last {
        let _ = timeout(LINGER, stream.write_all(answer)).await;
    }
    if !is_shut {
        let _ = timeout(LINGER, stream.shutdown()).await;
    }
    // A reset caused by bytes that nobody read would take the last answer away again.
    if last.is_some() || state.has_unread_content() {
        let _ = timeout(LINGER, discard(&mut stream)).await;
    }
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
