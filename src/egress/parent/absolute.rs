//! Requests in absolute-form, which a parent forwards (RFC 9112 §3.2.2). All but a 407 of what it
//! answers may be the origin's.

use std::sync::Arc;

use http::header::{HeaderValue, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{StatusCode, Uri, request};

use super::connect::refuses_credentials;
use super::failure::Fault;
use super::proxy::Parent;
use crate::egress::error::{Error, Failure};
use crate::runtime::clock::monotonic;
use crate::types::loop_token::LOOP_TOKEN;
use crate::types::origin::Origin;

/// What a connection to a parent has that forwards requests to one origin.
#[derive(Clone, Debug)]
pub struct Forwarder {
    parent: Arc<Parent>,
    /// By which this process recognises its own requests; empty: there is none.
    mark: Arc<str>,
}

impl Forwarder {
    /// Of requests that go to `parent`.
    pub const fn new(parent: Arc<Parent>, mark: Arc<str>) -> Self {
        Self { parent, mark }
    }

    /// Makes `head`, a request to `origin` in origin-form, one in absolute-form to the parent.
    pub fn address(&self, origin: &Origin, head: &mut request::Parts) {
        let mut parts = std::mem::take(&mut head.uri).into_parts();
        parts.scheme = origin.scheme().as_str().parse().ok();
        parts.authority = origin.authority().parse().ok();
        // hyper writes no absolute-form without a path (RFC 9112 §3.2.4).
        let path = parts.path_and_query.take().filter(|path| path.as_str() != "*");
        parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        head.uri = Uri::from_parts(parts).unwrap_or_default();
        if let Ok(mark) = HeaderValue::from_str(&self.mark)
            && !mark.is_empty()
        {
            head.headers.insert(LOOP_TOKEN, mark);
        }
        let basic = self.parent.credentials().and_then(|it| HeaderValue::try_from(it.basic()).ok());
        if let Some(mut basic) = basic {
            basic.set_sensitive(true);
            head.headers.insert(PROXY_AUTHORIZATION, basic);
        }
    }

    /// What a response with `status` says of the parent, if it is no forwarded one: a 407 is
    /// addressed to this proxy (RFC 9110 §15.5.8).
    pub fn refusal(&self, status: StatusCode) -> Option<Error> {
        (status == StatusCode::PROXY_AUTHENTICATION_REQUIRED).then(|| {
            let error = self.parent.failed(Failure::Parent, refuses_credentials());
            let now = monotonic();
            self.parent.note_failure(Fault::Credentials, &error, (now, now));
            error
        })
    }
}

/// Makes `head`, which no parent has taken, a request in origin-form again: it may be sent to the
/// origin itself, which must not see what is the parent's.
pub fn restore(head: &mut request::Parts) {
    head.headers.remove(PROXY_AUTHORIZATION);
    head.headers.remove(LOOP_TOKEN);
    let path = std::mem::take(&mut head.uri).into_parts().path_and_query;
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
        Forwarder::new(Arc::new(parent), "a1".into())
    }

    #[test]
    fn a_request_is_put_into_absolute_form_and_back() {
        for (url, target, sent) in [
            ("http://example.com/", "/a?b", "http://example.com/a?b"),
            ("http://example.com:8080/", "/", "http://example.com:8080/"),
            ("http://[2001:db8::1]/", "/", "http://[2001:db8::1]/"),
        ] {
            let origin = split_url(url.as_bytes()).unwrap().0;
            let (mut head, ()) = Request::get(target).body(()).unwrap().into_parts();
            forwarder().address(&origin, &mut head);
            assert_eq!(head.uri.to_string(), sent);
            let value = |name: &str| head.headers.get(name).map(|it| it.to_str().unwrap());
            assert_eq!(value("proxy-authorization"), Some("Basic bmFtZTpwYXNzd29yZA=="));
            assert_eq!(value("courtesy-loop"), Some("a1"));
            restore(&mut head);
            assert_eq!((head.uri.to_string().as_str(), head.headers.len()), (target, 0));
        }
    }

    #[test]
    fn only_a_407_is_the_parents_for_certain() {
        for status in [200, 301, 403, 404, 429, 502] {
            assert!(forwarder().refusal(StatusCode::from_u16(status).unwrap()).is_none());
        }
        let error = forwarder().refusal(StatusCode::PROXY_AUTHENTICATION_REQUIRED).unwrap();
        assert_eq!(error.failure, Failure::Parent);
        assert!(!error.detail.contains("password\""), "{error}");
    }
}
