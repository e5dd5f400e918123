//! When a request without a response is sent a second time: the rule (RFC 9110 §9.2.2,
//! RFC 9113 §8.7), the copy that is sent, and the decision.

use h2::Reason;
use http::Method;

use super::body::RequestBody;
use super::boxed_request::BoxedRequest;
use super::error::Error;
use super::hyper_error::http2_error;
use super::tls::Versions;
use crate::pace::Turn;

/// An exchange that brought no response, with what a retry needs.
#[derive(Debug)]
pub struct FailedExchange {
    pub error: Error,
    /// The request, when nothing of it was sent.
    pub unsent: Option<BoxedRequest<RequestBody>>,
    pub rule: RetryRule,
    pub turn: Turn,
}

/// A request that is to be sent a second time.
#[derive(Debug)]
pub struct Retry {
    pub request: BoxedRequest<RequestBody>,
    pub versions: Versions,
    pub turn: Turn,
}

/// Whether a failed exchange permits a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryRule {
    No,
    /// In one of these versions of HTTP.
    Yes(Versions),
}

/// A copy of a request, kept in case that it is sent a second time.
#[derive(Debug)]
pub struct RetryCopy(BoxedRequest<RequestBody>);

impl FailedExchange {
    /// An exchange that must not be tried again.
    pub const fn without_retry(error: Error, turn: Turn) -> Self {
        Self { error, unsent: None, rule: RetryRule::No, turn }
    }

    /// The request to send again: itself when nothing of it was sent, else its copy.
    ///
    /// # Errors
    ///
    /// The error of the exchange, when the request may not be repeated.
    pub fn into_retry(self, copy: Option<RetryCopy>, versions: Versions) -> Result<Retry, Error> {
        let Self { error, unsent, rule, turn } = self;
        match (unsent, copy, rule) {
            (Some(request), _, _) => Ok(Retry { request, versions, turn }),
            (None, Some(RetryCopy(request)), RetryRule::Yes(versions)) => {
                Ok(Retry { request, versions, turn })
            }
            _ => Err(error),
        }
    }
}

impl RetryRule {
    /// A request is sent again when the origin says that it did nothing with it (RFC 9113 §8.7),
    /// when the origin requires HTTP/1.1 (§7), and when a kept connection `was_closed`.
    pub fn of(error: &hyper::Error, was_closed: bool) -> Self {
        match http2_error(error) {
            Some(error) if error.reason() == Some(Reason::HTTP_1_1_REQUIRED) => {
                Self::Yes(Versions::Http1)
            }
            Some(error) if error.is_remote() && error.is_go_away() => Self::Yes(Versions::Any),
            Some(error) if error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM) => {
                Self::Yes(Versions::Any)
            }
            // The origin began to process the request, and then reset the stream.
            Some(error) if error.is_reset() => Self::No,
            _ if was_closed => Self::Yes(Versions::Any),
            _ => Self::No,
        }
    }
}

impl RetryCopy {
    /// A copy of `request`, which may be sent in `versions`, if it may be repeated: it is idempotent
    /// (RFC 9110 §9.2.2), without content, and asks for no upgrade.
    pub fn of(request: &BoxedRequest<RequestBody>, versions: Versions) -> Option<Self> {
        let BoxedRequest { head, body } = request;
        let is_idempotent = matches!(
            head.method,
            Method::GET
                | Method::HEAD
                | Method::OPTIONS
                | Method::TRACE
                | Method::PUT
                | Method::DELETE
        );
        if !is_idempotent || !body.is_empty() || versions == Versions::Http1 {
            return None;
        }
        Some(Self(BoxedRequest { head: head.clone(), body: body.empty_copy() }))
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderValue, UPGRADE};
    use http::{Request, Version};

    use super::*;

    fn request(method: Method) -> BoxedRequest<RequestBody> {
        let mut request = Request::new(RequestBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() = "/a?b".parse().unwrap();
        request.into()
    }

    #[test]
    fn only_an_idempotent_request_without_upgrade_is_copied() {
        for (method, may) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::PUT, true),
            (Method::DELETE, true),
            (Method::POST, false),
            (Method::PATCH, false),
            (Method::from_bytes(b"MOVE").unwrap(), false),
        ] {
            let copy = RetryCopy::of(&request(method.clone()), Versions::Any);
            assert_eq!(copy.is_some(), may, "{method}");
        }
        let mut upgrade = request(Method::GET);
        upgrade.head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        assert!(RetryCopy::of(&upgrade, Versions::for_request(&upgrade.head)).is_none());
    }

    #[test]
    fn a_copy_has_the_whole_head() {
        #[derive(Clone, Debug, PartialEq)]
        struct Word(&'static str);
        let mut given = request(Method::HEAD);
        given.head.version = Version::HTTP_2;
        given.head.extensions.insert(Word("kept"));
        for (name, value) in [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")] {
            given.head.headers.append(name, HeaderValue::from_static(value));
        }
        let (given, copy) = (&given.head, RetryCopy::of(&given, Versions::Any).unwrap().0.head);
        assert_eq!(
            (&copy.method, &copy.uri, copy.version),
            (&given.method, &given.uri, given.version)
        );
        assert_eq!(copy.headers, given.headers);
        assert_eq!(copy.extensions.get::<Word>(), Some(&Word("kept")));
    }
}
