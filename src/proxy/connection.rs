//! A connection that speaks HTTP to us, from the first octet to the last: a client's own, or what
//! runs inside a CONNECT of it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::body::Body;
use super::channel::Channel;
use super::control::Control;
use super::framing::Framing;
use super::received::Received;
use super::refusal::Refusal;
use super::respond::raw_refusal;
use super::watch::Watch;
use super::wire::{Deadlines, Wire};
use super::{closing, turn_away};
use crate::limits::{
    ENGINES_FIELDS_MAX, FIRST_REQUEST_GRACE, FIRST_REQUEST_LOOK, H2_STREAMS_MAX, HTTP2_SEND_BUFFER_OCTETS,
    LINGER, LINGER_OCTETS_MAX,
};

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub deadlines: Deadlines,
    /// Octets of a request's head.
    pub head_max: usize,
    pub fields_max: usize,
}

/// Serves HTTP/1 on `stream` until either side has had enough of it, or the channel's stop lets the
/// request under way be the last. With `turned_away`, that is the answer to whatever is asked.
pub async fn serve<S>(stream: S, channel: Arc<Channel>, turned_away: Option<Refusal>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = channel.proxy.load().limits;
    let control = Arc::clone(&channel.control);
    let turned_away = turned_away.map(Arc::new);
    let asked_by = Arc::clone(&channel);
    let upgrade = Arc::new(Mutex::new(None));
    let last_upgrade = Arc::clone(&upgrade);
    let service = service_fn(move |request: Request<Incoming>| {
        if let Some(wanted) = request.extensions().get::<OnUpgrade>() {
            *last_upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted.clone());
        }
        answer(request.into(), Arc::clone(&asked_by), turned_away.clone())
    });
    let framing = Framing::new(limits.head_max, limits.fields_max);
    let wire = Wire::new(stream, Arc::clone(&control), limits.deadlines, framing);
    let mut builder = http1::Builder::new();
    if limits.fields_max != ENGINES_FIELDS_MAX {
        builder.max_headers(limits.fields_max);
    }
    let mut connection = builder
        .half_close(true)
        .preserve_header_case(true)
        // The wire has the deadlines: the engine's own would also count the time between requests.
        .header_read_timeout(None)
        .max_header_size(limits.head_max)
        .max_buf_size(limits.head_max)
        .serve_connection(TokioIo::new(wire), service)
        .with_upgrades();
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stopped(&channel) => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if let Err(error) = &ended {
        debug!(client = %channel.client.address, "a connection ended: {error}");
    }
    // Behind an answer that did not get out whole nothing more is said.
    let last = || control.take_refusal().filter(|_| ended.is_ok()).map(|refusal| raw_refusal(&refusal));
    match connection.into_parts() {
        Some(parts) => {
            let stream = parts.io.into_inner().into_inner();
            close(stream, last(), control.may_have_left_unread()).await;
        }
        // The connection has left HTTP: what goes on is a tunnel, or what runs inside a CONNECT.
        None => match control.take_sequel() {
            Some(next) => next.await,
            // Or a request only asked for that: the engine lets go of the connection all the same.
            None => {
                let unused = upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(unused) = unused
                    && let Ok(unused) = unused.await
                    && let Ok(parts) = unused.downcast::<TokioIo<Wire<S>>>()
                {
                    let stream = parts.io.into_inner().into_inner();
                    close(stream, last(), control.may_have_left_unread()).await;
                }
            }
        },
    }
}

/// Serves HTTP/2 on `stream`, inside an intercepted connection (RFC 9113).
pub async fn serve_h2<S>(stream: S, channel: Arc<Channel>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Limits { deadlines, head_max, .. } = channel.proxy.load().limits;
    let asked_by = Arc::clone(&channel);
    let watch = Arc::new(Watch::default());
    let watching = Arc::clone(&watch);
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = answer(request.into(), Arc::clone(&asked_by), None);
        let watch = Arc::clone(&watching);
        async move { answered.await.map(|response| response.map(|body| watch.over(body))) }
    });
    let mut connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS_MAX)
        .max_send_buf_size(HTTP2_SEND_BUFFER_OCTETS)
        .max_header_list_size(u32::try_from(head_max).unwrap_or(u32::MAX))
        .keep_alive_interval(deadlines.idle)
        .serve_connection(TokioIo::new(stream), service);
    let enough = async {
        tokio::select! {
            () = stopped(&channel) => {}
            () = unused(&channel.control, deadlines.idle) => {}
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = watch.run(deadlines.write) => Ok(()),
        () = enough => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            // A stream that the client keeps closed would not let it end.
            timeout(deadlines.write, &mut connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(client = %channel.client.address, "an HTTP/2 connection ended: {error}");
    }
}

/// Returns when the proxy stops, and the request under way is to be the last. Who has only just come
/// has a first one on its way: it is waited for a little, for nobody may take it from us any more.
async fn stopped(channel: &Channel) {
    channel.stop.cancelled().await;
    let first = async {
        while channel.control.exchanges() == 0 {
            sleep(FIRST_REQUEST_LOOK).await;
        }
    };
    let _ = timeout(FIRST_REQUEST_GRACE, first).await;
}

/// Returns when no request has come and none is under way for so long. The engine has no bound on
/// how long a connection may be without a stream.
async fn unused(control: &Control, limit: Duration) {
    let mut before = usize::MAX;
    loop {
        sleep(limit).await;
        let now = control.exchanges();
        if control.is_idle() && now == before {
            return;
        }
        before = now;
    }
}

async fn answer(
    request: Received,
    channel: Arc<Channel>,
    turned_away: Option<Arc<Refusal>>,
) -> Result<Response<Body>, Infallible> {
    Ok(match turned_away {
        None => {
            let proxy = channel.proxy.load_full();
            let head = &request.head;
            let may_say_so = head.version < Version::HTTP_2 && head.method != Method::CONNECT;
            // On the heap: the engine keeps room for this future for as long as a client is there.
            let response = Box::pin(proxy.handle(request, &channel)).await;
            let is_last = channel.stop.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS;
            // RFC 9112 §9.6: the last answer says that it is the last.
            if is_last && may_say_so { closing(response) } else { response }
        }
        Some(refusal) => {
            channel.control.may_leave_unread();
            turn_away(&refusal, &request.head)
        }
    })
}

/// Closes in stages, so that the last answer survives: a reset caused by octets that nobody read
/// would take it away again (RFC 9112 §9.6).
async fn close<S>(mut stream: S, answer: Option<Vec<u8>>, maybe_unread: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(answer) = &answer {
        let _ = timeout(LINGER, stream.write_all(answer)).await;
    }
    let _ = timeout(LINGER, stream.shutdown()).await;
    if answer.is_some() || maybe_unread {
        let _ = timeout(LINGER, discard(&mut stream)).await;
    }
}

async fn discard(stream: &mut (impl AsyncRead + Unpin)) {
    // On the heap: it would be part of every connection's task, from its first moment on.
    let mut buffer = vec![0; 4096];
    let mut left = LINGER_OCTETS_MAX;
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        left = left.saturating_sub(count);
        if left == 0 {
            return;
        }
    }
}
