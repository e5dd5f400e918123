//! An origin on the command line.

use crate::types::origin::{Origin, Scheme, split_url};

/// An origin in its usual notation.
pub fn origin(text: &str) -> Result<Origin, String> {
    match split_url(text.as_bytes()) {
        Ok((origin, rest)) if *rest == *b"/" => Ok(origin),
        Ok((origin, _)) => Err(format!("an origin ends after host and port: write {origin}")),
        Err(error) => match Origin::from_authority(Scheme::Https, text) {
            Ok(origin) => Err(format!("the scheme is missing: write {origin}, or http://…")),
            Err(_) => Err(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_out() {
        assert_eq!(origin("https://Example.com").unwrap().to_string(), "https://example.com");
        assert_eq!(
            origin("http://example.com:8080/").unwrap().to_string(),
            "http://example.com:8080"
        );
        for (text, message) in [
            ("example.com", "the scheme is missing: write https://example.com, or http://…"),
            (
                "example.com:8443",
                "the scheme is missing: write https://example.com:8443, or http://…",
            ),
            (
                "https://example.com/a",
                "an origin ends after host and port: write https://example.com",
            ),
            ("a b", "the URL is not absolute: it must begin with http:// or https://"),
        ] {
            assert_eq!(origin(text).unwrap_err(), message, "{text}");
        }
    }
}
