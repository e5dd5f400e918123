//! Which log is meant: that of the settings, of a run, of a directory, or single files.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::audit::{HEAD_NAME, segment};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::flags::StateFlags;
use crate::review::Log;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which log")]
pub struct PlaceFlags {
    /// The records of `courtesy run`: the last one, or that with the ID (its beginning is enough)
    #[arg(long, value_name = "last|ID", conflicts_with = "dir")]
    run: Option<String>,
    /// The log in DIR [default: audit.dir of the settings]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    config: StateFlags,
}

impl PlaceFlags {
    /// The log; `files`, where there are any, are it.
    pub fn log(&self, files: &[PathBuf]) -> Result<Log, Failure> {
        self.log_if(files, is_log)
    }

    /// As [`Self::log`], for who waits for what is written: the first line may be still to come.
    pub fn log_to_come(&self, files: &[PathBuf]) -> Result<Log, Failure> {
        self.log_if(files, Path::is_dir)
    }

    fn log_if(&self, files: &[PathBuf], is_there: fn(&Path) -> bool) -> Result<Log, Failure> {
        if !files.is_empty() {
            return Ok(Log::Files(files.to_vec()));
        }
        let dir = match (&self.dir, &self.run) {
            (Some(dir), _) => dir.clone(),
            (None, Some(run)) => of_run(&self.config.load()?.settings.state_dir.join("runs"), run)?,
            (None, None) => self.config.load()?.settings.audit().dir,
        };
        if is_there(&dir) {
            return Ok(Log::Dir(dir));
        }
        let dir = dir.display();
        Err(anyhow::anyhow!("there is no log in {dir}: nothing has been denied, or --dir is to name another"))
            .or_exit(Exit::Unavailable)
    }
}

/// Whether anything in `dir` says that there is a log, or was: that nothing is wrong with nothing is
/// for nobody to hear who took the wrong directory.
fn is_log(dir: &Path) -> bool {
    let files = segment::files(dir);
    // What cannot be listed is said by whoever reads it.
    dir.is_dir() && (dir.join(HEAD_NAME).exists() || files.map_or(true, |files| !files.is_empty()))
}

/// The log of a run. The names of their directories sort by time.
fn of_run(runs: &Path, wanted: &str) -> Result<PathBuf, Failure> {
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
        [] => Err(anyhow::anyhow!("there is no run {wanted} in {runs_dir}; `--run last` is the last one")),
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
