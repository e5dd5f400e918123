//! An incoming body with a timeout: when its next frame takes longer than the limit, it ends in an
//! error. Trailers that may not be trailers are removed.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, Entry};
use http::{HeaderName, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::runtime::lazy_timer::LazyTimer;

/// A message body with a limit on how long it may be silent. The timer starts only when the body
/// has to wait.
#[derive(Debug)]
pub struct TimeoutBody<B = WholeBody> {
    body: B,
    limit: Duration,
    timer: LazyTimer,
}

impl TimeoutBody {
    /// The body of a client's request in `version`.
    pub const fn of_request(body: Incoming, version: Version, limit: Duration) -> Self {
        Self::new(WholeBody::new(body, version), limit)
    }
}

impl<B> TimeoutBody<B> {
    /// A body whose frames may each take as long as `limit`.
    pub const fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, timer: LazyTimer::new() }
    }

    /// The body inside.
    pub const fn get_ref(&self) -> &B {
        &self.body
    }

    /// The body inside, mutable.
    pub const fn get_mut(&mut self) -> &mut B {
        &mut self.body
    }
}

impl<B> Body for TimeoutBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.timer.clear();
            return Poll::Ready(
                frame.map(|frame| frame.map(without_misplaced).map_err(io::Error::other)),
            );
        }
        let limit = self.limit;
        ready!(self.timer.poll(limit, cx));
        let stalled = io::Error::new(io::ErrorKind::TimedOut, format!("no data for {limit:?}"));
        Poll::Ready(Some(Err(stalled)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// Removes trailers that may not be trailers. One that frames, routes or authenticates a message
// would be merged into the headers by some recipients and not by others (RFC 9110 §6.5.1), so none
// is forwarded, in either direction and in any version of HTTP.

/// Headers that may not be trailers.
const NEVER_TRAILERS: [HeaderName; 28] = [
    // framing
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::UPGRADE,
    // routing
    header::HOST,
    header::VIA,
    header::LOCATION,
    // request modifiers and response controls
    header::USER_AGENT,
    header::EXPECT,
    header::MAX_FORWARDS,
    header::RANGE,
    header::CACHE_CONTROL,
    header::AGE,
    header::VARY,
    header::DATE,
    // authentication and state
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::COOKIE,
    header::SET_COOKIE,
    // how the content is to be processed
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
];

/// `frame` without such trailers.
pub fn without_misplaced(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        for name in &NEVER_TRAILERS {
            if let Entry::Occupied(entry) = trailers.entry(name) {
                entry.remove_entry_mult();
            }
        }
    }
    frame
}

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

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn b7_trailers_that_frame_route_or_authenticate_are_removed() {
        let mut trailers = HeaderMap::new();
        for name in &NEVER_TRAILERS {
            trailers.append(name, "1".parse().unwrap());
            trailers.append(name, "2".parse().unwrap());
        }
        trailers.insert("x-checksum", "3".parse().unwrap());
        let frame = without_misplaced(Frame::trailers(trailers));
        let left = frame.into_trailers().unwrap();
        assert_eq!(left.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-checksum"]);
    }
}
