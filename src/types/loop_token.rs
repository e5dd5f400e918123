//! The header by which a proxy recognises a request of its own that comes back by parent proxies.
//!
//! A proxy names itself, and the proxies before it, to its parents, also where the chain goes over
//! another proxy of this program: its parent is then found to be itself.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

/// A list of tokens, one of each proxy on the way, the nearest last. `Via` shows them as well, but
/// parents may remove that, and a fetch of robots.txt has none.
pub const LOOP_TOKEN: HeaderName = HeaderName::from_static("courtesy-loop");

/// Proxies that are named. Of a longer chain the nearest are: the others may be forged by a client.
const TOKENS_MAX: usize = 8;

/// Characters of a token, which are hexadecimal digits: 128 bits, which cannot be guessed.
const TOKEN_CHARS: usize = 32;

/// The token of this process. Origins do not see it, as they see the entry in `Via`, unless a parent
/// that forwards in absolute-form passes it on. A client that
/// has it can only have its own requests refused.
#[derive(Clone)]
pub struct LoopToken(Arc<str>);

/// The tokens that came with a request: of the proxies before this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopTokens(Option<Arc<str>>);

impl LoopToken {
    /// Of 16 random bytes.
    pub fn new(random: [u8; TOKEN_CHARS / 2]) -> Self {
        Self(crate::types::sanitize::hex(&random).into())
    }
}

impl fmt::Debug for LoopToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopToken").finish_non_exhaustive()
    }
}

impl LoopTokens {
    /// No tokens.
    pub const NONE: Self = Self(None);

    /// Those in `headers`. What is no token is passed over.
    pub fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(LOOP_TOKEN).iter().filter_map(|value| value.to_str().ok());
        let tokens = values.flat_map(|value| value.split(',')).map(str::trim);
        let tokens: Vec<_> = tokens.filter(|token| is_token(token)).collect();
        let nearest = &tokens[tokens.len().saturating_sub(TOKENS_MAX)..];
        Self((!nearest.is_empty()).then(|| nearest.join(", ").into()))
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `own` is one of them: the request has been through this process before.
    pub fn has(&self, own: &LoopToken) -> bool {
        self.iter().any(|token| *token == *own.0)
    }

    /// The value of the header for a parent proxy.
    pub fn and(&self, own: &LoopToken) -> String {
        let dropped = (self.iter().count() + 1).saturating_sub(TOKENS_MAX);
        let tokens: Vec<_> = self.iter().skip(dropped).chain([&*own.0]).collect();
        tokens.join(", ")
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|tokens| tokens.split(", "))
    }
}

fn is_token(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == TOKEN_CHARS && text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn token(number: u8) -> LoopToken {
        LoopToken::new([number; 16])
    }

    fn received(values: &[&str]) -> LoopTokens {
        let line = |value: &&str| (LOOP_TOKEN, HeaderValue::from_str(value).unwrap());
        LoopTokens::of(&values.iter().map(line).collect())
    }

    #[test]
    fn each_proxy_on_the_way_recognises_its_own_token() {
        let first = LoopTokens::NONE.and(&token(1));
        assert_eq!(first, "01".repeat(16));
        let second = received(&[&first]).and(&token(2));
        assert_eq!(second, format!("{}, {}", "01".repeat(16), "02".repeat(16)));
        let back = received(&[&second]);
        assert!(back.has(&token(1)) && back.has(&token(2)) && !back.has(&token(3)));
        // As several lines, and as a parent may write the list.
        let lines = [&*first, &format!(",{}\t,", "02".repeat(16))];
        assert_eq!(received(&lines), back);
    }

    #[test]
    fn what_is_no_token_is_not_passed_on() {
        for value in ["", "a1", &"g".repeat(32), &"A".repeat(32), &"a".repeat(33), ";", "a, b"] {
            assert!(received(&[value]).is_empty(), "{value}");
        }
        assert!(!format!("{:?}", token(0xab)).contains("ab"));
    }

    /// Forged tokens drive no real one out, unless they stand behind it.
    #[test]
    fn of_many_tokens_the_nearest_are_named() {
        let many: Vec<_> = (0..100).map(|number| format!("{number:032x}")).collect();
        let value = received(&[&many.join(",")]).and(&token(1));
        let kept: Vec<_> = value.split(", ").collect();
        assert_eq!(kept.len(), TOKENS_MAX);
        assert_eq!(kept[0], many[93]);
        assert!(received(&[&value]).has(&token(1)));
    }
}
