//! The seeds of the fuzz targets and what they have found, as an ordinary test: each property of
//! `tests/properties` against each file under `fuzz/corpus`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::properties;

/// So that the seeds stay seeds.
const CORPUS_BYTES_MAX: u64 = 1 << 20;

fn below(dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(dir);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn stems(dir: &str) -> BTreeSet<String> {
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    below(dir).into_iter().map(stem).collect()
}

fn names() -> BTreeSet<String> {
    properties::ALL.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn every_property_holds_for_every_file_of_its_corpus() {
    let mut bytes = 0;
    for (name, holds) in properties::ALL {
        let files = below(&format!("corpus/{name}"));
        assert!(!files.is_empty(), "{name} has no seeds");
        for file in files {
            let content = fs::read(&file).expect("a readable file");
            bytes += content.len() as u64;
            // Printed only where the property fails.
            println!("{}", file.display());
            holds(&content);
        }
    }
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes are no seeds: minimise them");
}

#[test]
fn every_property_has_a_target_and_a_corpus_and_each_of_them_a_property() {
    assert_eq!(stems("corpus"), names());
    assert_eq!(stems("fuzz_targets"), names());
}

#[test]
fn no_bytes_at_all_break_no_property() {
    properties::ALL.iter().for_each(|(_, holds)| holds(b""));
}
