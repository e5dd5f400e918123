//! The ways in which servers that normalise paths may read one, besides the written form. RFC 9309
//! §2.2.2 only equates percent-encoded and plain spellings; but a server may merge slashes, decode
//! once more, drop parameters, take a backslash for a slash or ignore case, and so serve under
//! another spelling what a rule disallows.

use std::fmt;

use super::arena::{Steps, StepsExceeded};
use super::dialect::Dialect;
use super::path::{has_dot_segment, remove_dot_segments, split_query};

/// How often a path is decoded at most: once each by a server and a proxy before it, and once more.
const DECODED_MAX: u8 = 3;

/// The cost of one byte of a reading, including its normalisation, in steps.
const BYTE_STEPS: usize = 4;

/// The normalisations applied to a path before it was compared with the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reading {
    /// How often it was decoded.
    decoded: u8,
    backslashes: bool,
    parameters: bool,
    slashes: bool,
    dot_segments: bool,
    case: bool,
}

/// One reading of a path and query.
#[derive(Clone, Debug)]
pub(super) struct Mended {
    pub reading: Reading,
    pub path_and_query: Vec<u8>,
}

/// Applies a normalisation; `None` if it changes nothing.
type Mend = fn(&[u8]) -> Option<Vec<u8>>;

/// Every reading of `path_and_query`, the written one first: with each normalisation alone, and
/// with any of them combined, in the order in which a server would apply them. The query stays
/// unchanged.
///
/// # Errors
///
/// [`StepsExceeded`]: building them takes more steps than are left.
pub(super) fn readings(
    path_and_query: &[u8],
    dialect: &Dialect,
    steps: &mut Steps,
) -> Result<Vec<Mended>, StepsExceeded> {
    let (path, query) = split_query(path_and_query);
    let mut readings = vec![Mended { reading: Reading::default(), path_and_query: path.to_vec() }];
    let mut mend = |mend: Mend, from: usize, note: fn(&mut Reading), readings: &mut Vec<Mended>| {
        for at in from..readings.len() {
            if let Some(path_and_query) = mend(&readings[at].path_and_query) {
                steps.take(readings[at].path_and_query.len() * BYTE_STEPS)?;
                let mut reading = readings[at].reading;
                note(&mut reading);
                readings.push(Mended { reading, path_and_query });
            }
        }
        Ok::<(), StepsExceeded>(())
    };
    for round in 0..DECODED_MAX {
        // The reading that was decoded last, if any was.
        let last = readings.len() - 1;
        if readings[last].reading.decoded == round {
            mend(decode, last, |reading| reading.decoded += 1, &mut readings)?;
        }
    }
    mend(turn_backslashes, 0, |reading| reading.backslashes = true, &mut readings)?;
    mend(remove_parameters, 0, |reading| reading.parameters = true, &mut readings)?;
    mend(merge_slashes, 0, |reading| reading.slashes = true, &mut readings)?;
    if !dialect.removes_dot_segments {
        mend(remove_dots, 0, |reading| reading.dot_segments = true, &mut readings)?;
    }
    for mended in &mut readings {
        mended.path_and_query.extend(query);
    }
    Ok(readings)
}

/// Every percent-encoded byte except `?`, which would begin a query.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let byte = match after {
            [high, low, ..] if *first == b'%' => hex(*high, *low).filter(|byte| *byte != b'?'),
            _ => None,
        };
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    (out.len() < path.len()).then_some(out)
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(value(high)? << 4 | value(low)?).ok()
}

fn turn_backslashes(path: &[u8]) -> Option<Vec<u8>> {
    let turned = |byte: &u8| if *byte == b'\\' { b'/' } else { *byte };
    path.contains(&b'\\').then(|| path.iter().map(turned).collect())
}

/// RFC 3986 §3.3: what follows a `;` in a segment may be its parameters.
fn remove_parameters(path: &[u8]) -> Option<Vec<u8>> {
    let without =
        |segment: &[u8]| segment.split(|byte| *byte == b';').next().unwrap_or_default().to_vec();
    let segments = path.split(|byte| *byte == b'/');
    path.contains(&b';').then(|| segments.map(without).collect::<Vec<_>>().join(&b'/'))
}

