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
    Char { octet: u8, encoded: bool },
}

/// The number of the rule that decides, and what it says.
pub fn decide(rules: &[Rule], path: &[u8], reading: Reading) -> Option<(usize, Directive)> {
    let url = match reading {
        Reading::Rfc9309 => without_dot_segments(&chars(path, reading)),
        Reading::Google => chars(path, reading),
    };
    let query = url.iter().position(|&unit| unit == Unit::Char { octet: b'?', encoded: false });
    let matching = rules.iter().enumerate().filter_map(|(n, rule)| {
        let pattern = pattern(&rule.pattern, reading);
        let compare =
            |rule, at| same(rule, url[at], query.is_some_and(|query| at > query), reading);
        let length: u32 = pattern.iter().map(|&unit| octets(unit, reading)).sum();
        matches(&pattern, url.len(), &compare).then_some((Reverse(length), rule.directive, n))
    });
    matching.min().map(|(_, directive, n)| (n, directive))
}

/// The same path with every unreserved character encoded, and every triplet in one case of hex digits.
pub fn respell(path: &[u8], upper: bool) -> String {
    let hex = |octet: u8| if upper { format!("%{octet:02X}") } else { format!("%{octet:02x}") };
    let spell = |unit: Unit| match unit {
        Unit::Char { octet, encoded } if encoded || octet.is_ascii_alphanumeric() => hex(octet),
        Unit::Char { octet, .. } if octet >= 0x80 => hex(octet),
        Unit::Char { octet, .. } => char::from(octet).to_string(),
        Unit::Star | Unit::End => unreachable!("a URL has no signs"),
    };
    chars(path, Reading::Rfc9309).into_iter().map(spell).collect()
}

/// D-DOTS, RFC 3986 §5.2.4: `.` is left out, `..` takes away what is before it, encoded or not; at the
/// end both leave the directory.
fn without_dot_segments(url: &[Unit]) -> Vec<Unit> {
    const SLASH: Unit = Unit::Char { octet: b'/', encoded: false };
    let query = url.iter().position(|&unit| unit == Unit::Char { octet: b'?', encoded: false });
    let (path, query) = url.split_at(query.unwrap_or(url.len()));
    let dots = |segment: &[Unit]| match segment {
        [Unit::Char { octet: b'.', .. }] => 1,
        [Unit::Char { octet: b'.', .. }, Unit::Char { octet: b'.', .. }] => 2,
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
    let (Unit::Char { octet, encoded }, Unit::Char { octet: url_octet, encoded: url_encoded }) =
        (rule, url)
    else {
        return false;
    };
    let spelling_counts = match octet {
        b'/' | b'?' => !in_query,
        b'%' => true,
        _ => false,
    };
    octet == url_octet
        && (encoded == url_encoded || reading == Reading::Rfc9309 && !spelling_counts)
}

/// D-LENGTH; in Google's reading octets are already spelled out.
fn octets(unit: Unit, reading: Reading) -> u32 {
    let Unit::Char { octet, encoded } = unit else { return 1 };
    let unreserved = octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
    let illegal = octet >= 0x80 || b" \"<>\\^`{|}".contains(&octet);
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
        if *unit == (Unit::Char { octet: b'*', encoded: false }) {
            *unit = Unit::Star;
        }
    }
    if let Some(last) =
        units.last_mut().filter(|last| **last == Unit::Char { octet: b'$', encoded: false })
    {
        *last = Unit::End;
    }
    units
}

fn chars(octets: &[u8], reading: Reading) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut rest = octets;
    while let Some((&octet, after)) = rest.split_first() {
        match triplet(rest).filter(|_| reading == Reading::Rfc9309) {
            Some(octet) => {
                units.push(Unit::Char { octet, encoded: true });
                rest = &rest[3..];
            }
            None => {
                units.push(Unit::Char { octet, encoded: false });
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
            Unit::Char { octet, encoded } if encoded || octet >= 0x80 => {
                format!("%{octet:02X}").into_bytes()
            }
            Unit::Char { octet, .. } => vec![octet],
            Unit::Star | Unit::End => unreachable!("signs are found later"),
        })
        .collect()
}

fn triplet(octets: &[u8]) -> Option<u8> {
    let digits = octets.strip_prefix(b"%")?.get(..2)?;
    let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}
