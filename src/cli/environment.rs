//! The only reader of the environment.

use std::path::PathBuf;

/// All variables, lossily as UTF-8: a setting with other bytes is refused by its own check.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn variables() -> Vec<(String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
}

/// The directory in which systemd hands secrets to a service (LoadCredential=).
pub fn credentials_directory() -> Option<PathBuf> {
    let of_systemd = variables().into_iter().find(|(name, _)| name == "CREDENTIALS_DIRECTORY");
    of_systemd.map(|(_, dir)| dir.into())
}

/// Whether a variable is set and not empty, as NO_COLOR asks.
pub fn is_set(name: &str) -> bool {
    variable(name).is_some()
}

/// A variable, if it is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    let found = variables().into_iter().find(|(variable, _)| variable == name);
    found.map(|(_, value)| value).filter(|value| !value.is_empty())
}
