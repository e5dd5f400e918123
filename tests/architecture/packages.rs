//! What `cargo package` takes of each crate: its sources and its first pages, and nothing that only a
//! clone has a use for, such as real files of sites with licences of their own.

use std::process::Command;

use crate::source::root;

/// The package, and how the paths begin of what it may have beside what cargo itself adds.
const PACKAGES: [(&str, &[&str]); 2] = [
    ("courtesy", &["src/", "config/courtesy.toml", "CHANGELOG.md"]),
    ("courtesy-robots", &["src/"]),
];

/// What each has: the first pages, and what cargo adds.
const OF_ALL: [&str; 7] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

#[test]
fn packages_have_their_sources_and_no_more() {
    for (package, own) in PACKAGES {
        let output = Command::new(env!("CARGO"))
            .args(["package", "--list", "--allow-dirty", "--offline", "--package", package])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{package}: {errors}");
        let listed = String::from_utf8_lossy(&output.stdout);
        let files: Vec<_> = listed.lines().collect();
        for file in OF_ALL.iter().filter(|file| !file.ends_with(".json")).chain(&["src/lib.rs"]) {
            assert!(files.contains(file), "{package} is without {file}");
        }
        let is_meant =
            |file: &str| OF_ALL.contains(&file) || own.iter().any(|begin| file.starts_with(begin));
        let others: Vec<_> = files.iter().filter(|file| !is_meant(file)).collect();
        assert!(others.is_empty(), "{package} has {others:?}");
    }
}

#[test]
fn the_crates_have_one_edition_one_compiler_and_one_licence() {
    let value = |manifest: &str, key: &str| {
        let text = std::fs::read_to_string(root().join(manifest)).expect("text");
        let line = text.lines().find(|line| line.starts_with(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("{manifest} is without {key}")).to_owned()
    };
    for key in ["edition", "rust-version", "license"] {
        assert_eq!(value("Cargo.toml", key), value("crates/robots/Cargo.toml", key));
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("text");
        assert_eq!(text(root().join(file)), text(root().join("crates/robots").join(file)));
    }
}
