//! The requested path, from the URL of a record, which may be cut or have redacted query values.

use std::borrow::Cow;

use crate::audit::Record;
use crate::policy::decision::{Decision, HostDecision, decide, decide_beginning, decide_host};
use crate::policy::state::Policy;
use crate::robots::Percent;

/// Begins the mark for the rest of a URL that was cut. No URL has that character: what is not ASCII
/// is percent-encoded in a record.
const CUT_MARK: char = '…';
/// Of a value that was redacted: `~` and so many hexadecimal digits.
const REDACTED_DIGITS: usize = 16;

/// The input of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    Host,
    Path(&'a str),
    /// How it went on is not known.
    Beginning {
        text: &'a str,
        because: &'static str,
    },
}

/// Why a record cannot be decided on.
pub(super) type Unclear = &'static str;

impl<'a> Asked<'a> {
    pub(super) fn of(record: &'a Record) -> Result<Self, Unclear> {
        if !record.path_seen {
            return Ok(Self::Host);
        }
        let path = record.url.strip_prefix(&record.origin).ok_or("its URL is not of its origin")?;
        if let Some((begin, _)) = path.split_once(CUT_MARK) {
            // Dot segments that follow would change what is before them.
            return if begin.contains('?') {
                Ok(Self::beginning(begin, "its URL was too long to be recorded as a whole"))
            } else {
                Err("its URL was too long to be recorded as a whole")
            };
        }
        match redacted_at(path) {
            Some(at) => Ok(Self::beginning(&path[..at], "the values of its query are redacted")),
            None => Ok(Self::Path(path)),
        }
    }

    fn beginning(text: &'a str, because: &'static str) -> Self {
        // No part of a percent-encoding at the end.
        let tail = text.len().saturating_sub(2);
        let end = text.as_bytes()[tail..]
            .iter()
            .position(|byte| *byte == b'%')
            .map_or(text.len(), |at| tail + at);
        Self::Beginning { text: &text[..end], because }
    }

    /// The decision of `policy`, if it is determined; `was_encoded`: the proxy judged the URL as it
    /// is recorded, and not as the client wrote it.
    pub(super) fn decide<'p>(
        &self,
        policy: &Policy<'p>,
        token: Option<&str>,
        was_encoded: bool,
    ) -> Result<HostDecision<'p>, Unclear> {
        let spelt = |text: &'a str| {
            let as_given = !was_encoded
                && matches!(policy, Policy::Rules(copy) if copy.rules.dialect().percent == Percent::RulesOnly);
            [Some(Cow::Borrowed(text.as_bytes())), as_given.then(|| unencoded(text)).flatten()]
                .into_iter()
                .flatten()
        };
        match self {
            Self::Host => Ok(decide_host(policy, token)),
            Self::Path(text) => agreed(spelt(text).map(|path| Ok(decide(policy, token, &path)))),
            Self::Beginning { text, because } => agreed(
                spelt(text).map(|begin| decide_beginning(policy, token, &begin).ok_or(*because)),
            ),
        }
    }
}

/// The decision, if it is the same for all spellings.
fn agreed<'p>(
    mut decisions: impl Iterator<Item = Result<Decision<'p>, Unclear>>,
) -> Result<HostDecision<'p>, Unclear> {
    let first = decisions.next().expect("there is the spelling of the record")?;
    for other in decisions {
        if other? != first {
            return Err("it does not tell which bytes of its URL were percent-encoded");
        }
    }
    Ok(HostDecision::Whole(first))
}

/// A record percent-encodes what is not printable ASCII. By RFC 9309 §2.2.2 that is the same URL; but
/// a dialect may take URLs as given, and the client may have given those bytes themselves.
fn unencoded(text: &str) -> Option<Cow<'_, [u8]>> {
    let (bytes, mut given, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let hex =
            bytes.get(at..at + 3).filter(|triplet| triplet[0] == b'%').map(|triplet| &triplet[1..]);
        let value = hex
            .filter(|hex| !hex.iter().any(u8::is_ascii_lowercase))
            .and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok())
            .filter(|value| *value >= 0x7f);
        given.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    (given.len() < bytes.len()).then_some(Cow::Owned(given))
}

/// Where the first redacted value of a query is.
fn redacted_at(path: &str) -> Option<usize> {
    let query = path.find('?')? + 1;
    let mut at = query;
    for pair in path[query..].split('&') {
        let value = pair.find('=').map_or(0, |equals| equals + 1);
        let digits = pair[value..].strip_prefix('~').unwrap_or_default().bytes();
        if digits.len() == REDACTED_DIGITS
            && digits.clone().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Some(at + value);
        }
        at += pair.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_values_are_told_from_others() {
        for (path, begin) in [
            ("/a?q=~0123456789abcdef", Some("/a?q=")),
            ("/a?q=1&r=~0123456789abcdef&s=2", Some("/a?q=1&r=")),
            ("/a?~0123456789abcdef", Some("/a?")),
            ("/a?q=~0123456789abcdef0", None),
            ("/a?q=~0123456789abcdeg", None),
            ("/~0123456789abcdef", None),
            ("/a?q=x~0123456789abcdef", None),
        ] {
            assert_eq!(redacted_at(path).map(|at| &path[..at]), begin, "{path}");
        }
    }

    #[test]
    fn a_beginning_ends_before_half_an_byte() {
        for (text, expected) in
            [("/a?b", "/a?b"), ("/?a%", "/?a"), ("/?a%4", "/?a"), ("/?a%41", "/?a%41"), ("/", "/")]
        {
            let expected = Asked::Beginning { text: expected, because: "" };
            assert_eq!(Asked::beginning(text, ""), expected);
        }
    }

    #[test]
    fn bytes_that_a_record_encodes_are_given_back() {
        let given = |text| unencoded(text).map(Cow::into_owned);
        assert_eq!(given("/%C3%A9%41%c3%7F%"), Some(b"/\xc3\xa9%41%c3\x7f%".to_vec()));
        assert_eq!(given("/%41%c3%A9".strip_suffix("%A9").unwrap()), None);
        assert_eq!(given("/a"), None);
    }
}
