//! The log to read: that of the settings, of a run, of a directory, or single files.

use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;

use crate::audit::read::verify::GivenHead;
use crate::audit::read::{Log, Scan, ScanItem, dossier, package};
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::{
    AnyLine, Content, HEAD_NAME, Head, LineKind, Notice, StartedEvent, read_key, read_log_id,
    segment,
};
use crate::cli::engine::EngineClient;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::flags::StateFlags;
use crate::cli::temporary_dir::{Purpose, TemporaryDir};
use crate::config::Settings;
use crate::engine::{self, Engine, LogHead};
use crate::runtime::lock::Lock;
use crate::server::is_name_of;
use crate::types::LogId;
use crate::types::sanitize::hex;

/// Logs that are read together: each takes two descriptors and the memory for a few lines.
const LOGS_MAX: usize = 400;

/// The flags that name one or several logs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which log")]
pub struct LogSourceFlags {
    /// The records of `courtesy run`: the last one, or that with the ID (its beginning is enough)
    #[arg(long, value_name = "last|ID", conflicts_with = "dir")]
    run: Option<String>,
    /// The log in DIR [default: audit.dir of the settings], or a dossier or bundle: its directory, .tar, .tar.gz or
    /// .tar.zst; given several times, all of them, in the order of time
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    #[command(flatten)]
    config: StateFlags,
    /// Where dossiers and bundles are unpacked.
    #[arg(skip)]
    unpacked: Arc<Lock<Vec<TemporaryDir>>>,
}

impl LogSourceFlags {
    /// Of one directory, with the settings of `config`.
    pub fn of_dir(dir: PathBuf, config: StateFlags) -> Self {
        Self { dir: vec![dir], config, ..Self::default() }
    }

    /// Whether no other log is named than that of the settings.
    pub fn is_of_settings(&self) -> bool {
        self.run.is_none() && self.dir.is_empty()
    }

    /// The settings.
    pub fn settings(&self) -> Result<Settings, Failure> {
        Ok(self.config.load()?.settings)
    }

    /// The logs, at least one, each once; `files`, where there are any, are one.
    pub fn logs(&self, files: &[PathBuf]) -> Result<Vec<Log>, Failure> {
        self.logs_if(files, is_log)
    }

    /// The logs of all runs, the latest first, where no other log is named.
    pub fn logs_of_runs(&self, files: &[PathBuf]) -> Result<Vec<Log>, Failure> {
        if !files.is_empty() || !self.dir.is_empty() || self.run.is_some() {
            return Ok(Vec::new());
        }
        let runs = self.config.load()?.settings.state_dir.join("runs");
        let dirs = ids(&runs).into_iter().rev().map(|id| runs.join(id).join("audit"));
        Ok(dirs.filter(|dir| is_log(dir)).map(Log::Dir).collect())
    }

    /// As [`Self::logs`], for following: the first line may be still to come.
    pub fn logs_to_come(&self, files: &[PathBuf]) -> Result<Vec<Log>, Failure> {
        self.logs_if(files, Path::is_dir)
    }

    fn logs_if(&self, files: &[PathBuf], is_there: fn(&Path) -> bool) -> Result<Vec<Log>, Failure> {
        let is_whole = |file: &PathBuf| file.is_dir() || package::is_packed(file);
        let dirs = match (files, self.dir.as_slice(), &self.run) {
            ([], [], Some(run)) => {
                vec![of_run(&self.config.load()?.settings.state_dir.join("runs"), run)?]
            }
            ([], [], None) => vec![self.config.load()?.settings.audit().dir],
            ([], dirs, _) => each_once(dirs),
            (files, ..) if files.iter().any(is_whole) => each_once(files),
            (files, ..) => return Ok(vec![Log::Files(files.to_vec())]),
        };
        if dirs.len() > LOGS_MAX {
            return Err(anyhow::anyhow!(
                "{} logs are too many at once: at most {LOGS_MAX}",
                dirs.len()
            ))
            .or_exit(Exit::Usage);
        }
        dirs.into_iter().map(|dir| self.log_in(dir, is_there)).collect()
    }

