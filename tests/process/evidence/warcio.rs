//! Archives as warcio reads them, in the Python environment that tests/setup-python.sh makes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A program of that environment.
pub fn python(arguments: &[&str]) -> Output {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-python/bin/python");
    let output = Command::new(python).args(arguments).output();
    output.expect("the Python environment; run tests/setup-python.sh, which makes it")
}

/// The records of an archive, their digests checked.
pub fn read_back(archive: &Path) -> Vec<Value> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/evidence/read_warc.py");
    let output = python(&[program.to_str().unwrap(), archive.to_str().unwrap()]);
    assert!(output.status.success(), "tests/setup-python.sh installs what it needs: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
