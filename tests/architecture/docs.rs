//! Public items say what they are, and functions have names that can be read at a glance. `missing_docs` of the compiler would also ask for a comment at
//! each field and variant, whose names are mostly enough.

use std::fs;

use crate::source::{files, root};

/// Commands are called by the command line only, which documents them itself.
const LEFT_OUT: &str = "src/cli";

/// Functions whose meaning is the same everywhere.
const UNDERSTOOD: [&str; 3] = ["new", "serialize", "deserialize"];

const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];

#[test]
fn public_items_are_documented() {
    let paths = files(&root().join("src"));
    let paths = paths.iter().filter(|path| {
        let path = path.strip_prefix(root()).expect("a path of ours");
        let is_test =
            path.components().any(|part| part.as_os_str().to_string_lossy().ends_with("tests"));
        !path.starts_with(LEFT_OUT) && !is_test && !path.ends_with("tests.rs")
    });
    let mut items = 0;
    let mut offences = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path).expect("text");
        let mut is_documented = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if let Some(name) = public_item(line) {
                items += 1;
                if !is_documented && !UNDERSTOOD.contains(&name) {
                    offences.push(format!("{}:{}: {name}", path.display(), number + 1));
                }
            }
            // An attribute stands between the comment and the item, over several lines perhaps.
            is_documented = line.starts_with("///")
                || is_documented && !line.ends_with([';', '}', '{'])
                || is_documented && line.starts_with("#[");
        }
    }
    assert!(items > 1000, "{items} items: the search has failed");
    assert!(offences.is_empty(), "without a doc comment:\n{}", offences.join("\n"));
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
    for path in ["src", "tests"].iter().flat_map(|dir| files(&root().join(dir))) {
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