    /// The log in a directory, or in a file that was handed over.
    fn log_in(&self, dir: PathBuf, is_there: fn(&Path) -> bool) -> Result<Log, Failure> {
        if dir.is_file() {
            return self.unpack(&dir);
        }
        check_readable(&dir)?;
        if dossier::is_in(&dir) {
            return Ok(Log::Dossier(dir));
        }
        if !is_there(&dir) {
            let dir = dir.display();
            return Err(anyhow::anyhow!(
                "there is no log in {dir}: nothing has been denied, or --dir is to name another"
            ))
            .or_exit(Exit::Unavailable);
        }
        Ok(Log::Dir(dir))
    }

    /// What is in a dossier or a bundle. It is unpacked as long as these flags are there.
    fn unpack(&self, file: &Path) -> Result<Log, Failure> {
        let dir = TemporaryDir::new(Purpose::Dossier)?;
        package::unpack(file, dir.path())
            .map_err(|error| anyhow!("cannot unpack {}: {error}", file.display()))
            .or_exit(Exit::InputOutput)?;
        let path = dir.path().to_owned();
        self.unpacked.lock().push(dir);
        if dossier::is_in(&path) {
            Ok(Log::Dossier(path))
        } else if is_log(&path) {
            Ok(Log::Bundle(path))
        } else {
            let why = "is neither a dossier nor a bundle: it has no lines of a log";
            Err(anyhow!("{} {why}", file.display())).or_exit(Exit::Unavailable)
        }
    }
}

/// One that is given twice, whatever its path is called, would be counted twice.
fn each_once(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let is_new =
        |dir: &&PathBuf| seen.insert(dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf()));
    dirs.iter().filter(is_new).cloned().collect()
}

/// Checked first: "no log" would be wrong for a directory that this user may not read.
fn check_readable(dir: &Path) -> Result<(), Failure> {
    match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let what = format!("{} cannot be read", dir.display());
            Err(anyhow::Error::new(error).context(what)).or_exit(Exit::Permission)
        }
        _ => Ok(()),
    }
}

/// Whether `dir` has, or had, a log: verifying a wrong directory must not succeed.
fn is_log(dir: &Path) -> bool {
    let files = segment::files(dir);
    // Reading it reports a directory that cannot be listed.
    dir.is_dir() && (dir.join(HEAD_NAME).exists() || files.map_or(true, |files| !files.is_empty()))
}

/// The log of a run. The names of their directories sort by time.
fn of_run(runs: &Path, wanted: &str) -> Result<PathBuf, Failure> {
    check_readable(runs)?;
    let mut ids = ids(runs);
    let found = match wanted {
        "last" => ids.pop().into_iter().collect(),
        _ => {
            ids.retain(|id| id.starts_with(&wanted.to_ascii_uppercase()));
            ids
        }
    };
    let runs_dir = runs.display();
    match found.as_slice() {
        [id] => Ok(runs.join(id).join("audit")),
        [] if wanted == "last" => Err(anyhow::anyhow!("there are no runs in {runs_dir}")),
        [] => Err(anyhow::anyhow!(
            "there is no run {wanted} in {runs_dir}; `--run last` is the last one"
        )),
        several => Err(anyhow::anyhow!("several runs begin with {wanted}: {}", several.join(", "))),
    }
    .or_exit(Exit::Unavailable)
}

