//! Which parts of a path are hidden (`audit.redact_paths`).

use std::ops::Range;

use memchr::memmem;

use crate::policy::exemption::PathPattern;

/// A pattern of paths of which something is hidden.
#[derive(Clone, Debug)]
pub struct HiddenPath {
    /// The texts between its `*`, percent-decoded: what is the same URL is hidden in each spelling.
    pieces: Vec<Vec<u8>>,
    /// It ends in `$`.
    is_anchored: bool,
}

impl HiddenPath {
    /// One without a `*` hides what follows it.
    pub fn new(pattern: &PathPattern) -> Self {
        let text = pattern.to_string();
        let (text, is_anchored) =
            text.strip_suffix('$').map_or((&*text, false), |text| (text, true));
        let mut pieces: Vec<_> = text.split('*').map(|piece| decoded(piece).0).collect();
        if pieces.len() == 1 && !is_anchored {
            pieces.push(Vec::new());
        }
        Self { pieces, is_anchored }
    }

    /// The places in `path` that its `*` stand for, each as little as it can, in order. `is_cut`: the path went on, and what is
    /// not seen is taken to match.
    pub fn places(&self, path: &str, is_cut: bool) -> Vec<Range<usize>> {
        let (bytes, starts) = decoded(path);
        let found = self.find(&bytes, is_cut).unwrap_or_default();
        let places = found.into_iter().filter(|place| !place.is_empty());
        // A pattern may have half of a character, percent-encoded.
        let whole = |place: Range<usize>| {
            path.floor_char_boundary(starts[place.start])
                ..path.ceil_char_boundary(starts[place.end])
        };
        places.map(whole).collect()
    }

    fn find(&self, path: &[u8], is_cut: bool) -> Option<Vec<Range<usize>>> {
        let (first, others) = self.pieces.split_first()?;
        let mut at = path.starts_with(first).then_some(first.len())?;
        let mut places = Vec::new();
        for (index, piece) in others.iter().enumerate() {
            let rest = &path[at..];
            let is_last = index + 1 == others.len();
            let found = if is_last && (self.is_anchored || piece.is_empty()) {
                rest.ends_with(piece).then(|| rest.len() - piece.len())
            } else {
                memmem::find(rest, piece)
            };
            match found {
                Some(length) => {
                    places.push(at..at + length);
                    at += length + piece.len();
                }
                None if is_cut => {
                    places.push(at..path.len());
                    return Some(places);
                }
                None => return None,
            }
        }
        Some(places)
    }
}

/// The bytes of `text`, percent-decoded, and where each begins in it; last, where it ends. A slash that is
/// percent-encoded divides no path, and stays so.
fn decoded(text: &str) -> (Vec<u8>, Vec<usize>) {
    let (bytes, mut decoded, mut starts, mut at) = (text.as_bytes(), Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let value = digits
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .filter(|value| *value != b'/');
        decoded.push(value.unwrap_or(bytes[at]));
        starts.push(at);
        at += if value.is_some() { 3 } else { 1 };
    }
    starts.push(at);
    (decoded, starts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `path` with each hidden part as `#`.
    fn hidden(pattern: &str, path: &str, is_cut: bool) -> String {
        let mut shown = path.to_owned();
        for place in HiddenPath::new(&pattern.parse().unwrap()).places(path, is_cut).iter().rev() {
            shown.replace_range(place.clone(), "#");
        }
        shown
    }

    #[test]
    fn what_a_star_stands_for_is_hidden() {
        for (pattern, path, expected) in [
            ("/users/*/orders", "/users/jane/orders", "/users/#/orders"),
            ("/users/*/orders", "/users/jane/orders/5", "/users/#/orders/5"),
            ("/users/*/orders", "/users/a/b/orders", "/users/#/orders"),
            ("/users/*/orders", "/users/jane/basket", "/users/jane/basket"),
            ("/users/*/orders/*", "/users/jane/orders/5/6", "/users/#/orders/#"),
            ("/users/*/", "/users/jane/x/y", "/users/#/x/y"),
            ("/users/", "/users/jane/x", "/users/#"),
            ("/users/", "/users/", "/users/"),
            ("/users/*", "/users/jane/x", "/users/#"),
            ("/users/jane$", "/users/jane", "/users/jane"),
            ("/*.pdf$", "/a/b.pdf", "/#.pdf"),
            ("/*.pdf$", "/a/b.pdf.txt", "/a/b.pdf.txt"),
            ("*/jane/", "/x/jane/y", "#/jane/y"),
            ("/users/*/", "/use%72s/j%2Fx/y", "/use%72s/#/y"),
            ("/é/*/", "/%C3%A9/jane/", "/%C3%A9/#/"),
            ("/us%65rs/*/", "/users/100%/", "/users/#/"),
            ("/Users/", "/users/jane", "/users/jane"),
        ] {
            assert_eq!(hidden(pattern, path, false), expected, "{pattern} of {path}");
        }
    }

    #[test]
    fn what_was_cut_off_is_taken_to_match() {
        for (pattern, path, expected) in [
            ("/users/*/orders", "/users/jane/or", "/users/#"),
            ("/users/*/orders", "/users/jane/orders/5", "/users/#/orders/5"),
            ("/users/*/orders", "/other/jane", "/other/jane"),
            ("/*.pdf$", "/a/b", "/#"),
        ] {
            assert_eq!(hidden(pattern, path, true), expected, "{pattern} of {path}");
        }
    }

    proptest! {
        #[test]
        fn places_are_of_whole_characters(
            pattern in "/[a*%é$]{0,6}",
            path in "/[a%é/0-9]{0,12}",
            is_cut: bool,
        ) {
            let Ok(pattern) = pattern.parse() else { return Ok(()) };
            for place in HiddenPath::new(&pattern).places(&path, is_cut) {
                let hidden = path.get(place.clone());
                prop_assert!(hidden.is_some_and(|it| !it.is_empty()), "{:?} of {}", place, path);
            }
        }
    }
}
