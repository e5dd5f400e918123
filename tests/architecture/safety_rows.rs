//! Every requirement of the safety checklist has a test that carries its number, and
//! `docs/develop/safety-rows.md` names just those: `COURTESY_UPDATE_DOCS=1` rewrites its last column.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("../../docs/develop/safety-rows.md");

/// How many rows each part of the checklist has.
const PARTS: [(char, usize); 7] =
    [('A', 14), ('B', 21), ('C', 17), ('D', 15), ('F', 25), ('L', 11), ('P', 8)];

/// How a cell begins that says why a row has no test.
const REASON: &str = "no test: ";

type Tests = BTreeMap<String, BTreeSet<String>>;

fn rows() -> Vec<String> {
    let numbers =
        PARTS.iter().flat_map(|(part, count)| (1..=*count).map(move |row| format!("{part}{row}")));
    numbers.chain(["F29", "H2"].map(str::to_owned)).collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("the source is readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The rows that a test's name begins with: `b4_b5_a_length_is_digits` shows two.
fn shown_by(name: &str) -> Vec<String> {
    let rows = rows();
    name.split('_').map(str::to_ascii_uppercase).take_while(|word| rows.contains(word)).collect()
}

/// The name of the function that `line` declares, below an attribute that makes it a test.
pub fn test_name<'a>(before: &str, line: &'a str) -> Option<&'a str> {
    let is_test = before.trim_start().starts_with("#[test]") || before.contains("::test");
    let declared = line.trim_start().trim_start_matches("async ").strip_prefix("fn ")?;
    declared.split('(').next().filter(|_| is_test)
}

/// The tests in the source, by the rows that they show.
fn in_the_source() -> Tests {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = Tests::new();
    for file in ["src", "crates", "tests"].map(|dir| sources(&root.join(dir))).concat() {
        let place = file.strip_prefix(root).expect("below the root").display().to_string();
        let text = fs::read_to_string(&file).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        for name in lines.windows(2).filter_map(|pair| test_name(pair[0], pair[1])) {
            for row in shown_by(name) {
                tests.entry(row).or_default().insert(format!("{place}::{name}"));
            }
        }
    }
    tests
}

/// The last cell of each row: the tests that show it, or why there is none.
fn in_the_table() -> BTreeMap<String, &'static str> {
    let lines = TABLE.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells =
        lines.map(|line| line.split(" | ").collect::<Vec<_>>()).filter(|cells| cells.len() == 3);
    cells
        .map(|cells| (cells[0].to_owned(), cells[2]))
        .filter(|(row, _)| rows().contains(row))
        .collect()
}

/// The page with `cells` in its last column.
fn rewritten(cells: &BTreeMap<String, String>) -> String {
    let lines = TABLE.lines().map(|line| {
        let row = line.strip_prefix("| ").and_then(|line| line.split(" | ").next());
        match (row.and_then(|row| cells.get(row)), line.rsplit_once(" | ")) {
            (Some(cell), Some((start, _))) => format!("{start} | {cell} |\n"),
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a developer asks for the rewriting by it")]
fn every_row_has_a_test_and_the_table_names_it() {
    let (source, table) = (in_the_source(), in_the_table());
    let mut faults = Vec::new();
    let mut cells = BTreeMap::new();
    for row in rows() {
        let cell = table.get(&row).copied().unwrap_or_default();
        let shown: Vec<String> =
            source.get(&row).into_iter().flatten().map(|test| format!("`{test}`")).collect();
        if shown.is_empty() && !cell.starts_with(REASON) {
            faults.push(format!("{row}: no test begins with its number, and no reason is given"));
        } else if !shown.is_empty() && cell != shown.join("<br>") {
            faults.push(format!(
                "{row}: docs/develop/safety-rows.md is to name {}",
                shown.join("<br>")
            ));
            cells.insert(row, shown.join("<br>"));
        }
    }
    if std::env::var_os("COURTESY_UPDATE_DOCS").is_some() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/develop/safety-rows.md");
        fs::write(page, rewritten(&cells)).expect("the page is writable");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
