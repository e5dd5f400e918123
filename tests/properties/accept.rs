//! The form of an answer is one that the client names with a weight above zero, and none that it names
//! has more; JSON where it names none.

use courtesy::proxy::test_hooks::{Format, preferred};
use http::HeaderValue;

/// The value of an `Accept` field.
pub fn holds(bytes: &[u8]) {
    let Ok(accept) = HeaderValue::from_bytes(bytes) else { return };
    let form = preferred(accept);
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let names = |form: Format| match form {
        Format::Json => ["application/problem+json", "application/json"],
        Format::Html => ["text/html", "application/xhtml+xml"],
        Format::Text => ["text/plain", "text/plain"],
    };
    let is_named = names(form).iter().any(|name| text.contains(name));
    assert!(form == Format::Json || is_named, "{form:?} was not asked for");
    // Of two that are named without anything else, the first wins; a weight of zero is a refusal.
    let with =
        |more: &str| preferred(HeaderValue::try_from(format!("{more};q=0")).expect("plain text"));
    assert_eq!(with(names(form)[0]), Format::Json);
    for other in [Format::Json, Format::Html, Format::Text] {
        let more = [bytes, b", ", names(other)[0].as_bytes(), b";q=0"].concat();
        let again =
            preferred(HeaderValue::from_bytes(&more).expect("a field value and plain text"));
        assert_eq!(again, form, "what is refused changes nothing");
    }
}
