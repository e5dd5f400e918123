//! The HTTP/1 engine's turn with a connection: from a request that has come to the next moment in
//! which nothing is asked, or to the end.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::DATE;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::egress::limits::ENGINES_FIELDS_MAX;
use crate::proxy::Received;
use crate::proxy::connection::client_io::ClientIo;
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::exchange::body::Body;
use crate::proxy::exchange::connection_context::Channel;
use crate::proxy::exchange::connection_state::AfterUpgrade;
use crate::proxy::exchange::drain::drain_begins;
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::response::respond;
use crate::runtime::box_future::box_future;
use crate::runtime::clock;

/// How the engine has let go of a connection.
pub enum Outcome<S> {
    /// Nothing is asked at the moment: the wire waits without an engine.
    Rests(Box<ClientIo<S>>),
    /// The connection is to be closed.
    Ended(Box<ClientIo<S>>, hyper::Result<()>),
    /// The connection has left HTTP: what goes on is a tunnel, or what runs inside a CONNECT.
    Left(AfterUpgrade),
    /// Nobody has it any more.
    Lost,
}

/// Serves what comes by `wire`. With `turned_away`, that is the answer.
pub async fn run<S>(
    mut client_io: Box<ClientIo<S>>,
    channel: &Arc<Channel>,
    turned_away: Option<Arc<Refusal>>,
) -> Outcome<S>
where
    S: ClientStream + Send + 'static,
{
    let limits = channel.proxy.load().limits;
    let asked_by = Arc::clone(channel);
    let upgrade = Arc::new(Mutex::new(None));
    let last_upgrade = Arc::clone(&upgrade);
    let service = service_fn(move |request: Request<Incoming>| {
        if let Some(wanted) = request.extensions().get::<OnUpgrade>() {
            *last_upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted.clone());
        }
        answer(request.into(), Arc::clone(&asked_by), turned_away.clone())
    });
    let mut builder = http1::Builder::new();
    if limits.fields_max != ENGINES_FIELDS_MAX {
        builder.max_headers(limits.fields_max);
    }
    let mut connection = builder
        .half_close(true)
        // Ours is within what a date can be, whatever the clock says.
        .auto_date_header(false)
        .preserve_header_case(client_io.choose_case())
        // The wire has the deadlines: the engine's own would also count the time between requests.
        .header_read_timeout(None)
        .max_header_size(limits.head_max)
        .max_buf_size(limits.head_max)
        .serve_connection(TokioIo::new(client_io), service)
        .with_upgrades();
    let ended = tokio::select! {
        // First: the request that it is here for is one under way when the proxy stops.
        biased;
        ended = &mut connection => ended,
        () = drain_begins(channel) => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if let Some(parts) = connection.into_parts() {
        let client_io = parts.io.into_inner();
        return match ended {
            Ok(()) if client_io.rests() && parts.read_buf.is_empty() => Outcome::Rests(client_io),
            ended => Outcome::Ended(client_io, ended),
        };
    }
    if let Some(sequel) = channel.state.take_after_upgrade() {
        return Outcome::Left(sequel);
    }
    // A request only asked to leave HTTP: the engine lets go of the connection all the same.
    let unused = upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(unused) = unused
        && let Ok(unused) = unused.await
        && let Ok(parts) = unused.downcast::<TokioIo<Box<ClientIo<S>>>>()
    {
        return Outcome::Ended(parts.io.into_inner(), ended);
    }
    Outcome::Lost
}

/// Answers one request, over HTTP/1 or HTTP/2.
pub async fn answer(
    request: Received,
    channel: Arc<Channel>,
    turned_away: Option<Arc<Refusal>>,
) -> Result<Response<Body>, Infallible> {
    let mut response = match turned_away {
        None => {
            let proxy = channel.proxy.load_full();
            let head = &request.head;
            let may_say_so = head.version < Version::HTTP_2 && head.method != Method::CONNECT;
            // On the heap: the engine keeps room for this future for as long as it is there.
            let response = box_future(|| proxy.handle(request, &channel)).await;
            let is_last =
                channel.stop.is_triggered() && response.status() != StatusCode::SWITCHING_PROTOCOLS;
            // RFC 9112 §9.6: the last answer says that it is the last.
            if is_last && may_say_so { respond::with_close(response) } else { response }
        }
        Some(refusal) => {
            channel.state.note_unread_content();
            respond::connection_refused(&refusal, &request.head)
        }
    };
    // RFC 9110 §6.6.1: also an answer that has none gets its date here.
    if !response.headers().contains_key(DATE) {
        response.headers_mut().insert(DATE, clock::http_date());
    }
    Ok(response)
}