/// Of the runs that have a log, oldest first.
fn ids(runs: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let mut ids: Vec<_> = entries
        .filter(|entry| entry.path().join("audit").is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    ids.sort();
    ids
}

/// The heads by the names of the proxies, in the order of these.
#[derive(Debug)]
pub struct Witnesses {
    pub heads: Vec<(String, LogHead)>,
    observer: EngineClient,
    settings: Settings,
}

impl Witnesses {
    /// Asks the engine of the settings.
    pub fn ask(settings: Settings) -> Result<Self, Failure> {
        let observer = EngineClient::connect(&settings)?;
        let heads = observer.wait(observer.engine.heads());
        let heads = heads.map_err(unsaid)?;
        Ok(Self { heads, observer, settings })
    }

    /// The heads of `log`, by its identity, those of the last hours too; those of the proxies that have written its lines, by
    /// their nodes, which may be of other logs; of the log of the settings, those of their node,
    /// too, whatever its lines say.
    ///
    /// # Errors
    ///
    /// The engine does not say.
    pub fn of(&self, log: &Log) -> Result<Vec<GivenHead>, Failure> {
        let Names { logs, nodes } = Names::of(log);
        let is_own = matches!(log, Log::Dir(dir) if *dir == self.settings.audit_dir());
        let own = is_own.then(|| self.settings.node().as_str().to_owned());
        let is_of = |name: &str| {
            let mut nodes = nodes.iter().chain(&own);
            nodes.any(|node| is_name_of(name, node))
                || is_own && self.settings.engine.name.as_deref() == Some(name)
        };
        let is_meant = |(name, head): &&(String, LogHead)| {
            head.log.is_some_and(|log| logs.contains(&log)) || is_of(name)
        };
        let mut heads: Vec<_> = self.heads.iter().filter(is_meant).map(|(_, head)| *head).collect();
        for log in &logs {
            let hours = self.observer.wait(self.observer.engine.hours(*log)).map_err(unsaid)?;
            let last = heads.len();
            let is_known = |hour: &LogHead| {
                heads[..last]
                    .iter()
                    .any(|head| (head.number, head.hash) == (hour.number, hour.hash))
            };
            let hours: Vec<_> = hours.into_iter().filter(|hour| !is_known(hour)).collect();
            heads.extend(hours);
        }
        let given = |head: LogHead| GivenHead::witnessed(head_of(&head)).of_log(head.log);
        Ok(heads.into_iter().map(given).collect())
    }
}

fn unsaid(error: engine::Error) -> Failure {
    let why = anyhow!("the shared engine does not say which heads it has seen: {error}");
    Failure { exit: Exit::Unavailable, error: why }
}

/// Nodes of a log that are kept apart: more than proxies that ever write to one.
const NODES_MAX: usize = 1000;

/// What the lines of a log name: itself, and the proxies that wrote it.
#[derive(Debug, Default)]
struct Names {
    logs: BTreeSet<LogId>,
    nodes: BTreeSet<String>,
}

impl Names {
    /// Of all lines; what cannot be read is a fault that verifying them reports.
    fn of(log: &Log) -> Self {
        let mut names = Self::default();
        if let Some(dir) = log.noting_dir() {
            names.logs.extend(read_log_id(dir).ok().flatten());
        }
        let Ok(mut scan) = Scan::new(log.clone()) else { return names };
        loop {
            match scan.next() {
                Ok(Some(ScanItem::Lines(block))) => {
                    block.lines().for_each(|line| names.line(line.bytes));
                }
                Ok(Some(ScanItem::Rest(_))) | Err(_) => {}
                Ok(None) => return names,
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(AnyLine { log, node, .. }) = AnyLine::parse(line) else { return };
        self.logs.extend(log);
        if let Some(node) = node.filter(|node| !self.nodes.contains(node.as_str()))
            && self.nodes.len() < NODES_MAX
        {
            self.nodes.insert(node.to_string());
        }
    }
}

/// The identity of a log: as it is noted beside it, else as its lines name it last.
pub fn identity(log: &Log) -> Option<LogId> {
    let noted = log.noting_dir().and_then(|dir| read_log_id(dir).ok().flatten());
    noted.or_else(|| Names::of(log).logs.pop_last())
}

/// The key that signs the checkpoints of a log: as it is noted beside it, else as its lines name it last.
pub fn key(log: &Log) -> Option<VerifierKey> {
    let noted = log.noting_dir().and_then(|dir| read_key(dir).ok().flatten());
    noted.or_else(|| {
        let (mut scan, mut named) = (Scan::new(log.clone()).ok()?, None);
        loop {
            match scan.next() {
                Ok(Some(ScanItem::Lines(block))) => {
                    named = block.lines().filter_map(|line| key_of(line.bytes)).last().or(named);
                }
                Ok(Some(ScanItem::Rest(_))) | Err(_) => {}
                Ok(None) => return named,
            }
        }
    })
}

/// The key that a line names.
fn key_of(line: &[u8]) -> Option<VerifierKey> {
    let is_start = LineKind::of(line) == Some(LineKind::Notice(StartedEvent::WORD));
    match is_start.then(|| Content::parse(line))?.ok()? {
        Content::Notice(Notice::Started(started)) => started.key,
        _ => None,
    }
}

/// As the readers of logs have it.
pub fn head_of(head: &LogHead) -> Head {
    Head { hash: hex(&head.hash), seq: head.number }
}
