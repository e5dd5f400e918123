//! Extracts the product token of a crawler from its User-Agent header (RFC 9309 §2.2.1, D-HEADER).
//!
//! The header is parsed by its structure (RFC 9110 §10.1.5), never searched for names: a browser
//! that mentions a crawler is not that crawler.

use std::fmt;
use std::str::FromStr;

/// The first product of browsers and their imitators; it identifies no agent.
const MOZILLA: &str = "Mozilla";
/// Announces a name in a comment; it is none itself.
const COMPATIBLE: &[u8] = b"compatible";

/// The token by which robots.txt files can name this client. `None`: the header has none, so only
/// the default group applies.
///
/// It is the first product, unless that is Mozilla; then the item after `compatible;` in a comment;
/// else the item before a URL in a comment; else Mozilla.
pub fn product_token(user_agent: &[u8]) -> Option<&str> {
    let product = name(user_agent.trim_ascii_start());
    match product {
        Some(product) if !product.eq_ignore_ascii_case(MOZILLA) => Some(product),
        _ => after_compatible(user_agent).or_else(|| before_url(user_agent)).or(product),
    }
}

fn after_compatible(user_agent: &[u8]) -> Option<&str> {
    comments(user_agent).find_map(|comment| {
        let mut items = items(comment);
        items.find(|item| item.eq_ignore_ascii_case(COMPATIBLE))?;
        name(items.next()?)
    })
}

fn before_url(user_agent: &[u8]) -> Option<&str> {
    comments(user_agent).find_map(|comment| {
        let before = items(comment).zip(items(comment).skip(1)).find(|(_, next)| is_url(next));
        before
            .map(|(item, _)| item)
            .filter(|item| !item.eq_ignore_ascii_case(COMPATIBLE))
            .and_then(name)
    })
}

/// The outermost comments. An unclosed one extends to the end.
fn comments(user_agent: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = user_agent;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|&byte| byte == b'(')? + 1;
        let end = closing(&rest[start..]);
        let comment = &rest[start..start + end];
        rest = &rest[start + end..];
        Some(comment)
    })
}

/// The end of the comment that `bytes` begin in; comments may be nested.
fn closing(bytes: &[u8]) -> usize {
    let mut depth = 1usize;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The items of a comment; a nested comment belongs to its item.
fn items(comment: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut depth = 0;
    let between_items = move |byte: &u8| {
        depth += i32::from(*byte == b'(') - i32::from(*byte == b')');
        depth == 0 && *byte == b';'
    };
    comment.split(between_items).map(<[u8]>::trim_ascii)
}

fn is_url(item: &[u8]) -> bool {
    let item = item.strip_prefix(b"+").unwrap_or(item);
    [&b"http://"[..], b"https://"].iter().any(|scheme| {
        item.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    })
}

/// The prefix of an item that a robots.txt can name: letters, digits, `-`, `_`, `.`. A URL is no
/// name.
fn name(item: &[u8]) -> Option<&str> {
    let length = item.iter().position(|byte| !is_of_token(byte)).unwrap_or(item.len());
    let name = str::from_utf8(&item[..length]).ok()?;
    (!name.is_empty() && !is_url(item)).then_some(name)
}

/// Digits and dots go beyond the grammar of RFC 9309, because real tokens contain them.
fn is_of_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(byte)
}

/// Whether `text` is a product token as [`product_token`] returns it.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.as_bytes().iter().all(is_of_token)
}

/// A product token as configured: the part of a User-Agent by which a robots.txt group is selected
/// (RFC 9309 §2.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if is_token(text) {
            Ok(Self(text.into()))
        } else {
            Err(format!(
                "\"{text}\" is not a product token; write one such as \"ExampleBot\", without version"
            ))
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::product_token;

    #[track_caller]
    fn names(user_agent: &str, token: impl Into<Option<&'static str>>) {
        assert_eq!(product_token(user_agent.as_bytes()), token.into(), "{user_agent}");
    }

    #[test]
    fn the_first_product_names_the_crawler() {
        names("Zebra/2.1 (+https://zebra.example)", "Zebra");
        names("FigTree/0.1 Robot/1.0 libwww-perl/5.04", "FigTree");
        names("MJ12bot/v1.4.8 (http://mj12bot.example/)", "MJ12bot");
        names("  zebra-images", "zebra-images");
    }

    #[test]
    fn a_crawler_that_says_mozilla_is_named_after_compatible() {
        names("Mozilla/5.0 (compatible; Zebra/2.1; +https://zebra.example)", "Zebra");
        names(
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Zebra/1; +http://z.example) Chrome/1",
            "Zebra",
        );
        names(
            "mozilla/5.0 (COMPATIBLE ;archive.org_bot +http://archive.example)",
            "archive.org_bot",
        );
    }

    #[test]
    fn or_before_its_url() {
        names(
            "Mozilla/5.0 (iPad; CPU OS 16_0) Safari/605 (Zebra/2.1; +https://zebra.example)",
            "Zebra",
        );
        names("Mozilla/5.0 (X11 (Zebra; http://no.example); Lion (b); http://yes.example)", "Lion");
    }

    #[test]
    fn a_browser_is_mozilla() {
        names(
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120",
            "Mozilla",
        );
        names("Mozilla/5.0 (like zebra; not closed", "Mozilla");
        names("Mozilla/5.0 (compatible; +https://zebra.example)", "Mozilla");
    }

    #[test]
    fn nothing_usable_is_no_token() {
        names("", None);
        names("   ", None);
        names("(zebra)", None);
        names("https://zebra.example", None);
        assert_eq!(product_token(b"\xFF\x00"), None);
    }
}
