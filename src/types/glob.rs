//! A case-insensitive pattern over a whole text: `*` matches any bytes, also none; everything else
//! matches itself. For User-Agent patterns of the configuration, never for robots.txt.

use std::fmt;

/// Worst case: time in proportion to pattern times text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// A pattern in which `*` matches any characters.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.into())
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut seen) = (0, 0);
        // Where to resume if what follows the last star does not match: only the last star ever
        // needs to match more, so nothing is tried twice.
        let mut retry: Option<(usize, usize)> = None;
        while seen < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    retry = Some((at + 1, seen));
                    at += 1;
                }
                Some(byte) if byte.eq_ignore_ascii_case(&text[seen]) => {
                    at += 1;
                    seen += 1;
                }
                _ => match retry {
                    Some((after_star, taken)) => {
                        retry = Some((after_star, taken + 1));
                        (at, seen) = (after_star, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_is_matched_in_any_case() {
        for (pattern, text, expected) in [
            ("wget/*", "Wget/1.21", true),
            ("wget", "Wget/1.21", false),
            ("*bot*", "Mozilla/5.0 (compatible; ExampleBot/2.1)", true),
            ("*bot", "ExampleBot/2.1", false),
            ("*a*b*c", "xxaxxbxxbxc", true),
            ("*a*b*c", "xxaxxbxxcxb", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a**b", "ab", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(text.as_bytes()),
                expected,
                "{pattern} on {text}"
            );
        }
    }
}
