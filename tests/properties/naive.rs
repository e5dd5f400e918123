//! The obvious way to decide, written from RFC 9309 §2.2.2 and the decisions alone: no normal form, no
//! compiled pattern, every choice of a wildcard tried.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use courtesy::robots::Directive;

#[derive(Clone, Debug)]
pub struct Rule {
    pub directive: Directive,
    pub pattern: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Rfc9309,
    Google,
}

/// A sign or character of a pattern, or a character of a URL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Star,
    End,
    Char { byte: u8, encoded: bool },
}

/// The number of the rule that decides, and what it says.
pub fn decide(rules: &[Rule], path: &[u8], reading: Reading) -> Option<(usize, Directive)> {
    let url = match reading {
        Reading::Rfc9309 => without_dot_segments(&chars(path, reading)),
        Reading::Google => chars(path, reading),
    };
    let query = url.iter().position(|&unit| unit == Unit::Char { byte: b'?', encoded: false });
    let matching = rules.iter().enumerate().filter_map(|(n, rule)| {
        let pattern = pattern(&rule.pattern, reading);
        let compare =
            |rule, at| same(rule, url[at], query.is_some_and(|query| at > query), reading);
        let length: u32 = pattern.iter().map(|&unit| bytes(unit, reading)).sum();
        matches(&pattern, url.len(), &compare).then_some((Reverse(length), rule.directive, n))
    });
    matching.min().map(|(_, directive, n)| (n, directive))
}

/// The same path with every unreserved character encoded, and every triplet in one case of hex digits.
pub fn respell(path: &[u8], upper: bool) -> String {
    let hex = |byte: u8| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
    let spell = |unit: Unit| match unit {
        Unit::Char { byte, encoded } if encoded || byte.is_ascii_alphanumeric() => hex(byte),
        Unit::Char { byte, .. } if byte >= 0x80 => hex(byte),
        Unit::Char { byte, .. } => char::from(byte).to_string(),
        Unit::Star | Unit::End => unreachable!("a URL has no signs"),
    };
    chars(path, Reading::Rfc9309).into_iter().map(spell).collect()
}

/// D-DOTS, RFC 3986 §5.2.4: `.` is left out, `..` takes away what is before it, encoded or not; at the
/// end both leave the directory.
fn without_dot_segments(url: &[Unit]) -> Vec<Unit> {
    const SLASH: Unit = Unit::Char { byte: b'/', encoded: false };
    let query = url.iter().position(|&unit| unit == Unit::Char { byte: b'?', encoded: false });
    let (path, query) = url.split_at(query.unwrap_or(url.len()));
    let dots = |segment: &[Unit]| match segment {
        [Unit::Char { byte: b'.', .. }] => 1,
        [Unit::Char { byte: b'.', .. }, Unit::Char { byte: b'.', .. }] => 2,
        _ => 0,
    };
    let segments: Vec<&[Unit]> = path.split(|&unit| unit == SLASH).skip(1).collect();
    let mut kept: Vec<&[Unit]> = Vec::new();
    for (number, segment) in segments.iter().enumerate() {
        match dots(segment) {
            0 => kept.push(segment),
            dots => {
                if dots == 2 {
                    kept.pop();
                }
                if number + 1 == segments.len() {
                    kept.push(&[]);
                }
            }
        }
    }
    let path = kept.into_iter().flat_map(|segment| [&[SLASH], segment].concat());
    path.chain(query.iter().copied()).collect()
}

/// Follows all the places of the URL at once that the pattern can have come to.
fn matches(pattern: &[Unit], end: usize, same: &impl Fn(Unit, usize) -> bool) -> bool {
    let mut places = BTreeSet::from([0]);
    for &unit in pattern {
        places = match (unit, places.first()) {
            (_, None) => return false,
            (Unit::Star, Some(&first)) => (first..=end).collect(),
            (Unit::End, _) => places.into_iter().filter(|&at| at == end).collect(),
            _ => places
                .into_iter()
                .filter(|&at| at < end && same(unit, at))
                .map(|at| at + 1)
                .collect(),
        };
    }
    !places.is_empty()
}

/// D-RESERVED, D-PCT; in Google's reading, spellings are compared.
fn same(rule: Unit, url: Unit, in_query: bool, reading: Reading) -> bool {
    let (Unit::Char { byte, encoded }, Unit::Char { byte: url_byte, encoded: url_encoded }) =
        (rule, url)
    else {
        return false;
    };
    let spelling_counts = match byte {
        b'/' | b'?' => !in_query,
        b'%' => true,
        _ => false,
    };
    byte == url_byte && (encoded == url_encoded || reading == Reading::Rfc9309 && !spelling_counts)
}

/// D-LENGTH; in Google's reading bytes are already spelled out.
fn bytes(unit: Unit, reading: Reading) -> u32 {
    let Unit::Char { byte, encoded } = unit else { return 1 };
    let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let illegal = byte >= 0x80 || b" \"<>\\^`{|}".contains(&byte);
    let triplet = reading == Reading::Rfc9309 && if encoded { !unreserved } else { illegal };
    if triplet { 3 } else { 1 }
}

fn pattern(written: &[u8], reading: Reading) -> Vec<Unit> {
    let spelled = match reading {
        Reading::Rfc9309 => written.to_vec(),
        Reading::Google => escaped(written),
    };
    let mut units = chars(&spelled, reading);
    for unit in &mut units {
        if *unit == (Unit::Char { byte: b'*', encoded: false }) {
            *unit = Unit::Star;
        }
    }
    if let Some(last) =
        units.last_mut().filter(|last| **last == Unit::Char { byte: b'$', encoded: false })
    {
        *last = Unit::End;
    }
    units
}

fn chars(bytes: &[u8], reading: Reading) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        match triplet(rest).filter(|_| reading == Reading::Rfc9309) {
            Some(byte) => {
                units.push(Unit::Char { byte, encoded: true });
                rest = &rest[3..];
            }
            None => {
                units.push(Unit::Char { byte, encoded: false });
                rest = after;
            }
        }
    }
    units
}

/// What Google's matcher does to a rule.
fn escaped(rule: &[u8]) -> Vec<u8> {
    chars(rule, Reading::Rfc9309)
        .into_iter()
        .flat_map(|unit| match unit {
            Unit::Char { byte, encoded } if encoded || byte >= 0x80 => {
                format!("%{byte:02X}").into_bytes()
            }
            Unit::Char { byte, .. } => vec![byte],
            Unit::Star | Unit::End => unreachable!("signs are found later"),
        })
        .collect()
}

fn triplet(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.strip_prefix(b"%")?.get(..2)?;
    let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}
