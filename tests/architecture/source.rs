//! The source as it stands in `src/`: its files, and their tokens without comments and test code.

use std::fs;
use std::path::{Path, PathBuf};

/// A word, or one character that is none, with its line counted from 1.
#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    pub fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub fn is_word(&self) -> bool {
        self.text.starts_with(is_word)
    }
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of `src/` and of the crates beside it, by its path within, `robots/lib.rs` for one of
/// `crates/robots/src/`.
pub fn sources() -> Vec<(String, PathBuf)> {
    let of = |dir: &str, prefix: &str| -> Vec<(String, PathBuf)> {
        let dir = root().join(dir);
        let named = |file: PathBuf| {
            let within = file.strip_prefix(&dir).expect("below it").display();
            (format!("{prefix}{within}"), file)
        };
        files(&dir).into_iter().map(named).collect()
    };
    [of("src", ""), of("crates/robots/src", "robots/")].concat()
}

/// Every file below a directory or, where `dir` is a file, just that; in order.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    if dir.is_file() {
        return vec![dir.to_owned()];
    }
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
}

/// The tokens of a file. Strings, characters and comments are left out, and so are items that only
/// tests have (`#[cfg(test)]`).
pub fn tokens(text: &str) -> Vec<Token> {
    without_tests(&all_tokens(text))
}

pub fn all_tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let end = match skipped(&chars, at) {
            Some(end) => end,
            None => {
                let end = if is_word(chars[at]) {
                    chars[at..]
                        .iter()
                        .position(|char| !is_word(*char))
                        .map_or(chars.len(), |len| at + len)
                } else {
                    at + 1
                };
                tokens.push(Token { text: chars[at..end].iter().collect(), line });
                end
            }
        };
        line += chars[at..end].iter().filter(|char| **char == '\n').count();
        at = end;
    }
    tokens
}

/// Where the space, comment, string, character or lifetime ends that begins here.
fn skipped(chars: &[char], at: usize) -> Option<usize> {
    let rest = &chars[at..];
    let starts = |text: &str| text.chars().eq(rest.iter().copied().take(text.len()));
    let to = |found: Option<usize>| Some(found.map_or(chars.len(), |len| at + len));
    if rest[0].is_whitespace() {
        return Some(at + 1);
    }
    if starts("//") {
        return to(rest.iter().position(|char| *char == '\n'));
    }
    if starts("/*") {
        return to(rest.windows(2).position(|pair| pair == ['*', '/']).map(|len| len + 2));
    }
    let prefix = rest.iter().take(2).take_while(|char| matches!(char, 'b' | 'r' | 'c')).count();
    let hashes = rest[prefix..].iter().take_while(|char| **char == '#').count();
    let is_raw = rest[..prefix].contains(&'r');
    match rest.get(prefix + hashes) {
        Some('"') if is_raw => Some(raw_string_end(chars, at + prefix + hashes + 1, hashes)),
        Some('"') if hashes == 0 => Some(quoted_end(chars, at + prefix + 1, '"')),
        Some('\'') if hashes == 0 && !is_raw => Some(character_end(chars, at + prefix)),
        _ => None,
    }
}

fn raw_string_end(chars: &[char], from: usize, hashes: usize) -> usize {
    let closes = |at: &usize| {
        chars[*at] == '"'
            && chars[at + 1..].iter().take(hashes).filter(|char| **char == '#').count() == hashes
    };
    (from..chars.len()).find(closes).map_or(chars.len(), |at| at + 1 + hashes)
}

fn quoted_end(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `'a'` and `'\n'` are characters; `'a` is a lifetime, of which the name is left out as well.
fn character_end(chars: &[char], quote: usize) -> usize {
    if chars.get(quote + 1) == Some(&'\\') || chars.get(quote + 2) == Some(&'\'') {
        return quoted_end(chars, quote + 1, '\'');
    }
    let name = chars[quote + 1..].iter().take_while(|char| is_word(**char)).count();
    quote + 1 + name
}

pub fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].len() > TEST.len()
            && TEST.iter().zip(&tokens[at..]).all(|(text, token)| token.is(text))
        {
            at = item_end(tokens, at + TEST.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Where the item, field or arm ends that begins here, after its attributes.
fn item_end(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth == 0 => return at,
            "}" if depth == 1 => return at + 1,
            "}" | ")" | "]" => depth -= 1,
            ";" | "," if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}
