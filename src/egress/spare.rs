//! The copy from which a request is sent a second time.

use http::Method;
use http::header::UPGRADE;

use super::outgoing::Outgoing;
use crate::egress::boxed_request::BoxedRequest;

/// A request that may be sent again when it was not answered: idempotent (RFC 9110 §9.2.2), without
/// content, and asking for no upgrade.
pub struct Spare(BoxedRequest<Outgoing>);

impl Spare {
    /// That of `request`, if it may be sent again.
    pub fn of(request: &BoxedRequest<Outgoing>) -> Option<Self> {
        let BoxedRequest { head, body } = request;
        let safe_to_repeat = matches!(
            head.method,
            Method::GET
                | Method::HEAD
                | Method::OPTIONS
                | Method::TRACE
                | Method::PUT
                | Method::DELETE
        );
        if !safe_to_repeat || !body.is_empty() || head.headers.contains_key(UPGRADE) {
            return None;
        }
        Some(Self(BoxedRequest { head: head.clone(), body: body.again() }))
    }

    /// The request.
    pub fn request(self) -> BoxedRequest<Outgoing> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;
    use http::{Request, Version};

    use super::*;

    fn request(method: Method) -> BoxedRequest<Outgoing> {
        let mut request = Request::new(Outgoing::empty());
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
            assert_eq!(Spare::of(&request(method.clone())).is_some(), may, "{method}");
        }
        let mut upgrade = request(Method::GET);
        upgrade.head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        assert!(Spare::of(&upgrade).is_none());
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
        let (given, copy) = (&given.head, Spare::of(&given).unwrap().request().head);
        assert_eq!(
            (&copy.method, &copy.uri, copy.version),
            (&given.method, &given.uri, given.version)
        );
        assert_eq!(copy.headers, given.headers);
        assert_eq!(copy.extensions.get::<Word>(), Some(&Word("kept")));
    }
}
