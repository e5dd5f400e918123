//! The words that have been retired, in what users and developers read: the source, its settings,
//! its pages. `retired.txt` has them with how often each may still stand; the figures may only shrink.

use std::fs;

use crate::safety_rows::test_name;
use crate::source::{files, root};

const RETIRED: &str = include_str!("retired.txt");

/// Where they are looked for, and in which files.
const PLACES: [&str; 4] = ["src", "config", "docs", "README.md"];
const KINDS: [&str; 3] = ["rs", "toml", "md"];

/// The page that says which word is used instead.
const GLOSSARY: &str = "docs/develop/glossary.md";

/// A word, or several in a row. One with a capital is an identifier; others in any case count.
struct Retired {
    word: &'static str,
    most: usize,
}

#[test]
fn retired_words_become_fewer() {
    let texts: Vec<String> = PLACES.iter().flat_map(|place| texts(place)).collect();
    let (text, lower) = (texts.concat(), texts.concat().to_lowercase());
    let mut offences = Vec::new();
    for Retired { word, most } in retired() {
        let text = if word.contains(char::is_uppercase) { &text } else { &lower };
        let count = text.matches(&format!(" {word} ")).count();
        println!("{count} {word}");
        if count > most {
            offences.push(format!("{word}: {count} times, {most} allowed"));
        }
    }
    assert!(offences.is_empty(), "retired words:\n{}", offences.join("\n"));
}

/// A test's name begins with what the test is about, so that it says something where it stands alone.
const NO_SUBJECTS: [&str; 7] = ["nor_", "or_", "so_", "it_", "they_", "neither_", "of_them_"];

#[test]
fn names_of_tests_begin_with_their_subject() {
    let mut count = 0;
    let mut offences = Vec::new();
    for path in ["src", "tests"].iter().flat_map(|dir| files(&root().join(dir))) {
        if path.extension().is_none_or(|kind| kind != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        for name in lines.windows(2).filter_map(|pair| test_name(pair[0], pair[1])) {
            count += 1;
            if NO_SUBJECTS.iter().any(|word| without_rows(name).starts_with(word)) {
                offences.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(offences.is_empty(), "begin without a subject:\n{}", offences.join("\n"));
    assert!(count > 1000, "{count} tests: the search has failed");
}

/// A test's name after the rows of the safety checklist that it shows, as `f29_`.
fn without_rows(name: &str) -> &str {
    let is_row = |word: &str| {
        word.strip_prefix(char::is_alphabetic).is_some_and(|number| number.parse::<u8>().is_ok())
    };
    match name.split_once('_') {
        Some((word, rest)) if is_row(word) => without_rows(rest),
        _ => name,
    }
}

fn retired() -> impl Iterator<Item = Retired> {
    let lines = RETIRED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (most, word) = line.split_once(' ').expect("a figure and a word");
        Retired { word, most: most.parse().expect("a figure") }
    })
}

/// The words of each file, one space between two of them: a phrase is found over the end of a line.
fn texts(place: &str) -> Vec<String> {
    let mut paths = files(&root().join(place));
    paths.retain(|path| {
        !path.ends_with(GLOSSARY)
            && path.extension().and_then(|it| it.to_str()).is_some_and(|it| KINDS.contains(&it))
    });
    paths.iter().map(|path| words(&fs::read_to_string(path).expect("text"))).collect()
}

fn words(text: &str) -> String {
    let words = text.split(|char: char| !char.is_alphanumeric() && char != '_');
    words.filter(|word| !word.is_empty()).fold(String::from(" "), |text, word| text + word + " ")
}
