//! In which form a request wants to be answered: JSON, HTML or text, with or without content.

use http::header::{ACCEPT, HeaderMap};
use http::{Method, request};

/// What of a request shapes the answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub(super) form: Form,
    pub(super) only_head: bool,
}

impl Asked {
    pub fn by(head: &request::Parts) -> Self {
        Self { form: preferred(&head.headers), only_head: head.method == Method::HEAD }
    }

    /// By a request that could not be read.
    pub const UNREADABLE: Self = Self { form: Form::Json, only_head: false };
}

/// What we have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    Html,
    Text,
}

impl Form {
    /// That of a media type, if we have it.
    fn of(media_type: &str) -> Option<Self> {
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        match () {
            () if is("application/problem+json") || is("application/json") => Some(Self::Json),
            () if is("text/html") || is("application/xhtml+xml") => Some(Self::Html),
            () if is("text/plain") => Some(Self::Text),
            () => None,
        }
    }
}

/// What the client prefers of what we have (RFC 9110 §12.5.1). JSON for whoever names none of the
/// three: programs send `*/*`, people's browsers name HTML.
pub(super) fn preferred(fields: &HeaderMap) -> Form {
    let mut best = (Form::Json, 0.0_f32);
    // What programs send if they are not told: nothing is preferred.
    for value in fields.get_all(ACCEPT).iter().filter(|value| *value != "*/*") {
        for range in String::from_utf8_lossy(value.as_bytes()).split(',') {
            let mut parts = range.split(';').map(str::trim);
            let Some(form) = Form::of(parts.next().unwrap_or_default()) else { continue };
            let quality =
                parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
            if let Ok(quality) = quality
                && quality > best.1
            {
                best = (form, quality);
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
    fn the_form_follows_accept() {
        for (accept, form) in [
            ("", Form::Json),
            ("*/*", Form::Json),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Form::Html),
            ("text/plain", Form::Text),
            ("text/html;q=0.5, application/json", Form::Json),
            ("text/html;q=0", Form::Json),
            ("text/html;q=x, text/plain;q=0.1", Form::Text),
        ] {
            let fields = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(preferred(&fields), form, "{accept}");
        }
    }
}
