//! Defaults that depend on the host and on the environment of the process.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::Value;
use rustix::process::geteuid;

use super::layers::FILE_VARIABLE;
use super::validate::BODY_MEMORY_MIN;
use super::values::print_size;
use crate::runtime::{NAMED_FILE_BYTES_MAX, files};

const DEFAULT_FILE: &str = "/etc/courtesy/config.toml";

/// The file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SettingsFile {
    pub path: PathBuf,
    /// What names it: then it has to be there.
    pub by: Option<String>,
    /// It was found by the home in the environment, which may be another user's.
    is_of_home: bool,
}

impl SettingsFile {
    /// The file that `--config` names, else the one of `$COURTESY_CONFIG`, else the user's own where
    /// there is one, else the machine's.
    pub fn find(named: Option<&Path>, variables: &[(String, String)]) -> Self {
        if let Some(path) = named {
            return Self::named(path, "--config");
        }
        if let Some((name, path)) = variables.iter().find(|(name, _)| name == FILE_VARIABLE) {
            return Self::named(Path::new(path), &format!("${name}"));
        }
        let own = config_home(variables).map(|home| home.join("courtesy/config.toml"));
        match own.filter(|file| fs::metadata(file).is_ok()) {
            Some(path) => Self { path, by: None, is_of_home: true },
            None => Self { path: DEFAULT_FILE.into(), by: None, is_of_home: false },
        }
    }

    fn named(path: &Path, by: &str) -> Self {
        Self { path: path.to_owned(), by: Some(by.to_owned()), is_of_home: false }
    }

    /// Its bytes; `None` where it need not be there and is not.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let read = files::open(&self.path).and_then(|file| {
            if self.is_of_home {
                // Of the open file: the name may be another file's a moment later.
                check_own(&file.metadata()?)?;
            }
            files::read_opened(file, NAMED_FILE_BYTES_MAX)
        });
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound && self.by.is_none() => Ok(None),
            read => read.map(Some),
        }
    }
}

/// Where a user's settings are (XDG Base Directory Specification): relative paths are ignored.
fn config_home(variables: &[(String, String)]) -> Option<PathBuf> {
    let dir = |wanted: &str| {
        let value = variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        value.map(PathBuf::from).filter(|dir| dir.is_absolute())
    };
    dir("XDG_CONFIG_HOME").or_else(|| Some(dir("HOME")?.join(".config")))
}

/// The directory for what lasts until the machine is shut down (XDG Base Directory Specification).
pub(super) fn runtime_dir(variables: &[(String, String)]) -> Option<PathBuf> {
    let value = variables.iter().find(|(name, _)| name == "XDG_RUNTIME_DIR")?;
    Some(PathBuf::from(&value.1)).filter(|dir| dir.is_absolute())
}

/// What another user can write decides nothing: sudo and su may keep the home of the one who asks.
fn check_own(file: &Metadata) -> io::Result<()> {
    let own = geteuid().as_raw();
    let problem = if file.uid() != own && file.uid() != 0 {
        format!("it belongs to user {}, and this is user {own}", file.uid())
    } else if file.mode() & 0o002 != 0 {
        "every user can write to it".to_owned()
    } else {
        return Ok(());
    };
    let remedy = "name it with --config if it is to be used";
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{problem}; {remedy}")))
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
    let (limit, from) = memory_limit()?;
    let size = (limit / BODY_MEMORY_SHARE).max(BODY_MEMORY_MIN);
    Some(Value::new(Some(&format!("a quarter of {}", from.display())), print_size(&size)))
}

// The memory limit of the process by its control groups (cgroups(7)): the smallest from its own
// group up to the root, in version 2 (`memory.max`) or 1 (`memory.limit_in_bytes`).

/// Where the hierarchies are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// The file that lists the groups of this process.
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// Version 1 writes a number of this size where there is no limit: the largest whole number of pages.
const NO_LIMIT_MIN: u64 = 1 << 60;

/// The smallest limit in bytes, and the file that sets it; none where there is no limit, or no control groups.
pub fn memory_limit() -> Option<(u64, PathBuf)> {
    limit_below(Path::new(MOUNT), &fs::read_to_string(OWN_GROUPS).ok()?)
}

/// The same for a process in `groups`, lines as proc(5) has them, of hierarchies mounted at `mount`.
fn limit_below(mount: &Path, groups: &str) -> Option<(u64, PathBuf)> {
    groups.lines().filter_map(|line| limit_of(mount, line)).min()
}

fn limit_of(mount: &Path, line: &str) -> Option<(u64, PathBuf)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => (mount.to_owned(), "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (mount.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    // In a container the group may be named as the host sees it: then the mount itself is the group's.
    let group = group.trim_start_matches('/').split('/').filter(|step| *step != "..");
    let group = group.fold(root.clone(), |path, step| path.join(step));
    let files =
        group.ancestors().take_while(|path| path.starts_with(&root)).map(|path| path.join(file));
    files.filter_map(|file| Some((number(&file)?, file))).min()
}

fn number(file: &Path) -> Option<u64> {
    let number = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (number < NO_LIMIT_MIN).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit with these files, and the file that sets it.
    fn limit(files: &[(&str, &str)], groups: &str) -> Option<(u64, String)> {
        let mount = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = mount.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (limit, file) = limit_below(mount.path(), groups)?;
        Some((limit, file.strip_prefix(mount.path()).unwrap().display().to_string()))
    }

    #[test]
    fn the_smallest_limit_on_the_way_to_the_root_holds() {
        let of_unit = ("system.slice/courtesy.service/memory.max", "1073741824\n");
        let of_slice = ("system.slice/memory.max", "268435456\n");
        let group = "0::/system.slice/courtesy.service\n";
        assert_eq!(limit(&[of_unit], group), Some((1 << 30, of_unit.0.into())));
        assert_eq!(limit(&[of_unit, of_slice], group), Some((256 << 20, of_slice.0.into())));
        let none = ("system.slice/courtesy.service/memory.max", "max\n");
        assert_eq!(limit(&[none], group), None);
        assert_eq!(limit(&[of_unit], "0::/\n"), None, "another group");
    }

    #[test]
    fn both_versions_are_read_and_what_is_no_limit_is_none() {
        let old = ("memory/a/b/memory.limit_in_bytes", "268435456\n");
        let unlimited = ("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let groups = "5:devices:/a/b\n4:cpu,memory:/a/b\n0::/\n";
        assert_eq!(limit(&[old, unlimited], groups), Some((256 << 20, old.0.into())));
        assert_eq!(limit(&[unlimited], groups), None);
        let new = ("memory.max", "1048576");
        assert_eq!(limit(&[old, new], groups), Some((1 << 20, "memory.max".into())));
    }

    #[test]
    fn a_container_reads_the_limit_of_the_mounted_group() {
        let mounted = ("memory.max", "268435456\n");
        for groups in ["0::/kubepods/pod1/abc\n", "0::/../../abc\n", "0::/\n"] {
            assert_eq!(
                limit(&[mounted], groups),
                Some((256 << 20, "memory.max".into())),
                "{groups}"
            );
        }
        for nonsense in ["", "0:", "a:b", "0::", "0::/\0\n"] {
            assert!(limit(&[], nonsense).is_none(), "{nonsense}");
        }
    }
}
