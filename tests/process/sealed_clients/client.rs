//! A client of the table, and what came of it.

use std::fs;
use std::path::Path;

use crate::clients::support::answers;

/// Schemes by which a client gets its pages in a sealed run.
pub type Schemes = &'static [&'static str];

pub const BOTH: Schemes = &["http", "https"];
pub const HTTP: Schemes = &["http"];
pub const HTTPS: Schemes = &["https"];

/// How a client shows what it got.
#[derive(Clone, Copy, Debug)]
pub enum Shows {
    /// Each response with its status line.
    Status,
    /// The page, and nothing that counts of a refusal.
    Page,
    /// A text for the page, and one for a refusal.
    Text(&'static str, &'static str),
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its row in `docs/guide/clients.md`; a program that has none there begins with `+`.
    pub row: &'static str,
    /// In words of a shell, in which `"$@"` is an allowed and a disallowed URL by HTTP, and the
    /// same by HTTPS.
    pub command: &'static str,
    pub shows: Shows,
    /// What it gets without one variable, and with all of them.
    pub without: Schemes,
    pub with: Schemes,
}

impl Client {
    /// One that gets everything in either way.
    pub const fn new(row: &'static str, shows: Shows, command: &'static str) -> Self {
        Self { row, command, shows, without: BOTH, with: BOTH }
    }

    /// One that gets these.
    pub const fn but(self, without: Schemes, with: Schemes) -> Self {
        Self { without, with, ..self }
    }

    /// Its part of the URLs.
    pub fn name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        self.row.trim_start_matches(['+', ' ']).chars().map(plain).collect()
    }

    /// What the guide says of it.
    pub fn in_the_guide(&self) -> &'static str {
        match (self.without.len(), self.with.len()) {
            (2, 1) => "yes, without the variables",
            (without, with) if without < with => "`https://` by the variables",
            _ => "yes",
        }
    }

    /// Compares what it shows with what it gets by these schemes.
    #[track_caller]
    pub fn assert_shown(&self, out: &Path, schemes: Schemes) {
        let shown = fs::read(out).unwrap_or_default();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        let row = self.row;
        match self.shows {
            Shows::Status => {
                let statuses: Vec<_> = answers(&shown).iter().map(|it| it.status).collect();
                let expected: Vec<_> = schemes.iter().flat_map(|_| [200, 403]).collect();
                assert_eq!(statuses, expected, "{row}: {shown}");
            }
            Shows::Page => {
                let count = shown.matches("the page").count();
                assert_eq!(count, schemes.len(), "{row}: {shown}");
            }
            Shows::Text(page, refusal) => {
                for text in [page, refusal] {
                    let count = shown.matches(text).count();
                    assert!(count >= schemes.len(), "{row}: {text:?} is not in: {shown}");
                }
            }
        }
    }
}
