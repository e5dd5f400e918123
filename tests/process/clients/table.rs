//! The table of clients in `docs/guide/clients.md` says what these tests show, and no more; the lists above it
//! are those of the table.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/guide/clients.md");

/// How many clients the page has at least.
const CLIENTS_MIN: usize = 40;

/// Sources that try no client.
const OTHERS: [&str; 4] = ["main.rs", "parents.rs", "table.rs", "warning.rs"];

/// Most are tried by `.ci/nightly` alone.
const NIGHTLY: &str = "#[ignore = \"nightly\"]\n";

/// What stands below a heading.
fn section(heading: &str) -> &'static str {
    let after = PAGE.split(&format!("\n## {heading}\n")).nth(1).expect("the section");
    after.split("\n## ").next().unwrap_or_default()
}

/// A client, whether it follows, what else it needs, what it gets in a sealed run, and the tests that show
/// the others.
pub fn rows() -> Vec<[&'static str; 5]> {
    let table = section("Each client").lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = |row: &'static str| {
        let cells: Vec<_> =
            row.trim_start_matches('|').trim_end_matches('|').split(" | ").map(str::trim).collect();
        // An empty cell has one blank, not two.
        let cells = cells.iter().flat_map(|cell| {
            if let Some(rest) = cell.strip_prefix("| ") { vec!["", rest] } else { vec![*cell] }
        });
        cells.collect::<Vec<_>>().try_into().unwrap_or_else(|cells| panic!("{row}: {cells:?}"))
    };
    table.map(cells).collect()
}

#[test]
fn every_client_of_the_page_is_tried_and_every_test_is_named_there() {
    let mut named = BTreeSet::new();
    for row in rows() {
        let names: Vec<_> = row[4].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(!names.is_empty(), "shown by nothing: {row:?}");
        named.extend(names);
    }
    assert_eq!(named, tests());
}

#[test]
fn every_client_is_there_once_and_has_a_cure_where_it_needs_one() {
    let rows = rows();
    let clients: BTreeSet<_> = rows.iter().map(|row| row[0]).collect();
    assert!(
        clients.len() == rows.len() && clients.len() >= CLIENTS_MIN,
        "{} of {}",
        clients.len(),
        rows.len()
    );
    for row in rows {
        assert!(
            row[1] == "yes" || (["in part", "no"].contains(&row[1]) && !row[2].is_empty()),
            "{row:?}"
        );
    }
}

#[test]
fn the_lists_have_the_clients_of_the_table() {
    let section = section("At a glance");
    for follows in ["yes", "in part", "no"] {
        let listed = section.lines().find_map(|line| line.strip_prefix(&format!("| {follows} | ")));
        let listed =
            listed.unwrap_or_else(|| panic!("no list of \"{follows}\"")).trim_end_matches(" |");
        let clients: Vec<_> =
            rows().iter().filter(|row| row[1] == follows).map(|row| row[0]).collect();
        assert_eq!(listed.split(", ").collect::<Vec<_>>(), clients);
    }
}

/// The names of the tests beside this one.
fn tests() -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/clients");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if is_source && !OTHERS.iter().any(|other| path.ends_with(other)) {
            let source = fs::read_to_string(path).expect("a source");
            let tests = source.split("#[test]\n").skip(1);
            let after = tests.map(|text| text.strip_prefix(NIGHTLY).unwrap_or(text));
            let heads = after.filter_map(|text| text.strip_prefix("fn ")?.split('(').next());
            names.extend(heads.map(str::to_owned));
        }
    }
    names
}
