//! `courtesy runs`: the runs whose records are kept, with how they ended; and what is kept of each
//! beside its records, `run.json` in its directory.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::warn;
use ulid::Ulid;

use super::exit::{Exit, Failure};
use super::flags::StateFlags;
use super::output::{human_duration, print, quoted};
use crate::audit::print_time;
use crate::proxy::{HostTally, RunReport};
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::files;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy runs`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy runs
  courtesy runs --last 10 --json | jq -r 'select(.state == \"killed\") | .run'
  courtesy audit query --run ID                     the records of one
  courtesy audit show ID                            a record of any

The latest is the last. A run is under way, was killed, or ended with an exit code, which is that of
its command. Of the command its program and arguments are shown, without what may be secrets: the
user and the query of a URL, and values whose name says so (--password, TOKEN=, Authorization:).

Exit codes: 0 listed · 74 the directory of the runs cannot be read")]
pub struct RunsArgs {
    /// The last N alone
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: StateFlags,
}

/// Runs `courtesy runs`.
pub fn run(args: &RunsArgs) -> Result<Exit, Failure> {
    let runs = args.place.load()?.settings.state_dir.join("runs");
    let mut ids = if runs.is_dir() { names(&runs)? } else { Vec::new() };
    ids.retain(|id| begun(id).is_some());
    // The identifiers sort by time.
    ids.sort_unstable();
    if let Some(last) = args.last {
        ids.drain(..ids.len().saturating_sub(last));
    }
    if ids.is_empty() && !args.json {
        eprintln!("there are no runs in {}", runs.display());
    }
    let now = SystemClock.wall();
    let lines: String = ids.iter().map(|id| line(&runs, id, args.json, now)).collect();
    print(lines)?;
    Ok(Exit::Done)
}

fn line(runs: &Path, id: &str, as_json: bool, now: Timestamp) -> String {
    let found = read(&runs.join(id));
    if as_json { format!("{}\n", in_json(id, found)) } else { in_text(id, found, now) }
}

fn in_text(id: &str, found: Option<(RunRecord, RunState)>, now: Timestamp) -> String {
    let Some((run, state)) = found else {
        let begun = begun(id).map(print_time).unwrap_or_default();
        return format!("{id}  {}  not known\n", to_the_second(&begun));
    };
    let command: Vec<_> = run.command.iter().map(|word| quoted(word)).collect();
    let (state, took, sums) = match &state {
        RunState::UnderWay => ("under way".to_owned(), Some(now), String::new()),
        RunState::Killed => ("killed".to_owned(), None, String::new()),
        RunState::Ended(end) => (format!("exit {}", end.code), Some(end.at), sums(&end.sums)),
    };
    let took = took.map_or_else(|| "–".to_owned(), |at| human_duration(at.since(run.begun)));
    let begun = print_time(run.begun);
    let begun = to_the_second(&begun);
    format!("{id}  {begun}  {took:<12}  {state:<9}  {}{sums}\n", command.join(" "))
}

/// `2026-11-26 08:10:54`, in UTC.
fn to_the_second(time: &str) -> String {
    time.split(['.', 'Z']).next().unwrap_or_default().replace('T', " ")
}

fn sums(sums: &RunSums) -> String {
    let RunSums { requests, forwarded, denied, not_retrieved, .. } = sums;
    let end = if *requests == 1 { "" } else { "s" };
    let mut text = format!("  ({requests} request{end}, {forwarded} forwarded");
    for (count, what) in [(denied, "denied"), (not_retrieved, "not retrieved")] {
        if *count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text + ")"
}

fn in_json(id: &str, found: Option<(RunRecord, RunState)>) -> Value {
    let Some((run, state)) = found else {
        return json!({ "run": id, "begun": begun(id).map(print_time), "state": null });
    };
    let word = match &state {
        RunState::UnderWay => "under_way",
        RunState::Killed => "killed",
        RunState::Ended(_) => "ended",
    };
    let mut value = json!({
        "run": id, "begun": print_time(run.begun), "state": word, "command": run.command,
        "sealed": run.sealed, "version": run.version,
    });
    if let RunState::Ended(RunEnd { at, code, sums }) = state {
        value["ended"] = json!(print_time(at));
        value["code"] = json!(code);
        value["sums"] = json!(sums);
    }
    value
}

/// When a run began, from its identifier; `None` if the name is none.
pub fn begun(name: &str) -> Option<Timestamp> {
    let id = Ulid::from_string(name).ok().filter(|id| id.to_string() == name)?;
    let since_epoch = id.datetime().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).ok()?))
}

/// The names of directories, links not followed.
pub fn names(runs: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

// What is kept of a run.

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
pub struct RunRecord {
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
    /// Those that came.
    pub requests: u64,
    /// Hosts that they were for.
    pub hosts: u64,
    /// Answered by their sites.
    pub forwarded: u64,
    /// Denied, with a record.
    pub denied: u64,
    /// Refused, as they would have waited too long.
    pub too_early: u64,
    /// Given up by their clients.
    pub left: u64,
    /// Without an answer of the site.
    pub failed: u64,
    /// In `missing.tsv`, or beyond its bound.
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

/// The file of a run under way. It is locked as long as the process lives: one without a lock and
/// without an end was killed.
#[derive(Debug)]
pub struct OpenRun {
    path: PathBuf,
    run: RunRecord,
    _locked: File,
}

impl OpenRun {
    /// Makes the file in the directory of the run. A run goes on without one: `None`, which is logged.
    pub fn begin(dir: &Path, id: &str, command: &[OsString], sealed: bool) -> Option<Self> {
        let run = RunRecord {
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
        let run = RunRecord { ended, ..self.run.clone() };
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
fn write(path: &Path, run: &RunRecord) -> io::Result<File> {
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
pub fn read(dir: &Path) -> Option<(RunRecord, RunState)> {
    let look = || {
        let file = files::open(&dir.join(NAME)).ok()?;
        let is_locked = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let text = files::read_opened(file, BYTES_MAX).ok()?;
        let run: RunRecord = serde_json::from_slice(&text).ok()?;
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
