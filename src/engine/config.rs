//! The settings of an engine, of whatever kind.

use std::time::Duration;

use super::error::{Error, ErrorKind};

/// What every kind of engine has to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of this proxy among those that share the engine; unique.
    pub name: String,
    /// Random letters of this process, so that two of one name are two; empty: there is only one.
    pub process: String,
    /// Whether it counts among the members: it sends heartbeats. A command that only reads sends
    /// none.
    pub is_member: bool,
    /// Version of this program.
    pub version: String,
    /// Digest of the settings that are to be equal in all proxies.
    pub settings: [u8; 32],
    /// How long what is known of an origin is kept after its last change (`engine.keep`).
    pub keep: Duration,
    /// The longest hold: `pace.max_retry_after` or `pace.backoff_max` with its tenth, whichever is
    /// longer. A later one can only be damage.
    pub hold_max: Duration,
    /// The largest file that is shared, in bytes (`robots.max_size`).
    pub file_max: usize,
    /// How many proxies there were when the process before ended; 0 if that is not known.
    pub members_before: usize,
}

impl Config {
    /// The default settings for a proxy of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            process: String::new(),
            is_member: true,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: [0; 32],
            keep: Duration::from_secs(45 * 24 * 60 * 60),
            hold_max: Duration::from_secs(60 * 60),
            file_max: 500 * 1024,
            members_before: 0,
        }
    }

    /// By what the engine knows this process among the members.
    pub(super) fn member(&self) -> String {
        member(&self.name, &self.process)
    }

    /// The digest of the settings, as far as members are compared by it.
    pub(super) fn settings_word(&self) -> u32 {
        let [first, second, third, fourth, ..] = self.settings;
        u32::from_be_bytes([first, second, third, fourth])
    }

    /// Refuses a file that is too large to be shared.
    pub(super) fn check_file(&self, content: &[u8]) -> Result<(), Error> {
        if content.len() > self.file_max {
            return Err(ErrorKind::TooLarge.with(format!("a file of {} bytes", content.len())));
        }
        Ok(())
    }
}

/// By what a process is known among the members.
pub(super) fn member(name: &str, process: &str) -> String {
    if process.is_empty() { name.to_owned() } else { format!("{name} {process}") }
}
