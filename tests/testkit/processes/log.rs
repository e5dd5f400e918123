//! The log as it stands in its files, read without the program's own reader.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde_json::Value;

/// All lines of all segments, in the order of their numbers.
pub struct Log {
    pub lines: Vec<Value>,
    pub segments: Vec<PathBuf>,
}

impl Log {
    /// Reads what is in `dir` while nobody writes there. Each line must be JSON.
    #[track_caller]
    pub fn read(dir: &Path) -> Self {
        let segments = segments(dir);
        let mut lines: Vec<Value> = segments.iter().flat_map(|path| lines(path)).collect();
        lines.sort_by_key(|line| line["seq"].as_u64().expect("a number"));
        Self { lines, segments }
    }

    /// The ids of all records in `dir`, for a log that is too large to be held whole.
    #[allow(dead_code, reason = "only those of tests/load are")]
    #[track_caller]
    pub fn record_ids(dir: &Path) -> Vec<String> {
        let lines = segments(dir).into_iter().flat_map(|path| lines(&path));
        lines.filter_map(|line| line["id"].as_str().map(str::to_owned)).collect()
    }

    /// The lines that are records, by their ids. Each id must be there once.
    #[track_caller]
    pub fn records(&self) -> HashMap<&str, &Value> {
        let mut records = HashMap::new();
        for line in &self.lines {
            let Some(id) = line["id"].as_str() else { continue };
            assert!(records.insert(id, line).is_none(), "two records have the id {id}");
        }
        records
    }

    /// The lines of one event.
    pub fn events(&self, name: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["event"] == name).collect()
    }

    /// That the lines are numbered 1, 2, 3 …, and each names the hash of the one before.
    #[track_caller]
    pub fn assert_whole(&self) {
        let mut prev = "0".repeat(64);
        for (line, seq) in self.lines.iter().zip(1..) {
            assert_eq!(line["seq"], seq, "a line is missing or there twice");
            assert_eq!(line["prev"], prev.as_str(), "line {seq} does not follow the one before");
            prev = line["hash"].as_str().expect("a hash").to_owned();
        }
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the directory of records").flatten();
    let mut segments: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| is_segment(path)).collect();
    segments.sort();
    // One that is there plain and compressed is the same lines twice.
    let plain = segments.clone();
    segments.retain(|path| !is_compressed(path) || !plain.contains(&path.with_extension("")));
    segments
}

fn is_segment(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("denials") && (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz"))
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

fn lines(path: &Path) -> impl Iterator<Item = Value> + use<> {
    let file = BufReader::new(File::open(path).expect("a segment"));
    let input: Box<dyn Read> =
        if is_compressed(path) { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let path = path.to_owned();
    let lines = BufReader::new(input).lines().map(|line| line.expect("text"));
    lines.map(move |line| {
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}: {line}", path.display()))
    })
}
