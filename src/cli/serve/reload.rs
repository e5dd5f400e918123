//! Reloads the settings from the same file, environment and flags as at the start: all of them or
//! none. If they are not valid, every fault is logged, and the former settings stay in effect. What came of it
//! is printed by `courtesy reload`, which is here, too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::signals;
use crate::admin::control::{Question, ask_control};
use crate::audit::ReloadTrigger;
use crate::ca::{Leaves, Source};
use crate::cli::environment;
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::flags::{ServeArgs, StateFlags};
use crate::cli::logging::Level;
use crate::cli::output::print;
use crate::config::{Loaded, Override, Settings};
use crate::runtime::clock::Clock;
use crate::server::{Components, Server};

/// Reads the settings again and applies them.
pub struct Reloader<'a> {
    pub args: &'a ServeArgs,
    /// The addresses of inherited sockets.
    pub overrides: Vec<Override>,
    pub clock: &'a dyn Clock,
    pub components: &'a Components,
    pub server: &'a Server,
    pub level: Option<Level>,
    pub watch: FileWatch,
    /// The settings that need a restart, as logged last.
    pub waiting: Vec<&'static str>,
}

impl Reloader<'_> {
    /// Applies the present settings; returns what came of it, for `courtesy reload`.
    pub fn reload(&mut self, why: ReloadTrigger) -> Value {
        signals::notify_reloading();
        self.watch.note_reading();
        let report = match self.try_reload(why) {
            Ok(applied) => {
                self.components.reloads.succeeded(self.clock.wall());
                signals::notify_ready();
                ReloadReport::Applied(applied)
            }
            Err(failure) => {
                let (exit, failure) = (failure.exit.code(), format!("{:#}", failure.error));
                error!("{why}: the settings stay as they were: {failure}");
                signals::ready_as_before(&failure);
                self.components.reloads.failed(failure.clone());
                ReloadReport::Refused { exit, why: failure }
            }
        };
        serde_json::to_value(report).expect("names and texts")
    }

    fn try_reload(&mut self, why: ReloadTrigger) -> Result<AppliedSettings, Failure> {
        let loaded = self.args.load(&self.overrides)?;
        let in_effect = loaded.effective();
        let notices = loaded.notices(self.clock.wall());
        let Loaded { mut settings, file, .. } = loaded;
        file.as_deref().map_or(Ok(()), refuse_empty)?;
        let running = self.components.settings();
        let waiting = settings.keep_restart_required(&running);
        // Our own CA is in the state directory, which stays.
        let ca = ca(&settings);
        // Whether they can be used or not: what is wrong will be corrected in these files.
        self.watch.follow(files(&settings, file, &ca));
        let changed = running.differences(&settings);
        for notice in &notices {
            warn!("{notice}");
        }
        let level = settings.log.level;
        // A rotation of our own CA waits until the operator confirms that clients trust the new
        // one.
        let is_asked = why != ReloadTrigger::File || !matches!(ca, Source::Own(_));
        let ca = (is_asked || ca != self.components.leaves.source()).then_some(ca);
        let others = self.server.reload(settings, ca).map_err(Failure::from)?;
        self.components.reloads.hold(in_effect, &waiting);
        let in_effect = Settings::clone(&self.components.settings());
        self.components.lifecycle.changed(why, in_effect, &others.contents);
        if let Some(current) = &self.level {
            current.change(level);
        }
        if changed.is_empty() && others.contents.is_empty() {
            info!("{why}: the settings are the same");
        }
        if !changed.is_empty() {
            info!("{why}: from now on other settings hold: {}", changed.join(", "));
        }
        if !others.contents.is_empty() {
            info!("{why}: from now on other contents hold: {}", others.contents.join(", "));
        }
        if others.ca {
            log_ca(&self.components.leaves, "another CA signs from now on");
        }
        if waiting != self.waiting && !waiting.is_empty() {
            warn!("{} needs a restart, and stays as it was until then", waiting.join(", "));
        }
        self.waiting.clone_from(&waiting);
        let names = |keys: Vec<&'static str>| keys.into_iter().map(str::to_owned).collect();
        let (contents, waiting) = (names(others.contents), names(waiting));
        Ok(AppliedSettings { settings: changed, contents, waiting, notices })
    }
}

/// An empty file is probably being written, and would reset all settings.
fn refuse_empty(file: &Path) -> Result<(), Failure> {
    if std::fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    let file = file.display();
    Err(anyhow!("{file} is empty; to have all settings at their defaults, write a comment into it"))
        .or_exit(Exit::Configuration)
}

