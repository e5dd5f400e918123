//! The log to read: that of the settings, of a run, of a directory, or single files.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::audit::read::Log;
use crate::audit::{HEAD_NAME, segment};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::flags::StateFlags;
use crate::config::Settings;

/// Logs that are read together: each takes two descriptors and the memory for a few lines.
const LOGS_MAX: usize = 400;

/// The flags that name one or several logs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which log")]
pub struct LogSourceFlags {
    /// The records of `courtesy run`: the last one, or that with the ID (its beginning is enough)
    #[arg(long, value_name = "last|ID", conflicts_with = "dir")]
    run: Option<String>,
    /// The log in DIR [default: audit.dir of the settings]; given several times, all of them, in the order of time
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    #[command(flatten)]
    config: StateFlags,
}

impl LogSourceFlags {
    /// The settings.
    pub fn settings(&self) -> Result<Settings, Failure> {
        Ok(self.config.load()?.settings)
    }

    /// The logs, at least one, each once; `files`, where there are any, are one.
    pub fn logs(&self, files: &[PathBuf]) -> Result<Vec<Log>, Failure> {
        self.logs_if(files, is_log)
    }

    /// As [`Self::logs`], for following: the first line may be still to come.
    pub fn logs_to_come(&self, files: &[PathBuf]) -> Result<Vec<Log>, Failure> {
        self.logs_if(files, Path::is_dir)
    }

    fn logs_if(&self, files: &[PathBuf], is_there: fn(&Path) -> bool) -> Result<Vec<Log>, Failure> {
        if !files.is_empty() {
            return Ok(vec![Log::Files(files.to_vec())]);
        }
        let dirs = match (self.dir.as_slice(), &self.run) {
            ([], Some(run)) => {
                vec![of_run(&self.config.load()?.settings.state_dir.join("runs"), run)?]
            }
            ([], None) => vec![self.config.load()?.settings.audit().dir],
            (dirs, _) => each_once(dirs),
        };
        if dirs.len() > LOGS_MAX {
            return Err(anyhow::anyhow!(
                "{} logs are too many at once: at most {LOGS_MAX}",
                dirs.len()
            ))
            .or_exit(Exit::Usage);
        }
        dirs.iter().try_for_each(|dir| check_readable(dir))?;
        if let Some(dir) = dirs.iter().find(|dir| !is_there(dir)) {
            let dir = dir.display();
            return Err(anyhow::anyhow!(
                "there is no log in {dir}: nothing has been denied, or --dir is to name another"
            ))
            .or_exit(Exit::Unavailable);
        }
        Ok(dirs.into_iter().map(Log::Dir).collect())
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
