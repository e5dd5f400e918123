//! The product token is a word that a robots.txt can name, it stands in the User-Agent as it is, it
//! names itself, and a plain product at the beginning is always it, unless it is a browser's.

use courtesy::types::agent::{is_first_of_browsers, product_token};

/// The value of a User-Agent field.
pub fn holds(bytes: &[u8]) {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let first: Vec<u8> =
        bytes.trim_ascii_start().iter().copied().take_while(|byte| belongs(byte)).collect();
    let Some(token) = product_token(bytes) else {
        assert!(first.is_empty() || is_scheme(&first), "the first product was passed over");
        return;
    };
    assert!(!token.is_empty() && token.bytes().all(|byte| belongs(&byte)));
    assert!(bytes.windows(token.len()).any(|window| window == token.as_bytes()));
    assert_eq!(product_token(token.as_bytes()), Some(token));
    let is_browsers = str::from_utf8(&first).is_ok_and(is_first_of_browsers);
    if !first.is_empty() && !is_scheme(&first) && !is_browsers {
        assert_eq!(token.as_bytes(), first, "the first product is the name");
    }
}

/// A URL is nobody's name.
fn is_scheme(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"http") || word.eq_ignore_ascii_case(b"https")
}
