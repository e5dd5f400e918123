//! A request head that came by HTTP/2, held to what the reader of HTTP/1 heads holds them to. The engine
//! checks what RFC 9113 §8 calls malformed, but for what is here; and the request goes on in HTTP/1.1.

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, request};

use super::super::refusal::Refusal;
use super::line::target_fault;
use super::too_large;

/// Refuses a head that would be refused in HTTP/1, or would mean something else there.
pub fn check(request: &request::Parts, fields_max: usize) -> Result<(), Refusal> {
    let fields = &request.headers;
    if fields.len() > fields_max {
        return Err(too_large());
    }
    if let Some(target) = request.uri.path_and_query() {
        let fault = target_fault(target.as_str().as_bytes());
        fault.map_or(Ok(()), |fault| Err(Refusal::bad_request(format!("the request {fault}"))))?;
    }
    if fields.values().any(is_blank_at_an_end) {
        return Err(Refusal::bad_request(
            "the request has a field value with a blank at its beginning or end (RFC 9113 §8.2.1)",
        ));
    }
    match fields.get_all(CONTENT_LENGTH).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Refusal::bad_request("the request has more than one Content-Length (RFC 9110 §8.6)")),
    }
}

/// In HTTP/1 blanks there are not part of the value, so the origin would see another one than was judged.
fn is_blank_at_an_end(value: &HeaderValue) -> bool {
    let ends = [value.as_bytes().first(), value.as_bytes().last()];
    ends.into_iter().flatten().any(|octet| matches!(octet, b' ' | b'\t'))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Request};

    use super::*;

    fn check(path: &str, fields: &[(&str, &str)]) -> Result<(), u16> {
        let mut request = Request::builder().uri(format!("https://a.example{path}"));
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request = request.header(HeaderName::try_from(*name).unwrap(), value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        super::check(&parts, 3).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn h2_a_head_is_held_to_what_one_of_http_1_is_held_to() {
        assert_eq!(check("/a?b=%20", &[("a", "1"), ("a", ""), ("b", "1 2")]), Ok(()));
        assert_eq!(check("/", &[("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")]), Err(431));
        for path in ["/\u{e9}", "/a?\u{e9}"] {
            assert_eq!(check(path, &[]), Err(400), "{path}");
        }
        for value in [" a", "a ", "\ta", "a\t", " "] {
            assert_eq!(check("/", &[("user-agent", value)]), Err(400), "{value:?}");
        }
        assert_eq!(check("/", &[("content-length", "1"), ("content-length", "1")]), Err(400));
    }
}
