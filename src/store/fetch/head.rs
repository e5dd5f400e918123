//! Records the heads of requests and responses in captures.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL, EXPIRES};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use super::failure::asks_to_wait;
use crate::audit::evidence::Answer;
use crate::egress::Via;
use crate::policy::access::{Cause, Freshness, NetworkFailure};
use crate::types::http_time::{date, date_of, retry_after, seconds, text};
use crate::types::timestamp::Timestamp;

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

// The freshness of a response (RFC 9111 §4.2, §5.2, §5.3), as facts. The profile decides what they
// mean.

pub(super) fn freshness(headers: &HeaderMap, now: Timestamp) -> Freshness {
    let mut found = Freshness { expires_in: expires_in(headers, now), ..Freshness::default() };
    for directive in directives(headers) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-cache" | "no-store" => found.no_cache = true,
            // RFC 9111 §4.2.1: the shortest of several; an invalid number means stale.
            "max-age" => {
                let age = seconds(value.trim().trim_matches('"')).unwrap_or_default();
                found.max_age = Some(found.max_age.map_or(age, |known| known.min(age)));
            }
            _ => {}
        }
    }
    // RFC 9111 §4.2.3: time spent in caches counts.
    let age = text(headers, &AGE).and_then(seconds).unwrap_or_default();
    found.max_age = found.max_age.map(|max_age| max_age.saturating_sub(age));
    found
}

/// RFC 9111 §5.3: an invalid `Expires`, in particular "0", means already expired.
fn expires_in(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    headers.contains_key(EXPIRES).then(|| {
        let expires = text(headers, &EXPIRES).and_then(date);
        expires.map(|expires| date_of(headers, now).until(expires)).unwrap_or_default()
    })
}

fn directives(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(','))
}

/// Where a response came from.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub peer: Option<IpAddr>,
    /// The parent proxy that it came by.
    pub via: Option<Via>,
}

impl Source {
    /// Why a response with `status` says nothing of the origin, if it does not: a parent that was
    /// asked in absolute-form refuses with the statuses of an origin. Only that a file is there, is
    /// elsewhere (3xx is not asked about here) or is missing is taken as the origin's word.
    pub fn unclear(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Cause> {
        let Via { parent, .. } = self.via.as_ref().filter(|via| via.is_forwarded)?;
        let asks = asks_to_wait(status.as_u16());
        let retry_after = asks.then(|| retry_after(headers, now)).flatten();
        let is_origins = status.is_success() || matches!(status.as_u16(), 404 | 410);
        (!is_origins).then(|| Cause::Failed {
            failure: NetworkFailure::Parent,
            detail: format!(
                "the answer is {status}, of the origin or of the parent proxy {parent} itself: in \
                 absolute-form they cannot be told apart (egress.parent_http)"
            )
            .into(),
            retry_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

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

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        fields.collect()
    }

    #[track_caller]
    fn check(
        fields: &[(&'static str, &'static str)],
        max_age: Option<u64>,
        expires: Option<u64>,
        no_cache: bool,
    ) {
        let expected = Freshness {
            max_age: max_age.map(Duration::from_secs),
            expires_in: expires.map(Duration::from_secs),
            no_cache,
        };
        assert_eq!(freshness(&headers(fields), NOW), expected, "{fields:?}");
    }

    #[test]
    fn cache_control_is_read_as_rfc_9111_says() {
        check(&[], None, None, false);
        check(&[("cache-control", "public, Max-Age=600")], Some(600), None, false);
        check(&[("cache-control", "max-age=\"600\"")], Some(600), None, false);
        check(&[("cache-control", "max-age=600, max-age=60")], Some(60), None, false);
        check(&[("cache-control", "max-age=-1")], Some(0), None, false);
        check(
            &[("cache-control", "max-age=99999999999999999999")],
            Some(u64::from(u32::MAX)),
            None,
            false,
        );
        check(&[("cache-control", "no-store")], None, None, true);
        check(&[("cache-control", "max-age=600,no-cache")], Some(600), None, true);
        check(&[("cache-control", "max-age=600"), ("age", "100")], Some(500), None, false);
    }

    #[test]
    fn expires_is_counted_from_the_answers_own_date() {
        const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[DATE, ("expires", "Sun, 06 Nov 1994 09:49:37 GMT")], None, Some(3600), false);
        check(&[DATE, ("expires", "Sun, 06 Nov 1994 07:49:37 GMT")], None, Some(0), false);
        check(&[DATE, ("expires", "0")], None, Some(0), false);
        // Relative to now without a `Date`.
        check(&[("expires", "Sun, 06 Nov 1994 09:49:37 GMT")], None, Some(0), false);
    }
}

#[cfg(test)]
mod source_tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    #[test]
    fn what_a_forwarding_parent_may_have_answered_itself_is_unclear() {
        let via = |is_forwarded| Some(Via { parent: "http://p:3128".into(), is_forwarded });
        let by = |via| Source { peer: None, via };
        for (status, is_unclear) in [
            (200, false),
            (204, false),
            (404, false),
            (410, false),
            (401, true),
            (403, true),
            (429, true),
            (451, true),
            (500, true),
            (502, true),
            (504, true),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let unclear = |by: Source| by.unclear(status, &HeaderMap::new(), NOW).is_some();
            assert_eq!(unclear(by(via(true))), is_unclear, "{status}");
            // A connection through a tunnel leads to the origin.
            assert!(!unclear(by(via(false))) && !unclear(by(None)));
        }
    }
}
