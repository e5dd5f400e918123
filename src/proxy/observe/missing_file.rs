//! The list of the requests of a run that got neither the site's answer nor a denial: a line for each,
//! with URL, time, reason and Retry-After, separated by tabs. It is written while it happens, so that
//! a run which is killed has it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::warn;

use crate::audit::{Record, print_time};
use crate::runtime::clock::{Clock, SystemClock};

/// Lines of the file; the others are counted.
const LINES_MAX: u64 = 100_000;

/// The file, which is made with its first line.
#[derive(Debug)]
pub struct MissingFile {
    /// `None`: they are only counted.
    path: Option<PathBuf>,
    /// Whether queries are left out, which may hold secrets (`audit.redact_query`).
    without_queries: bool,
    file: Option<File>,
    counts: MissingCounts,
}

/// How many requests got nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingCounts {
    /// In the file.
    pub listed: u64,
    /// Beyond its bound, or not written.
    pub more: u64,
    pub path: PathBuf,
}

impl MissingFile {
    /// A file at `path`.
    pub fn new(path: Option<PathBuf>, without_queries: bool) -> Self {
        let counts =
            MissingCounts { path: path.clone().unwrap_or_default(), ..MissingCounts::default() };
        Self { path, without_queries, file: None, counts }
    }

    /// Adds a line. A URL has no tab, no control character and nothing but its own host, path and
    /// query: the proxy takes no user from a URL.
    pub fn note(&mut self, url: &str, why: &str, retry_after: Option<Duration>) {
        let is_full = self.counts.listed >= LINES_MAX || self.counts.more > 0;
        let Some(path) = self.path.clone().filter(|_| !is_full) else {
            self.counts.more += 1;
            return;
        };
        let url = match url.split_once('?') {
            Some((before, _)) if self.without_queries => format!("{before}?…"),
            _ => Record::url(url.as_bytes()),
        };
        let time = print_time(SystemClock.wall());
        let seconds = retry_after.map(|after| after.as_secs_f64().ceil().to_string());
        let line = format!("{url}\t{time}\t{why}\t{}\n", seconds.unwrap_or_default());
        self.write(&path, &line);
    }

    fn write(&mut self, path: &Path, line: &str) {
        let file = match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let mut options = OpenOptions::new();
                let opened = options.create(true).append(true).mode(0o600).open(path);
                opened.map(|file| none.insert(file))
            }
        };
        match file.and_then(|file| file.write_all(line.as_bytes())) {
            Ok(()) => self.counts.listed += 1,
            Err(error) => {
                // Said once: from here on they are only counted.
                let file = path.display();
                warn!(%file, "what was not retrieved is not listed any more: {error}");
                self.counts.more += 1;
            }
        }
    }

    /// Ends the file with the number of those that are not in it, if there are any.
    pub fn finish(&mut self) {
        if let Some(mut file) = self.file.take()
            && self.counts.more > 0
        {
            let _ = writeln!(file, "# and {} more", self.counts.more);
        }
    }

    /// How many there are.
    pub fn counts(&self) -> MissingCounts {
        self.counts.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_request_is_a_line_of_four_fields_and_the_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing.tsv");
        let mut file = MissingFile::new(Some(path.clone()), false);
        assert!(!path.exists(), "a run that lacks nothing has no file");
        file.note(
            "http://a.example/b?c=\td\n",
            "too early",
            Some(Duration::from_millis(3_599_200)),
        );
        file.note("https://a.example/", "left while waiting", None);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(
            [lines[0][0], lines[0][2], lines[0][3]],
            ["http://a.example/b?c=%09d%0A", "too early", "3600"]
        );
        assert_eq!(
            [lines[1][0], lines[1][2], lines[1][3]],
            ["https://a.example/", "left while waiting", ""]
        );
        assert!(lines.iter().all(|line| line[1].ends_with('Z') && line.len() == 4));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        file.finish();
        assert_eq!((file.counts().listed, file.counts().more), (2, 0));
    }

    #[test]
    fn beyond_the_bound_they_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing.tsv");
        let mut file = MissingFile::new(Some(path.clone()), true);
        file.note("http://a.example/?token=secret", "too early", None);
        file.counts.listed = LINES_MAX;
        (0..3).for_each(|_| file.note("http://a.example/", "too early", None));
        file.finish();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("http://a.example/?…\t"), "{text}");
        assert_eq!(text.lines().nth(1), Some("# and 3 more"));
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_counted() {
        for path in [Some("/proc/none/missing.tsv".into()), None] {
            let mut file = MissingFile::new(path, false);
            (0..3).for_each(|_| file.note("http://a.example/", "too early", None));
            file.finish();
            assert_eq!((file.counts().listed, file.counts().more), (0, 3));
        }
    }
}