fn merge_slashes(path: &[u8]) -> Option<Vec<u8>> {
    let mut merged = path.to_vec();
    merged.dedup_by(|later, kept| *later == b'/' && *kept == b'/');
    (merged.len() < path.len()).then_some(merged)
}

fn remove_dots(path: &[u8]) -> Option<Vec<u8>> {
    (path.starts_with(b"/") && has_dot_segment(path)).then(|| remove_dot_segments(path))
}

impl Reading {
    /// The same, and ignores case.
    pub(super) const fn ignoring_case(self) -> Reading {
        Reading { case: true, ..self }
    }

    /// Whether no normalisation was applied.
    pub fn is_as_written(self) -> bool {
        self == Reading::default()
    }

    /// The normalisations in the order of their application; `decoded` once per decoding.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let decoded = std::iter::repeat_n("decoded", self.decoded.into());
        let others = [
            (self.backslashes, "backslashes_turned"),
            (self.parameters, "parameters_removed"),
            (self.slashes, "slashes_merged"),
            (self.dot_segments, "dot_segments_removed"),
            (self.case, "case_ignored"),
        ];
        decoded.chain(others.into_iter().filter_map(|(is_mended, word)| is_mended.then_some(word)))
    }
}

/// "decoded, slashes merged"; empty if it is as written.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, word) in self.words().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}", word.replace('_', " "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(path: &str) -> Vec<(String, String)> {
        let readings = readings(path.as_bytes(), &Dialect::RFC9309, &mut Steps::without_bound());
        let text = |mended: Mended| {
            let path = String::from_utf8(mended.path_and_query).expect("ASCII");
            (path, mended.reading.to_string())
        };
        readings.expect("steps enough").into_iter().map(text).collect()
    }

    #[test]
    fn a14_each_mend_is_made_alone_and_with_the_others() {
        let expected = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(path, reading)| ((*path).to_owned(), (*reading).to_owned())).collect()
        };
        assert_eq!(read("/private/a?b//c"), expected(&[("/private/a?b//c", "")]));
        assert_eq!(
            read("//private?x"),
            expected(&[("//private?x", ""), ("/private?x", "slashes merged")])
        );
        assert_eq!(
            read("/%2Fa;b\\c"),
            expected(&[
                ("/%2Fa;b\\c", ""),
                ("//a;b\\c", "decoded"),
                ("/%2Fa;b/c", "backslashes turned"),
                ("//a;b/c", "decoded, backslashes turned"),
                ("/%2Fa", "parameters removed"),
                ("//a", "decoded, parameters removed"),
                ("/%2Fa/c", "backslashes turned, parameters removed"),
                ("//a/c", "decoded, backslashes turned, parameters removed"),
                ("/a;b\\c", "decoded, slashes merged"),
                ("/a;b/c", "decoded, backslashes turned, slashes merged"),
                ("/a", "decoded, parameters removed, slashes merged"),
                ("/a/c", "decoded, backslashes turned, parameters removed, slashes merged"),
            ])
        );
        let decoded = read("/%252525252Fa");
        assert_eq!(decoded.last().expect("one").0, "/%252Fa");
        assert_eq!(read("/a%3Fb"), expected(&[("/a%3Fb", "")]));
    }

    #[test]
    fn making_readings_uses_up_steps() {
        let path = format!("/{}", "%2525\\;//".repeat(1000));
        assert!(readings(path.as_bytes(), &Dialect::RFC9309, &mut Steps::at_most(50_000)).is_err());
        let mut steps = Steps::of_decision();
        let readings = readings(path.as_bytes(), &Dialect::RFC9309, &mut steps).expect("enough");
        assert!(
            readings.len() <= 32 && steps.spent() > 200_000,
            "{} {}",
            readings.len(),
            steps.spent()
        );
    }
}
