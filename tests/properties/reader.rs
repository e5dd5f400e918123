//! A second, naive reader of robots.txt, from RFC 9309 §2.2 and the decisions alone: it goes through
//! the lines once for each question, and keeps nothing.

use courtesy::robots::Directive;

use super::naive::{self, Reading, Rule};

const SIZE_LIMIT: usize = 500 * 1024;

/// The line of the rule that decides about `path` for `token`, and what it says.
pub fn decide(file: &[u8], token: Option<&str>, path: &[u8]) -> Option<(u32, Directive)> {
    assert!(file.len() <= SIZE_LIMIT, "nothing is cut here");
    let lines = lines(file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file));
    let own = token.and_then(|token| rules(&lines, &|name| is_token(name, token)));
    let (numbers, rules): (Vec<u32>, Vec<Rule>) =
        own.or_else(|| rules(&lines, &is_default))?.into_iter().unzip();
    naive::decide(&rules, path, Reading::Rfc9309).map(|(n, directive)| (numbers[n], directive))
}

/// The rules of all groups of somebody, by line; `None` where there is no such group.
fn rules(lines: &[&[u8]], is_named: &dyn Fn(&[u8]) -> bool) -> Option<Vec<(u32, Rule)>> {
    let mut rules = None;
    let (mut applies, mut in_run) = (false, false);
    for (line, number) in lines.iter().zip(1..) {
        let Some((key, value)) = record(line) else { continue };
        let directive = match key.to_ascii_lowercase().as_slice() {
            b"user-agent" => {
                applies = applies && in_run || is_named(value);
                in_run = true;
                if applies {
                    rules.get_or_insert_with(Vec::new);
                }
                continue;
            }
            b"allow" => Directive::Allow,
            b"disallow" => Directive::Disallow,
            // Any other record is as if it were not there (RFC 9309 §2.2.4).
            _ => continue,
        };
        in_run = false;
        if applies && is_pattern(value) {
            let rule = Rule { directive, pattern: value.to_vec() };
            rules.get_or_insert_with(Vec::new).push((number, rule));
        }
    }
    rules
}

/// D-NONSLASH, D-EMPTY, D-BYTES.
fn is_pattern(value: &[u8]) -> bool {
    let forbidden = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    matches!(value.first(), Some(b'/' | b'*')) && !value.iter().any(forbidden)
}

/// D-DIGITS: a token with digits or dots is compared with all of the name that may be such a token.
fn is_token(value: &[u8], token: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || b"-_".contains(&byte);
    let is_plain = token.bytes().all(is_letter);
    let counts = |byte: u8| is_letter(byte) || !is_plain && (byte.is_ascii_digit() || byte == b'.');
    let name: Vec<u8> = value.iter().copied().take_while(|byte| counts(*byte)).collect();
    name.eq_ignore_ascii_case(token.as_bytes())
}

/// D-STAR.
fn is_default(value: &[u8]) -> bool {
    value == b"*" || value.starts_with(b"*") && b" \t\n\x0B\x0C\r".contains(&value[1])
}

/// Key and value, if there is a colon after a key and before a comment.
fn record(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = line.split(|byte| *byte == b'#').next()?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    let (key, value) = (blanks_off(&text[..colon]), blanks_off(&text[colon + 1..]));
    (!key.is_empty()).then_some((key, value))
}

fn blanks_off(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// CR LF is one end, CR and LF are one each (RFC 9309 §2.2, `EOL`).
fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = rest.iter().position(|byte| b"\r\n".contains(byte)) {
        lines.push(&rest[..end]);
        rest = rest[end..].strip_prefix(b"\r\n").unwrap_or(&rest[end + 1..]);
    }
    lines.push(rest);
    lines
}