/// The location of the CA by these settings.
pub fn ca(settings: &Settings) -> Source {
    settings.ca(environment::credentials_directory().as_deref())
}

/// The files whose changes cause a reload. Not the generated CA: see above.
pub fn files(settings: &Settings, file: Option<PathBuf>, ca: &Source) -> Vec<PathBuf> {
    let named = settings.named_files().into_iter().map(|(_, file)| file.to_owned());
    file.into_iter().chain(ca.files_of_others()).chain(named).collect()
}

/// Logs the CA that signs leaves.
pub fn log_ca(leaves: &Leaves, what: &str) {
    let authority = leaves.authority();
    let certificate = authority.certificate();
    info!(
        subject = certificate.subject(),
        sha256 = certificate.fingerprint(),
        file = %authority.file().display(),
        "{what}"
    );
}

// Polls files once a second for changes. A poll is one call for each file, and sees what
// notifications of the kernel do not: a file behind a changed link, as Kubernetes updates a
// ConfigMap, and one on a network file system.

/// The interval of polls, for which a changed file must also have stayed the same before it is
/// read.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The polls within that time, until two of them find the same.
const SETTLE_POLLS: u32 = 10;

/// Watches the files of the configuration by polling.
pub struct FileWatch {
    files: Vec<PathBuf>,
    /// The state in which they were read.
    read: Vec<Identity>,
    /// The state at the last poll.
    seen: Vec<Identity>,
}

/// The metadata that changes with a file's content, links followed. `None`: it does not exist.
type Identity = Option<Marks>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileWatch {
    /// Watches `files` for changes from now on.
    pub fn new(files: Vec<PathBuf>) -> Self {
        let read: Vec<_> = files.iter().map(|file| identity(file)).collect();
        Self { files, seen: read.clone(), read }
    }

    /// Waits until a file differs from when it was read, and has stayed the same for an interval: a
    /// half-written one is not read.
    pub async fn changed(&mut self) {
        self.changed_within(WATCH_INTERVAL).await;
    }

    async fn changed_within(&mut self, interval: Duration) {
        loop {
            sleep(interval).await;
            if self.poll() {
                return;
            }
        }
    }

    /// Waits until no file has changed for a moment, or for a second: the signal to read them does not say
    /// whether they are being written.
    pub async fn settled(&mut self) {
        for _ in 0..SETTLE_POLLS {
            sleep(WATCH_INTERVAL / SETTLE_POLLS).await;
            let now: Vec<_> = self.files.iter().map(|file| identity(file)).collect();
            if std::mem::replace(&mut self.seen, now) == self.seen {
                return;
            }
        }
    }

    fn poll(&mut self) -> bool {
        let now: Vec<_> = self.files.iter().map(|file| identity(file)).collect();
        let has_settled = now == self.seen;
        self.seen = now;
        has_settled && self.seen != self.read
    }

    /// Marks that the files are about to be read: later writes are changes.
    pub fn note_reading(&mut self) {
        *self = Self::new(std::mem::take(&mut self.files));
    }

    /// Watches these files from now on; the state of those already watched stays.
    pub fn follow(&mut self, files: Vec<PathBuf>) {
        let mut next = Self::new(files);
        for (at, file) in next.files.iter().enumerate() {
            if let Some(known) = self.files.iter().position(|it| it == file) {
                next.read[at].clone_from(&self.read[known]);
            }
        }
        *self = next;
    }
}

