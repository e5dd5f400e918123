//! What one robots.txt of the evidence has that another has not.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::report::words::{number, plural};
use crate::audit::Changed;
use crate::audit::evidence::{BlobStore, Found, Kind};
use crate::robots::{self, Dialect};
use crate::types::sanitize;

/// Lines of a difference that are shown.
const DIFF_LINES_MAX: usize = 100;
/// Bytes of such a line.
const LINE_BYTES_MAX: usize = 400;
/// How long two files are compared: of the longest that differ in every line, the difference is then not the
/// shortest.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// What a file has that the one before has not, and the other way round.
#[derive(Default)]
pub struct Difference {
    /// Whether a line was added, or removed.
    pub lines: Vec<(bool, String)>,
    /// Lines that were added, those that are not shown among them.
    pub added: usize,
    /// The same of removed ones.
    pub removed: usize,
}

impl Difference {
    /// Of two files, as their lines.
    pub fn of(before: &[String], after: &[String]) -> Self {
        let [before, after] =
            [before, after].map(|lines| lines.iter().map(String::as_str).collect::<Vec<_>>());
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_slices(&before, &after);
        let mut found = Self::default();
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Equal => continue,
                ChangeTag::Insert => found.added += 1,
                ChangeTag::Delete => found.removed += 1,
            }
            if found.lines.len() < DIFF_LINES_MAX {
                let is_added = change.tag() == ChangeTag::Insert;
                found.lines.push((is_added, change.value().to_owned()));
            }
        }
        found
    }

    /// Of the files of a notice, from the evidence beside the log in `dir`; or why there is none. Where there is no
    /// file, it is as an empty one.
    pub fn of_change(changed: &Changed, dir: &Path) -> Result<Self, String> {
        let [before, after] = [&changed.from, &changed.to].map(|side| side.sha256.as_deref());
        if before == after {
            return Ok(Self::default());
        }
        let lines = |sha256: Option<&str>| match sha256 {
            Some(sha256) => {
                file_lines(dir, sha256).map_err(|why| format!("robots.txt {sha256}: {why}"))
            }
            None => Ok(Vec::new()),
        };
        Ok(Self::of(&lines(before)?, &lines(after)?))
    }

    /// Its added lines that are shown, or the removed ones.
    pub fn lines_of(&self, is_added: bool) -> Vec<&str> {
        let own = self.lines.iter().filter(|(own, _)| *own == is_added);
        own.map(|(_, line)| line.as_str()).collect()
    }

    /// As text, behind the beginning of a line: how many lines there are, and each on a line of its own.
    pub fn text(&self) -> String {
        let Self { lines, added, removed } = self;
        let mut text = format!(
            "{} added and {} removed{}\n",
            plural(*added as u64, "line"),
            number(*removed as u64),
            if lines.is_empty() { "" } else { ":" }
        );
        for (is_added, line) in lines {
            let _ = writeln!(text, "     {} {line}", if *is_added { '+' } else { '-' });
        }
        let more = added + removed - lines.len();
        if more > 0 {
            let _ = writeln!(text, "     … and {} more", plural(more as u64, "line"));
        }
        text
    }
}

/// The lines of a robots.txt that is kept beside the log in `dir`, or why they cannot be had.
pub fn file_lines(dir: &Path, sha256: &str) -> Result<Vec<String>, String> {
    let body = match BlobStore::of(dir).get(Kind::File, sha256) {
        Ok(Found::Content(body)) => body,
        Ok(Found::Missing) => return Err("it is no longer kept".into()),
        Ok(Found::Damaged(why)) => return Err(format!("it was changed: {why}")),
        Err(error) => return Err(error.to_string()),
    };
    // The last line's end begins no other line.
    let body = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n")).unwrap_or(&body);
    let dialect = Dialect { size_limit: usize::MAX, ..Dialect::RFC9309.clone() };
    Ok(robots::lines(body, &dialect)
        .map(|(_, line)| sanitize::text(line, LINE_BYTES_MAX))
        .collect())
}
