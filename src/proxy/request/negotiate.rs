//! Content negotiation for errors: JSON, HTML or text, with or without content.

use http::header::{ACCEPT, HeaderMap};
use http::{Method, request};

/// How an error is sent to the client of a request.
#[derive(Clone, Copy, Debug)]
pub struct ErrorFormat {
    pub format: Format,
    /// The request is a HEAD: no content is sent (RFC 9110 §9.3.2).
    pub is_head: bool,
}

impl ErrorFormat {
    /// The format for the request with this head.
    pub fn of(head: &request::Parts) -> Self {
        Self { format: preferred(&head.headers), is_head: head.method == Method::HEAD }
    }

    /// The format for a request that could not be read.
    pub const DEFAULT: Self = Self { format: Format::Json, is_head: false };
}

/// The formats that the proxy has for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Html,
    Text,
}

impl Format {
    /// The format of a media type, if there is one.
    fn of(media_type: &str) -> Option<Self> {
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        if is("application/problem+json") || is("application/json") {
            Some(Self::Json)
        } else if is("text/html") || is("application/xhtml+xml") {
            Some(Self::Html)
        } else if is("text/plain") {
            Some(Self::Text)
        } else {
            None
        }
    }
}

/// The format that the client prefers (RFC 9110 §12.5.1). JSON if it names none of the three:
/// programs send `*/*`, browsers name HTML.
pub fn preferred(headers: &HeaderMap) -> Format {
    let mut best = (Format::Json, 0.0_f32);
    // The default of most programs: no preference.
    for value in headers.get_all(ACCEPT).iter().filter(|value| *value != "*/*") {
        for range in String::from_utf8_lossy(value.as_bytes()).split(',') {
            let mut parts = range.split(';').map(str::trim);
            let Some(format) = Format::of(parts.next().unwrap_or_default()) else { continue };
            let quality =
                parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
            if let Ok(quality) = quality
                && quality > best.1
            {
                best = (format, quality);
            }
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_format_follows_accept() {
        for (accept, expected) in [
            ("", Format::Json),
            ("*/*", Format::Json),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Html),
            ("text/plain", Format::Text),
            ("text/html;q=0.5, application/json", Format::Json),
            ("text/html;q=0", Format::Json),
            ("text/html;q=x, text/plain;q=0.1", Format::Text),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(preferred(&headers), expected, "{accept}");
        }
    }
}
