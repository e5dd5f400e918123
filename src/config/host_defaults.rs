//! Defaults that depend on the host and on the environment of the process.

use std::path::Path;

use config::Value;

use super::cgroup;
use super::layers::FILE_VARIABLE;
use super::parse::print_size;
use super::validate::BODY_MEMORY_MIN;

const DEFAULT_FILE: &str = "/etc/courtesy/config.toml";

/// The file to read, and what names it; `None` for the default one.
pub(super) fn named_file<'a>(
    named: Option<&'a Path>,
    variables: &'a [(String, String)],
) -> (&'a Path, Option<String>) {
    let variable = variables.iter().find(|(name, _)| name == FILE_VARIABLE);
    match (named, variable) {
        (Some(path), _) => (path, Some("--config".to_owned())),
        (None, Some((name, path))) => (Path::new(path), Some(format!("${name}"))),
        (None, None) => (Path::new(DEFAULT_FILE), None),
    }
}

/// The default state directory: `$STATE_DIRECTORY` (systemd), else the XDG state directory; `None`
/// without a home.
pub(super) fn state_dir(variables: &[(String, String)]) -> Option<Value> {
    let variable = |wanted: &str| {
        let value =
            variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        value.filter(|value| !value.is_empty())
    };
    // More than one StateDirectory= are joined by colons; ours is the first.
    let of_systemd = variable("STATE_DIRECTORY").and_then(|dirs| dirs.split(':').next());
    let (dir, from) = if let Some(dir) = of_systemd {
        (dir.to_owned(), "$STATE_DIRECTORY")
    } else if let Some(dir) = variable("XDG_STATE_HOME") {
        (format!("{dir}/courtesy"), "$XDG_STATE_HOME")
    } else {
        (format!("{}/.local/state/courtesy", variable("HOME")?), "$HOME")
    };
    Some(Value::new(Some(&from.to_owned()), dir))
}

/// The share of the memory limit for requests in flight: the rest is for the store, for idle
/// connections, and for buffers of the system.
const BODY_MEMORY_SHARE: u64 = 4;

/// The default memory for requests in flight: a share of the memory limit; `None` without a limit.
pub(super) fn body_memory() -> Option<Value> {
    let (limit, from) = cgroup::memory_limit()?;
    let size = (limit / BODY_MEMORY_SHARE).max(BODY_MEMORY_MIN);
    Some(Value::new(Some(&format!("a quarter of {}", from.display())), print_size(&size)))
}
