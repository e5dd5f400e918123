//! What is kept of a run beside its records, `run.json` in its directory: what was run, when, and how
//! it ended. `courtesy runs` lists them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::proxy::{HostTally, RunReport};
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::files;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// Its name in the directory of a run.
const NAME: &str = "run.json";

/// Arguments of a command that are kept, and bytes of each.
const ARGUMENTS_MAX: usize = 64;
const ARGUMENT_BYTES_MAX: usize = 200;

/// Bytes of the file that are read.
const BYTES_MAX: usize = 64 << 10;

/// In place of what may be a secret.
const HIDDEN: &str = "…";

/// Parts of the names of flags, variables and headers whose values are secrets.
const SECRET_NAMES: [&str; 13] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "api-key",
    "api_key",
    "auth",
    "cookie",
    "session",
    "private-key",
    "signature",
];

/// Flags of common clients that are followed by a user and a password, or by cookies.
const SECRET_FLAGS: [&str; 5] = ["-u", "-U", "--user", "--proxy-user", "-b"];

/// A run, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    pub run: String,
    /// Of courtesy.
    pub version: String,
    #[serde(with = "crate::audit::record::time")]
    pub begun: Timestamp,
    /// The program and its arguments, without what may be secrets.
    pub command: Vec<String>,
    pub sealed: bool,
    /// How it ended; `None`: it is under way, or was killed.
    pub ended: Option<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    #[serde(with = "crate::audit::record::time")]
    pub at: Timestamp,
    /// The exit code of `courtesy run`.
    pub code: u8,
    pub sums: RunSums,
}

/// The sums of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSums {
    pub requests: u64,
    pub hosts: u64,
    pub forwarded: u64,
    pub denied: u64,
    pub too_early: u64,
    pub left: u64,
    pub failed: u64,
    pub not_retrieved: u64,
}

impl RunSums {
    /// Of what was seen.
    pub fn of(seen: &RunReport) -> Self {
        let sum = |of: fn(&HostTally) -> u64| seen.sum(of);
        Self {
            requests: sum(|tally| tally.requests),
            hosts: seen.host_count() as u64,
            forwarded: sum(|tally| tally.forwarded),
            denied: sum(|tally| tally.denied.sum()),
            too_early: sum(|tally| tally.too_early),
            left: sum(|tally| tally.left_waiting + tally.left),
            failed: sum(|tally| tally.failed.sum()),
            not_retrieved: seen.missing.listed + seen.missing.more,
        }
    }
}

/// The file of a run under way. It is locked as long as the process lives, so that one which was
/// killed is told from one that is under way.
#[derive(Debug)]
pub struct OpenRun {
    path: PathBuf,
    run: RunFile,
    _locked: File,
}

impl OpenRun {
    /// Makes the file in the directory of the run. A run goes on without one: `None`, which is logged.
    pub fn begin(dir: &Path, id: &str, command: &[OsString], sealed: bool) -> Option<Self> {
        let run = RunFile {
            run: id.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            begun: SystemClock.wall(),
            command: without_secrets(command),
            sealed,
            ended: None,
        };
        let path = dir.join(NAME);
        let locked = write(&path, &run).inspect_err(|error| not_written(&path, error)).ok()?;
        Some(Self { path, run, _locked: locked })
    }

    /// Writes how it ended.
    pub fn end(&self, code: u8, sums: RunSums) {
        let ended = Some(RunEnd { at: SystemClock.wall(), code, sums });
        let run = RunFile { ended, ..self.run.clone() };
        let new = self.path.with_extension("json.new");
        let written = write(&new, &run).and_then(|_| fs::rename(&new, &self.path));
        if let Err(error) = written {
            not_written(&self.path, &error);
        }
    }
}

fn not_written(path: &Path, error: &io::Error) {
    warn!(file = %path.display(), "`courtesy runs` will not know this run: {error}");
}

/// Writes the file, private and locked.
fn write(path: &Path, run: &RunFile) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // Another process that looks has it for an instant only.
    file.lock()?;
    file.write_all(format!("{}\n", serde_json::to_string(run)?).as_bytes())?;
    Ok(file)
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    UnderWay,
    /// It ended without a word.
    Killed,
    Ended(RunEnd),
}

/// Reads the file of the run in `dir`, and what became of it; `None`: there is none, as of runs of
/// earlier versions, or it cannot be read.
pub fn read(dir: &Path) -> Option<(RunFile, RunState)> {
    let look = || {
        let file = files::open(&dir.join(NAME)).ok()?;
        let is_locked = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let text = files::read_opened(file, BYTES_MAX).ok()?;
        let run: RunFile = serde_json::from_slice(&text).ok()?;
        let state = match &run.ended {
            Some(ended) => RunState::Ended(ended.clone()),
            None if is_locked => RunState::UnderWay,
            None => RunState::Killed,
        };
        Some((run, state))
    };
    // It may have ended, and its file been replaced, between the two steps.
    look().filter(|(_, state)| *state != RunState::Killed).or_else(look)
}

