//! Requests in absolute-form, which a parent forwards (RFC 9112 §3.2.2). All but a 407 of what it
//! answers may be the origin's.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use http::header::{PROXY_AUTHORIZATION, SERVER};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connect::refuses_credentials;
use super::proxy::Parent;
use crate::egress::error::{Error, Failure};
use crate::types::loop_token::{LOOP_TOKEN, LoopToken};
use crate::types::origin::Origin;

/// What a connection to a parent has that forwards requests to one origin.
#[derive(Clone, Debug)]
pub struct Forwarder {
    parent: Arc<Parent>,
    /// By which this process recognises its own requests.
    loop_token: Option<LoopToken>,
    /// How the next request is sent.
    without_path: WithoutPath,
}

impl Forwarder {
    /// Of requests that go to `parent`.
    pub fn new(parent: Arc<Parent>, loop_token: Option<LoopToken>) -> Self {
        Self { parent, loop_token, without_path: WithoutPath::default() }
    }

    /// `stream`, over which its requests go.
    pub fn over<S>(&self, stream: S) -> OptionsStream<S> {
        OptionsStream::new(stream, self.without_path.clone())
    }

    /// Makes `head`, a request to `origin` in origin-form, one in absolute-form to the parent.
    pub fn address(&self, origin: &Origin, head: &mut request::Parts) {
        let mut parts = std::mem::take(&mut head.uri).into_parts();
        parts.scheme = origin.scheme().as_str().parse().ok();
        parts.authority = origin.authority().parse().ok();
        if parts.path_and_query.as_ref().is_some_and(|path| path.as_str() == "*") {
            self.without_path.set();
            head.extensions.insert(Asterisk);
            parts.path_and_query = Some(PathAndQuery::from_static("/"));
        }
        head.uri = Uri::from_parts(parts).unwrap_or_default();
        if let Some(token) = self.loop_token.as_ref().and_then(LoopToken::header) {
            head.headers.insert(LOOP_TOKEN, token);
        }
        let basic = self.parent.credentials().and_then(|it| HeaderValue::try_from(it.basic()).ok());
        if let Some(mut basic) = basic {
            basic.set_sensitive(true);
            head.headers.insert(PROXY_AUTHORIZATION, basic);
        }
    }

    /// What a response with `status` and `headers` says of the parent, if it is no forwarded one: a
    /// 407 is addressed to this proxy (RFC 9110 §15.5.8). An origin can answer so as well, so that
    /// it does not have the parent left alone.
    pub fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Option<Error> {
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED || is_of_tinyproxy(status, headers) {
            let refused = refuses_credentials(status.as_u16());
            let error = self.parent.failed(Failure::Parent, refused);
            self.parent.note_refused_credentials(&error);
            return Some(error);
        }
        self.parent.note_taken_credentials();
        None
    }
}

/// Whether it is the 401 by which tinyproxy asks for its own password. It names itself.
fn is_of_tinyproxy(status: StatusCode, headers: &HeaderMap) -> bool {
    let server = headers.get(SERVER).map(HeaderValue::as_bytes);
    status == StatusCode::UNAUTHORIZED
        && server.is_some_and(|server| server.starts_with(b"tinyproxy"))
}

/// In the extensions of a request whose target was `*` (RFC 9112 §3.2.4).
#[derive(Clone, Copy, Debug)]
struct Asterisk;

/// Makes `head`, which no parent has taken, a request in origin-form again: it may be sent to the
/// origin itself, which must not see what is the parent's.
pub fn restore_origin_form(head: &mut request::Parts) {
    head.headers.remove(PROXY_AUTHORIZATION);
    head.headers.remove(LOOP_TOKEN);
    let path = std::mem::take(&mut head.uri).into_parts().path_and_query;
    let path = match head.extensions.remove::<Asterisk>() {
        Some(Asterisk) => Some(PathAndQuery::from_static("*")),
        None => path,
    };
    head.uri = path.map(Uri::from).unwrap_or_default();
}

// `OPTIONS *` by a parent that forwards: in absolute-form the target has no path (RFC 9112 §3.2.4),
// which the HTTP engine does not write.

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
    use http::Request;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::types::origin::split_url;

    fn forwarder() -> Forwarder {
        let credentials = "name:password".parse().unwrap();
        let parent = Parent::new("http://p:3128".parse().unwrap(), Some(credentials));
        Forwarder::new(Arc::new(parent), Some(LoopToken::new([0xa1; 16])))
    }

    #[test]
    fn a_request_is_put_into_absolute_form_and_back() {
        for (url, target, sent) in [
            ("http://example.com/", "/a?b", "http://example.com/a?b"),
            ("http://example.com:8080/", "/", "http://example.com:8080/"),
            ("http://[2001:db8::1]/", "/", "http://[2001:db8::1]/"),
            ("http://example.com/", "*", "http://example.com/"),
        ] {
            let origin = split_url(url.as_bytes()).unwrap().0;
            let (mut head, ()) = Request::get(target).body(()).unwrap().into_parts();
            forwarder().address(&origin, &mut head);
            assert_eq!(head.uri.to_string(), sent);
            let value = |name: &str| head.headers.get(name).map(|it| it.to_str().unwrap());
            assert_eq!(value("proxy-authorization"), Some("Basic bmFtZTpwYXNzd29yZA=="));
            assert_eq!(value("courtesy-loop"), Some(&*"a1".repeat(16)));
            restore_origin_form(&mut head);
            assert_eq!((head.uri.to_string().as_str(), head.headers.len()), (target, 0));
        }
    }

    #[test]
    fn only_a_407_is_the_parents_for_certain() {
        let refusal =
            |status| forwarder().refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        for status in [200, 301, 403, 404, 429, 502] {
            assert!(refusal(status).is_none());
        }
        let error = refusal(407).unwrap();
        assert_eq!(error.failure, Failure::Parent);
        assert!(!error.detail.contains("password\""), "{error}");
    }

    #[test]
    fn a_401_of_tinyproxy_itself_is_the_parents() {
        for (server, is_parents) in [("tinyproxy/1.8.3", true), ("nginx", false)] {
            let headers = HeaderMap::from_iter([(SERVER, HeaderValue::from_static(server))]);
            let refused = forwarder().refusal(StatusCode::UNAUTHORIZED, &headers);
            assert_eq!(refused.is_some(), is_parents, "{server}");
        }
    }

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
