//! The real files and the questions about them, as they are stored: one reader for the tests and the
//! benches.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
struct StoredFile {
    f: String,
    robots: Option<String>,
    robots_b64: Option<String>,
}

/// `google` and `rfc9309` are the rows of the matrix, one agent after the other: a letter for each URL.
#[derive(Deserialize)]
pub struct Matrix {
    pub f: String,
    pub agents: Vec<String>,
    pub urls: Vec<String>,
    google: String,
    rfc9309: String,
}

#[allow(dead_code, reason = "not everybody asks for both")]
impl Matrix {
    pub fn google(&self) -> &str {
        &self.google
    }

    pub fn rfc9309(&self) -> &str {
        if self.rfc9309 == "=" { &self.google } else { &self.rfc9309 }
    }
}

/// The files by their names.
pub fn files() -> HashMap<String, Vec<u8>> {
    lines("real-files.jsonl.gz").map(StoredFile::bytes).collect()
}

pub fn matrices() -> impl Iterator<Item = Matrix> {
    lines("real-cases.jsonl.gz")
}

impl StoredFile {
    fn bytes(self) -> (String, Vec<u8>) {
        let bytes = match (self.robots, self.robots_b64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => STANDARD.decode(base64).expect("base64"),
            _ => panic!("{}: a file has either text or base64", self.f),
        };
        (self.f, bytes)
    }
}

fn lines<T: DeserializeOwned>(name: &str) -> impl Iterator<Item = T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(name);
    let file =
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    BufReader::new(GzDecoder::new(file)).lines().map(|line| {
        serde_json::from_str(&line.expect("a readable file")).expect("a line of the expected form")
    })
}
