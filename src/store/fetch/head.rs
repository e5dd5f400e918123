//! Records the heads of requests and responses in captures.

use http::{Request, Response, Version};
use hyper::ext::ReasonPhrase;

use super::source::Source;
use crate::audit::evidence::Answer;

/// Bytes of the head of an answer to a fetch of a robots.txt that are kept as evidence.
const CAPTURED_HEAD_BYTES_MAX: usize = 16 << 10;

/// The response of `source` at `url`. Header names are in lower case, as they are compared (RFC
/// 9110 §5.1), and lines of the same name stand together; values are as received.
pub(super) fn answer<B>(
    response: &Response<B>,
    url: &str,
    source: &Source,
    request: Option<String>,
) -> Answer {
    let mut head = Head::default();
    head.push(&[&status_line(response)]);
    for (name, value) in response.headers() {
        head.push(&[name.as_str().as_bytes(), b": ", value.as_bytes()]);
    }
    Answer {
        head: head.text,
        head_cut: head.cut,
        peer: source.peer,
        request,
        status: response.status().as_u16(),
        url: url.to_owned(),
        via: source.via.as_ref().map(|via| via.parent.clone()),
    }
}

/// The request line and headers of `request` (RFC 9112 §3); `None` if they exceed the limit of a
/// captured head.
pub(super) fn request<B>(request: &Request<B>) -> Option<String> {
    let mut head = Head::default();
    let target = request.uri().path_and_query()?.as_str();
    head.push(&[request.method().as_str().as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1"]);
    for (name, value) in request.headers() {
        head.push(&[name.as_str().as_bytes(), b": ", value.as_bytes()]);
    }
    Some(head.text).filter(|_| !head.cut)
}

/// RFC 9112 §4. HTTP/2 has no reason phrase (RFC 9113 §8.3.2).
fn status_line<B>(response: &Response<B>) -> Vec<u8> {
    let status = response.status();
    let version = match response.version() {
        Version::HTTP_2 => return format!("HTTP/2 {}", status.as_str()).into_bytes(),
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    // hyper reports the phrase only if it is not the standard one.
    let usual = status.canonical_reason().unwrap_or_default().as_bytes();
    let reason = response.extensions().get::<ReasonPhrase>().map_or(usual, ReasonPhrase::as_bytes);
    [version.as_bytes(), b" ", status.as_str().as_bytes(), b" ", reason].concat()
}

/// Complete lines up to the limit.
#[derive(Default)]
struct Head {
    text: String,
    bytes: usize,
    cut: bool,
}

impl Head {
    fn push(&mut self, line: &[&[u8]]) {
        let bytes = line.iter().map(|part| part.len()).sum::<usize>() + 2;
        if self.bytes + bytes > CAPTURED_HEAD_BYTES_MAX {
            self.cut = true;
            return;
        }
        self.bytes += bytes;
        // ISO 8859-1 has a character for every byte.
        self.text.extend(line.iter().copied().flatten().copied().map(char::from));
        self.text.push_str("\r\n");
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn head(version: Version, status: u16, fields: &[(&'static str, &[u8])]) -> (String, bool) {
        let mut response = Response::builder().version(version).status(status);
        for (name, value) in fields {
            response = response.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let answer = answer(
            &response.body(()).unwrap(),
            "http://example.com/robots.txt",
            &Source::default(),
            None,
        );
        (answer.head, answer.head_cut)
    }

    #[test]
    fn a_head_is_written_as_http_1_1_has_it_whatever_the_version() {
        let fields: &[(&str, &[u8])] =
            &[("server", b"one"), ("x-name", b"Andr\xe9"), ("server", b"two")];
        let lines = "server: one\r\nserver: two\r\nx-name: Andr\u{e9}\r\n";
        for (version, status, line) in [
            (Version::HTTP_11, 200, "HTTP/1.1 200 OK"),
            (Version::HTTP_10, 404, "HTTP/1.0 404 Not Found"),
            (Version::HTTP_11, 299, "HTTP/1.1 299 "),
            (Version::HTTP_2, 503, "HTTP/2 503"),
        ] {
            assert_eq!(head(version, status, fields), (format!("{line}\r\n{lines}"), false));
        }
    }

    #[test]
    fn the_phrase_of_the_origin_is_kept() {
        let mut response = Response::new(());
        response.extensions_mut().insert(ReasonPhrase::from_static(b"Fine"));
        assert_eq!(answer(&response, "", &Source::default(), None).head, "HTTP/1.1 200 Fine\r\n");
    }

    #[test]
    fn a_field_that_finds_no_room_is_left_out_whole() {
        let long = vec![b'a'; CAPTURED_HEAD_BYTES_MAX - 30];
        let (text, cut) = head(Version::HTTP_2, 200, &[("a", &long), ("b", &long), ("c", b"1")]);
        assert!(cut && text.len() <= CAPTURED_HEAD_BYTES_MAX);
        assert_eq!(text.lines().map(|line| &line[..1]).collect::<String>(), "Hac");
    }
}
