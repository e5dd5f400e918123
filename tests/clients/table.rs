//! The README's table of clients says what these tests show, and no more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_client_of_the_readme_is_tried_and_every_test_is_named_there() {
    let readme = include_str!("../../README.md");
    let section = readme.split("\n### Clients\n").nth(1).expect("the section");
    let section = section.split("\n#").next().unwrap_or_default();
    let mut named = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let shown_by = row.trim_matches('|').split(" | ").last().unwrap_or_default();
        let names: Vec<_> = shown_by.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(!names.is_empty(), "shown by nothing: {row}");
        named.extend(names);
    }
    assert_eq!(named, tests());
}

/// The names of the tests beside this one.
fn tests() -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("table.rs") {
            let source = fs::read_to_string(path).expect("a source");
            let after = source.split("#[test]\nfn ").skip(1);
            names.extend(after.filter_map(|text| text.split('(').next()).map(str::to_owned));
        }
    }
    names
}
