//! Public items say what they are, public amounts their unit, and functions have names that can be
//! read at a glance. `missing_docs` of the compiler would also ask for a comment at each field and
//! variant: `store: Arc<Store>` is said by its name and its type.

use std::fs;

use crate::source::{files, root, sources};

/// Functions whose meaning is the same everywhere.
const UNDERSTOOD: [&str; 2] = ["serialize", "deserialize"];

const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];

/// Types of fields that need a meaning and a unit.
const AMOUNTS: [&str; 9] =
    ["u8", "u16", "u32", "u64", "usize", "f64", "NonZeroUsize", "Duration", "Instant"];

/// Folders whose fields are not asked for yet.
const FIELDS_LEFT_OUT: [&str; 2] = ["src/egress", "src/pace"];

#[test]
fn public_items_are_documented() {
    let understood = |name: &str| UNDERSTOOD.contains(&name);
    let (items, undocumented) = documented(public_item, &[]);
    assert!(items > 1500, "{items} items: the search has failed");
    let offences: Vec<_> = undocumented.iter().filter(|(name, _)| !understood(name)).collect();
    assert!(offences.is_empty(), "without a doc comment: {offences:#?}");
}

#[test]
fn public_amounts_have_a_meaning_and_a_unit() {
    let (fields, offences) = documented(amount, &FIELDS_LEFT_OUT);
    assert!(fields > 300, "{fields} fields: the search has failed");
    assert!(offences.is_empty(), "without a doc comment: {offences:#?}");
}

/// How many lines `find` finds a name in, and those of them that no doc comment stands above, as
/// names with their places.
fn documented(
    find: impl Fn(&str) -> Option<&str>,
    left_out: &[&str],
) -> (usize, Vec<(String, String)>) {
    let (mut found, mut undocumented) = (0, Vec::new());
    for (_, path) in sources() {
        let within = path.strip_prefix(root()).expect("a path of ours");
        let is_test =
            within.components().any(|part| part.as_os_str().to_string_lossy().ends_with("tests"));
        let is_left_out = left_out.iter().any(|folder| within.starts_with(folder));
        if is_left_out || is_test || within.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let (mut is_documented, mut in_attribute) = (false, false);
        for (number, line) in text.lines().map(str::trim_start).enumerate() {
            // An attribute stands between the comment and the item, over several lines perhaps.
            if in_attribute || line.starts_with("#[") {
                in_attribute = !line.ends_with(if in_attribute { ")]" } else { "]" });
                continue;
            }
            if let Some(name) = find(line) {
                found += 1;
                if !is_documented {
                    let place = format!("{}:{}", within.display(), number + 1);
                    undocumented.push((name.to_owned(), place));
                }
            }
            is_documented = line.starts_with("///");
        }
    }
    (found, undocumented)
}

/// The name of the public field in this line, if it is an amount.
fn amount(line: &str) -> Option<&str> {
    let (name, kind) = line.strip_prefix("pub ")?.strip_suffix(',')?.split_once(": ")?;
    let kind = kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>')).unwrap_or(kind);
    AMOUNTS.contains(&kind).then_some(name)
}

/// The name of the public item that begins in this line. Names that a macro gives have none.
fn public_item(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split([' ', '(', '<', ':', ';']).peekable();
    while words.next_if(|word| ["async", "const"].contains(word)).is_some() {
        if words.peek().is_some_and(|word| !KINDS.contains(word) && *word != "async") {
            return words.next();
        }
    }
    KINDS
        .contains(&words.next()?)
        .then(|| words.next())
        .flatten()
        .filter(|name| !name.starts_with('$'))
}

/// A name reads as a fact: a longer one is a story.
const NAME_CHARS_MAX: usize = 70;

#[test]
fn names_of_functions_are_short() {
    let mut offences = Vec::new();
    for path in ["src", "crates", "tests"].iter().flat_map(|dir| files(&root().join(dir))) {
        if path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let names = text.split("fn ").skip(1).map(|rest| {
            rest.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or("")
        });
        let long = names.filter(|name| name.len() > NAME_CHARS_MAX);
        offences.extend(long.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(offences.is_empty(), "longer than {NAME_CHARS_MAX}:\n{}", offences.join("\n"));
}
