//! A body of hyper's that has come to its end only when its message has.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// A body that ends in an error when its message is incomplete. A message of HTTP/2 is complete with
/// END_STREAM (RFC 9113 §8.1). hyper takes a stream, or a connection, that ends with NO_ERROR for
/// the end of a body as well: that code only says that no fault stopped the sender.
#[derive(Debug)]
pub struct WholeBody {
    body: Incoming,
    is_http2: bool,
}

impl WholeBody {
    /// The body of a message in `version`.
    pub const fn new(body: Incoming, version: Version) -> Self {
        Self { body, is_http2: matches!(version, Version::HTTP_2) }
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(frame) => Some(frame.map_err(io::Error::other)),
            None if self.is_http2 && !self.body.is_end_stream() => Some(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the stream was ended before its END_STREAM, without an error",
            ))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
