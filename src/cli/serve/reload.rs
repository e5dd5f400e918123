//! Reloads the settings from the same file, environment and flags as at the start: all of them or
//! none. If they are not valid, every fault is logged, and the former settings stay in effect.

use std::path::{Path, PathBuf};

use tracing::{error, info, warn};

use super::super::environment;
use super::super::exit::{Exit, Failure, OrExit};
use super::super::logging::Level;
use super::args::ServeArgs;
use super::file_watch::FileWatch;
use super::service_manager;
use crate::audit::ReloadTrigger;
use crate::ca::{Leaves, Source};
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
    /// Applies the present settings.
    pub fn reload(&mut self, why: ReloadTrigger) {
        service_manager::reloading();
        self.watch.note_reading();
        match self.try_reload(why) {
            Ok(()) => {
                self.components.reloads.succeeded(self.clock.wall());
                service_manager::ready();
            }
            Err(failure) => {
                let failure = format!("{:#}", failure.error);
                error!("{why}: the settings stay as they were: {failure}");
                service_manager::ready_as_before(&failure);
                self.components.reloads.failed(failure);
            }
        }
    }

    fn try_reload(&mut self, why: ReloadTrigger) -> Result<(), Failure> {
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
        for notice in notices {
            warn!("{notice}");
        }
        let level = settings.log.level;
        // A rotation of our own CA waits until the operator confirms that clients trust the new
        // one.
        let is_asked = why == ReloadTrigger::Hup || !matches!(ca, Source::Own(_));
        let ca = (is_asked || ca != self.components.leaves.source()).then_some(ca);
        let others = self.server.reload(settings, ca).map_err(Failure::from)?;
        self.components.reloads.hold(in_effect, &waiting);
        let in_effect = Settings::clone(&self.components.settings());
        self.components.lifecycle.changed(why, in_effect, &others.contents);
        if let Some(current) = &self.level {
            current.change(level);
        }
        match (changed.as_slice(), others.contents.as_slice()) {
            ([], []) => info!("{why}: the settings are the same"),
            ([], keys) => info!("{why}: from now on other contents hold: {}", keys.join(", ")),
            (changed, _) => info!("{why}: from now on other settings hold: {}", changed.join(", ")),
        }
        if others.ca {
            log_ca(&self.components.leaves, "another CA signs from now on");
        }
        if waiting != self.waiting && !waiting.is_empty() {
            warn!("{} needs a restart, and stays as it was until then", waiting.join(", "));
        }
        self.waiting = waiting;
        Ok(())
    }
}

/// An empty file is probably being written, and would reset all settings.
fn refuse_empty(file: &Path) -> Result<(), Failure> {
    if std::fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    let file = file.display();
    Err(anyhow::anyhow!(
        "{file} is empty; to have all settings at their defaults, write a comment into it"
    ))
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
