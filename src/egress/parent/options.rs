//! `OPTIONS *` by a parent that forwards: in absolute-form the target has no path (RFC 9112 §3.2.4),
//! which the HTTP engine does not write.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const METHOD: &[u8] = b"OPTIONS ";

/// Whether the next request is to be sent without its path, a slash.
#[derive(Clone, Debug, Default)]
pub struct WithoutPath(Arc<AtomicBool>);

impl WithoutPath {
    /// The next request is.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// A stream to a parent, over which one request at a time goes.
#[derive(Debug)]
pub struct OptionsStream<S> {
    stream: S,
    without_path: WithoutPath,
    /// The beginning of a request that is yet to be written.
    begun: Vec<u8>,
}

impl<S> OptionsStream<S> {
    /// Over `stream`, for requests of which `without_path` says how they are sent.
    pub const fn new(stream: S, without_path: WithoutPath) -> Self {
        Self { stream, without_path, begun: Vec::new() }
    }
}

impl<S: AsyncWrite + Unpin> OptionsStream<S> {
    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.begun.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.begun))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.begun.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

/// The bytes of `head` up to the slash that is its path, and those of the slash; `None`: it has
/// another target.
fn before_path(head: &[u8]) -> Option<usize> {
    let target = head.strip_prefix(METHOD)?;
    let end = memchr::memchr(b' ', target)?;
    target[..end].ends_with(b"/").then_some(METHOD.len() + end - 1)
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OptionsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_begun(cx))?;
        if self.without_path.take()
            && let Some(end) = before_path(buf)
        {
            self.begun.extend_from_slice(&buf[..end]);
            return Poll::Ready(Ok(end + 1));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_begun(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_begun(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for OptionsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn only_the_request_that_is_to_have_no_path_is_sent_without() {
        let first = "OPTIONS http://a.example:8080/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let second = "GET http://a.example/ HTTP/1.1\r\n\r\n";
        for (is_set, sent, expected) in [
            (true, first, first.replace("8080/", "8080")),
            (false, first, first.to_owned()),
            (true, second, second.to_owned()),
        ] {
            // Less than a line fits at a time.
            let (near, mut far) = tokio::io::duplex(7);
            let without_path = WithoutPath::default();
            let mut stream = OptionsStream::new(near, without_path.clone());
            if is_set {
                without_path.set();
            }
            let write = async move {
                stream.write_all(sent.as_bytes()).await.unwrap();
                stream.write_all(second.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            };
            let mut received = String::new();
            let (read, ()) = tokio::join!(far.read_to_string(&mut received), write);
            read.unwrap();
            assert_eq!(received, format!("{expected}{second}"));
        }
    }
}