/// The program and its arguments, bounded, without what may be a secret: users and queries of URLs,
/// and values whose name says that they are secret.
pub fn without_secrets(command: &[OsString]) -> Vec<String> {
    let mut hides_next = false;
    let mut shown = Vec::new();
    for argument in command.iter().take(ARGUMENTS_MAX) {
        let text = argument.to_string_lossy();
        let words: Vec<_> = text.split(' ').map(|word| hidden(word, &mut hides_next)).collect();
        shown.push(sanitize::shown(&cut(&words.join(" ")), sanitize::escape_json).into_owned());
    }
    let more = command.len().saturating_sub(ARGUMENTS_MAX);
    shown.extend((more > 0).then(|| format!("{HIDDEN} and {more} more")));
    shown
}

fn cut(text: &str) -> String {
    if text.len() <= ARGUMENT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(ARGUMENT_BYTES_MAX)])
}

/// A word as it is shown; `hides_next` if the one before announces a secret.
fn hidden(word: &str, hides_next: &mut bool) -> String {
    if std::mem::take(hides_next) && !word.is_empty() {
        // `Authorization: Bearer TOKEN`
        *hides_next = ["basic", "bearer", "digest"].contains(&word.to_ascii_lowercase().as_str());
        return HIDDEN.to_owned();
    }
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRET_NAMES.iter().any(|part| name.contains(part))
    };
    if let Some((scheme, rest)) = word.split_once("://") {
        return format!("{scheme}://{}", hidden_url(rest));
    }
    let at = word.find(['=', ':']).filter(|at| is_secret(&word[..*at]));
    if let Some(at) = at {
        *hides_next = word.len() == at + 1;
        let value = if *hides_next { "" } else { HIDDEN };
        return format!("{}{value}", &word[..=at]);
    }
    let bare = word.trim_start_matches(['\'', '"']);
    if SECRET_FLAGS.contains(&bare) || bare.starts_with('-') && is_secret(bare) {
        *hides_next = true;
        return word.to_owned();
    }
    // `-uNAME:PASSWORD`, `NAME:PASSWORD@HOST`
    match (word.strip_prefix("-u"), word.rsplit_once('@')) {
        (Some(user), _) if user.contains(':') => format!("-u{HIDDEN}"),
        (_, Some((user, host))) if user.contains(':') => format!("{HIDDEN}@{host}"),
        _ => word.to_owned(),
    }
}

/// What follows the scheme, without a user and without the values of a query.
fn hidden_url(rest: &str) -> String {
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    match path.split_once('?') {
        Some((path, _)) => format!("{authority}{path}?{HIDDEN}"),
        None => format!("{authority}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_not_kept() {
        for (given, kept) in [
            ("scrapy crawl news -a start=1", "scrapy crawl news -a start=1"),
            ("wget https://u:p@a.example/x?token=1&b=2", "wget https://…@a.example/x?…"),
            ("curl -u jane:s3cret http://a.example/", "curl -u … http://a.example/"),
            ("curl -ujane:s3cret x", "curl -u… x"),
            ("crawl --password s3cret --depth 2", "crawl --password … --depth 2"),
            ("crawl --api-key=s3cret TOKEN=s3cret", "crawl --api-key=… TOKEN=…"),
            ("curl -H X-Auth-Token:s3cret", "curl -H X-Auth-Token:…"),
            ("ftp jane:s3cret@a.example", "ftp …@a.example"),
        ] {
            let words: Vec<OsString> = given.split(' ').map(OsString::from).collect();
            assert_eq!(without_secrets(&words).join(" "), kept, "{given}");
        }
        let header =
            ["curl", "-H", "Authorization: Bearer s3cret", "http://a/"].map(OsString::from);
        assert_eq!(without_secrets(&header)[2..], ["Authorization: … …", "http://a/"]);
        let script =
            ["sh", "-c", "curl --user a:s3cret http://a/?q=s3cret; echo"].map(OsString::from);
        assert!(!without_secrets(&script).join(" ").contains("s3cret"));
    }

    #[test]
    fn what_is_kept_of_a_command_is_bounded() {
        let many = vec![OsString::from("x".repeat(10_000)); 1000];
        let shown = without_secrets(&many);
        assert_eq!(shown.len(), ARGUMENTS_MAX + 1);
        assert!(shown.iter().all(|it| it.len() <= ARGUMENT_BYTES_MAX + HIDDEN.len()));
        assert_eq!(shown.last().unwrap(), "… and 936 more");
        let odd = [OsString::from("a\u{1b}[2Jb\n")];
        assert!(!without_secrets(&odd)[0].contains(['\u{1b}', '\n']));
    }

    #[test]
    fn a_run_is_under_way_then_ended_and_one_without_an_end_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        let command = [OsString::from("true")];
        let open = OpenRun::begin(dir.path(), "01K", &command, false).unwrap();
        assert_eq!(read(dir.path()).unwrap().1, RunState::UnderWay);
        let sums = RunSums { requests: 3, ..RunSums::default() };
        open.end(7, sums.clone());
        let (run, RunState::Ended(end)) = read(dir.path()).unwrap() else { panic!("it ended") };
        assert_eq!((run.command, end.code, end.sums), (vec!["true".to_owned()], 7, sums));
        drop(OpenRun::begin(dir.path(), "01K", &command, false).unwrap());
        assert_eq!(read(dir.path()).unwrap().1, RunState::Killed);
    }
}