fn identity(file: &Path) -> Identity {
    let metadata = fs::metadata(file).ok()?;
    Some(Marks {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

// `courtesy reload`, the command, and what the proxy answers to it. It does not load the settings itself: what
// is wrong with them the proxy says, by its own variables and flags.

/// What a reload did, as `courtesy reload` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReloadReport {
    /// What was read is in effect, but for what needs a restart.
    Applied(AppliedSettings),
    /// The settings stay as they were; `exit` is the exit code of a `courtesy serve` with those that were
    /// read.
    Refused { exit: u8, why: String },
}

/// What is different since a reload, by the names of settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AppliedSettings {
    /// Settings with another value.
    settings: Vec<String>,
    /// Settings whose file has another content.
    contents: Vec<String>,
    /// Settings whose other value needs a restart.
    waiting: Vec<String>,
    /// What deserves a warning.
    notices: Vec<String>,
}

impl AppliedSettings {
    fn lines(&self) -> String {
        let Self { settings, contents, waiting, notices } = self;
        let mut lines: Vec<_> = notices.iter().map(|notice| format!("note: {notice}")).collect();
        if settings.is_empty() && contents.is_empty() && waiting.is_empty() {
            lines.push("the settings are the same".into());
        }
        for (what, keys) in [
            ("other settings hold", settings),
            ("other contents hold", contents),
            ("needs a restart, and stays as it was until then", waiting),
        ] {
            if !keys.is_empty() {
                lines.push(format!("{what}: {}", keys.join(", ")));
            }
        }
        lines.join("\n") + "\n"
    }
}

/// The arguments of `courtesy reload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy reload
  courtesy reload --state-dir /var/lib/courtesy || journalctl -u courtesy -n 20
  docker exec courtesy courtesy reload
  kubectl exec POD -c courtesy -- courtesy reload

The proxy that runs with this state directory reads its file, its variables and flags and the
files that they name, as on SIGHUP, and uses them from the next request on: all of them or none.
What is under way ends as it began. Changed files are read without it within two seconds; it is
for who wants to know what came of that, and for a CA that `courtesy ca rotate` has made, by which
the proxy signs only when it is asked to.

Prints which settings, and the contents of which files, are others now, and what needs a restart.
Ends with 0, also where nothing has changed. Where the settings stay as they were, it prints why,
and ends with the code that `courtesy serve` would end with: 78 for settings and what they name, 77
for permissions, 74 for input and output. Ends with 69 where no proxy runs with this state
directory, or it is stopping, and with 77 where this is neither the user of the proxy nor root.")]
pub struct ReloadArgs {
    #[command(flatten)]
    config: StateFlags,
}

/// Runs `courtesy reload`.
pub fn run(args: &ReloadArgs) -> Result<Exit, Failure> {
    let found = args.config.locate();
    for dir in &found.state_dirs {
        let mut report = None;
        let asked = ask_control(dir, &Question::Reload, &mut |item| {
            report = Some(serde_json::from_value(item)?);
            Ok(())
        })?;
        match (asked, report) {
            (None, _) => {}
            (Some(_), Some(ReloadReport::Applied(applied))) => {
                print(applied.lines())?;
                return Ok(Exit::Done);
            }
            (Some(_), Some(ReloadReport::Refused { exit, why })) => {
                let why = anyhow!("the settings stay as they were: {why}");
                return Err(why).or_exit(Exit::Command(exit));
            }
            (Some(_), None) => {
                let why = anyhow!("the running proxy does not say what came of it");
                return Err(why).or_exit(Exit::Unavailable);
            }
        }
    }
    let dirs: Vec<_> = found.state_dirs.iter().map(|dir| dir.display().to_string()).collect();
    let mut why = match dirs.as_slice() {
        [] => "there is no home directory to look for a state directory in".to_owned(),
        dirs => format!("no proxy runs with the state directory {}", dirs.join(" or ")),
    };
    why.extend(found.problem.map(|it| format!("; not all settings could be read: {it}")));
    let remedy = "start it with `courtesy serve`, or give --state-dir as it was started with";
    Err(anyhow!("{why}; {remedy}")).or_exit(Exit::Unavailable)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_change_is_reported_when_it_has_settled_and_until_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = FileWatch::new(vec![file.clone()]);
        assert!(!watch.poll());
        fs::write(&file, "half wri").unwrap();
        assert!(!watch.poll());
        fs::write(&file, "half written").unwrap();
        assert!(!watch.poll(), "it was still being written");
        assert!(watch.poll());
        watch.note_reading();
        assert!(!watch.poll());
        fs::remove_file(&file).unwrap();
        assert!(!watch.poll());
        assert!(watch.poll());
    }

    /// As Kubernetes updates a ConfigMap: the directory behind a link becomes another.
    #[test]
    fn a_file_behind_a_link_to_another_place_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for version in ["1", "2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("config.toml"), "same size").unwrap();
        }
        symlink(at("1"), at("data")).unwrap();
        symlink("data/config.toml", at("config.toml")).unwrap();
        let mut watch = FileWatch::new(vec![at("config.toml")]);
        symlink(at("2"), at("next")).unwrap();
        fs::rename(at("next"), at("data")).unwrap();
        assert!(!watch.poll());
        assert!(watch.poll());
    }

    #[test]
    fn what_changed_while_it_was_read_is_still_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("a"), dir.path().join("b"));
        let mut watch = FileWatch::new(vec![file.clone()]);
        watch.note_reading();
        fs::write(&file, "written after it was read").unwrap();
        watch.follow(vec![other, file]);
        assert!(watch.poll());
    }
}
