//! What a request is made of again, should it have to be sent a second time. Most never have: so its fields are
//! put down in one piece, which costs less than a second map of them.

use http::header::{HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::{Extensions, Method, Request, Uri, Version};

use super::outgoing::Outgoing;
use crate::egress::boxed_request::BoxedRequest;

/// A request that may be sent again when it was not answered: idempotent (RFC 9110 §9.2.2), without
/// content, and asking for no upgrade.
pub struct Spare {
    method: Method,
    uri: Uri,
    version: Version,
    fields: Vec<u8>,
    extensions: Extensions,
    body: Outgoing,
}

/// Behind a name, before the value; the latter where the value is to be kept out of compression
/// (RFC 7541 §7.1.3). No name has either.
const IS: u8 = b':';
const IS_SENSITIVE: u8 = b';';
/// Behind a value, which never has one.
const END: u8 = b'\n';

/// What the fields of most requests need.
const FIELDS_BYTES: usize = 512;

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
        Some(Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            fields: put_down(&head.headers),
            extensions: head.extensions.clone(),
            body: body.again(),
        })
    }

    /// The request.
    pub fn request(self) -> BoxedRequest<Outgoing> {
        let mut request = Request::new(self.body);
        (*request.method_mut(), *request.uri_mut(), *request.version_mut()) =
            (self.method, self.uri, self.version);
        *request.headers_mut() = read(&self.fields);
        *request.extensions_mut() = self.extensions;
        request.into()
    }
}

fn put_down(fields: &HeaderMap) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIELDS_BYTES);
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.push(if value.is_sensitive() { IS_SENSITIVE } else { IS });
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(END);
    }
    bytes
}

fn read(bytes: &[u8]) -> HeaderMap {
    let lines = bytes.split(|byte| *byte == END);
    lines.filter_map(field).collect()
}

fn field(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let at = line.iter().position(|byte| matches!(*byte, IS | IS_SENSITIVE))?;
    let mut value = HeaderValue::from_bytes(&line[at + 1..]).ok()?;
    value.set_sensitive(line[at] == IS_SENSITIVE);
    Some((HeaderName::from_bytes(&line[..at]).ok()?, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(method: Method) -> BoxedRequest<Outgoing> {
        let mut request = Request::new(Outgoing::empty());
        *request.method_mut() = method;
        *request.uri_mut() = "/a?b".parse().unwrap();
        request.into()
    }

    #[test]
    fn what_may_not_be_repeated_has_none() {
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
    fn nothing_of_a_request_is_lost() {
        #[derive(Clone, Debug, PartialEq)]
        struct Word(&'static str);
        let mut given = request(Method::HEAD);
        given.head.version = Version::HTTP_2;
        given.head.extensions.insert(Word("kept"));
        let (given, again) = (&given.head, Spare::of(&given).unwrap().request().head);
        assert_eq!(
            (&again.method, &again.uri, again.version),
            (&given.method, &given.uri, given.version)
        );
        assert_eq!(again.extensions.get::<Word>(), Some(&Word("kept")));
    }

    proptest! {
        #[test]
        fn fields_are_read_as_they_were_put_down(
            given in prop::collection::vec(
                ("[a-z!#$%&'*+.^_`|~0-9-]{1,9}", "[\t -~\u{80}-\u{ff}]{0,9}", any::<bool>()), 0..9),
        ) {
            let mut fields = HeaderMap::new();
            for (name, value, is_sensitive) in &given {
                let mut value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                value.set_sensitive(*is_sensitive);
                fields.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
            }
            let again = read(&put_down(&fields));
            let told = |fields: &HeaderMap| {
                let told = fields.iter().map(|(name, value)| (name.clone(), value.clone(), value.is_sensitive()));
                told.collect::<Vec<_>>()
            };
            prop_assert_eq!(told(&again), told(&fields));
        }
    }

    #[test]
    fn fields_of_one_name_stay_several_and_in_order() {
        let mut fields = HeaderMap::new();
        for (name, value) in
            [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2"), ("cookie", "")]
        {
            fields.append(name, HeaderValue::from_static(value));
        }
        let cookies: Vec<_> = read(&put_down(&fields)).get_all("cookie").iter().cloned().collect();
        assert_eq!(cookies, ["a=1", "b=2", ""]);
    }
}
