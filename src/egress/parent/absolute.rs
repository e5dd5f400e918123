//! Requests in absolute-form, which a parent forwards (RFC 9112 §3.2.2). All but a 407 of what it
//! answers may be the origin's.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue, PROXY_AUTHORIZATION, SERVER};
use http::uri::PathAndQuery;
use http::{StatusCode, Uri, request};

use super::connect::{refuses_credentials, shows_loop};
use super::failure::{Fault, TunnelFailure};
use super::options::{OptionsStream, WithoutPath};
use super::proxy::Parent;
use crate::egress::error::{Error, Failure};
use crate::types::loop_token::{LOOP_TOKEN, LoopToken, LoopTokens};
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
        let received = head.extensions.get().unwrap_or(&LoopTokens::NONE);
        let tokens = self.loop_token.as_ref().map(|own| received.and(own));
        if let Some(tokens) = tokens.and_then(|tokens| HeaderValue::try_from(tokens).ok()) {
            head.headers.insert(LOOP_TOKEN, tokens);
        }
        let basic = self.parent.credentials().and_then(|it| HeaderValue::try_from(it.basic()).ok());
        if let Some(mut basic) = basic {
            basic.set_sensitive(true);
            head.headers.insert(PROXY_AUTHORIZATION, basic);
        }
    }

    /// What a response with `status` and `headers` says of the parent, if it is no forwarded one: a
    /// 407 is addressed to this proxy (RFC 9110 §15.5.8), and so is a loop of a request that came
    /// by the proxies of `received`. An origin can answer so as well, so that neither has the
    /// parent left alone.
    pub fn refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        received: &LoopTokens,
    ) -> Option<Error> {
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED || is_of_tinyproxy(status, headers) {
            let refused = refuses_credentials(status.as_u16());
            let error = self.parent.failed(Failure::Parent, refused);
            self.parent.note_refused_credentials(&error);
            return Some(error);
        }
        self.parent.note_taken_credentials();
        if received.is_empty() || !shows_loop(headers) {
            return None;
        }
        let refused =
            TunnelFailure { is_loop: true, ..TunnelFailure::new(Fault::Target, String::new()) };
        Some(self.parent.failed(Failure::Parent, refused).for_request_with(received))
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

#[cfg(test)]
mod tests {
    use http::Request;

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

    fn refusal(status: u16, proxy_status: &'static str, received: &LoopTokens) -> Option<Error> {
        let headers = [("proxy-status".parse().unwrap(), HeaderValue::from_static(proxy_status))];
        let status = StatusCode::from_u16(status).unwrap();
        forwarder().refusal(status, &HeaderMap::from_iter(headers), received)
    }

    #[test]
    fn only_a_407_is_the_parents_for_certain() {
        for status in [200, 301, 403, 404, 429, 502] {
            assert!(refusal(status, "a; error=proxy_loop_detected", &LoopTokens::NONE).is_none());
        }
        let error = refusal(407, "", &LoopTokens::NONE).unwrap();
        assert_eq!(error.failure, Failure::Parent);
        assert!(!error.detail.contains("password\""), "{error}");
    }

    #[test]
    fn a_401_of_tinyproxy_itself_is_the_parents() {
        for (server, is_parents) in [("tinyproxy/1.8.3", true), ("nginx", false)] {
            let headers = HeaderMap::from_iter([(SERVER, HeaderValue::from_static(server))]);
            let refused =
                forwarder().refusal(StatusCode::UNAUTHORIZED, &headers, &LoopTokens::NONE);
            assert_eq!(refused.is_some(), is_parents, "{server}");
        }
    }

    #[test]
    fn a_loop_of_a_request_that_came_by_other_proxies_is_one_of_that_request() {
        let token = HeaderValue::try_from("b2".repeat(16)).unwrap();
        let received = LoopTokens::of(&HeaderMap::from_iter([(LOOP_TOKEN, token)]));
        let error = refusal(502, "b; error=proxy_loop_detected", &received).unwrap();
        assert!(error.is_loop_by_parent() && error.detail.contains("http://p:3128"), "{error}");
        assert!(refusal(502, "b; error=connection_refused", &received).is_none());
    }
}
