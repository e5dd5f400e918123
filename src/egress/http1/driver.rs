//! hyper's connection, which reads and writes the messages.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::Connection;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::read_limit::ReadLimited;
use crate::egress::body::RequestBody;

/// The response to a request, as hyper reads it; the error carries the request when nothing of it
/// was sent.
pub type HyperResponse = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

/// What a connection is made over.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// hyper's connection. It ends with the connection; its errors reach the exchange in use.
pub trait Driver: Send {
    /// Reads and writes messages, until there are no more.
    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Closes the stream behind the last message.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The same, for a request that may change the protocol of the connection.
    fn with_upgrades(self: Box<Self>) -> Box<dyn Driver>;

    /// The stream, and what has come of a response that hyper does not take, if hyper has consumed
    /// nothing of it.
    fn into_unread(self: Box<Self>) -> Option<(Box<dyn Stream>, Bytes)>;
}

impl<S: Stream + 'static> Driver for Connection<TokioIo<ReadLimited<S>>, RequestBody> {
    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_without_shutdown(cx).map(drop)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(self).poll(cx).map(drop)
    }

    fn with_upgrades(self: Box<Self>) -> Box<dyn Driver> {
        Box::new(Upgradeable(Some((*self).with_upgrades())))
    }

    fn into_unread(self: Box<Self>) -> Option<(Box<dyn Stream>, Bytes)> {
        let parts = self.into_parts();
        let stream = parts.io.into_inner().into_stream(parts.read_buf.len())?;
        Some((Box::new(stream), parts.read_buf))
    }
}

/// A connection that hyper hands over with its response of 101; `None` when it has ended.
struct Upgradeable<F>(Option<F>);

impl<F: Future<Output = hyper::Result<()>> + Unpin + Send + 'static> Driver for Upgradeable<F> {
    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(connection) = &mut self.0 else { return Poll::Ready(()) };
        let poll = Pin::new(connection).poll(cx).map(drop);
        if poll.is_ready() {
            self.0 = None;
        }
        poll
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn with_upgrades(self: Box<Self>) -> Box<dyn Driver> {
        self
    }

    fn into_unread(self: Box<Self>) -> Option<(Box<dyn Stream>, Bytes)> {
        None
    }
}

/// Drives a connection to its end.
pub async fn run(mut driver: Box<dyn Driver>) {
    poll_fn(|cx| driver.poll_messages(cx)).await;
    poll_fn(|cx| driver.poll_shutdown(cx)).await;
}
