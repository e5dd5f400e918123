//! Unix sockets of services that act outside of the namespaces for each client that writes to them:
//! message buses, container engines, resolvers, agents, displays, terminals. A socket that is made anew
//! is another file, and one that comes later is not there yet: so what is covered is the directory in
//! which they live, by another that has what else is in it.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use super::mounts::Mount;
use crate::cli::environment;

/// Directories in which they live: below the home directory where they begin with `~`.
const DIRECTORIES: [&str; 19] = [
    "/run",
    "/var/run",
    "/var/lib/lxd",
    "/var/snap/lxd/common/lxd",
    "/var/lib/incus",
    "/var/lib/docker-desktop",
    "/var/spool/postfix/public",
    "~/.ssh",
    "~/.gnupg",
    "~/.docker",
    "~/.colima",
    "~/.lima",
    "~/.rd",
    "~/.orbstack/run",
    "~/.cache/libvirt",
    "~/.config/libvirt",
    "~/.config/lxc",
    "~/.local/share/containers/podman/machine",
    "~/.screen",
];

/// Variables that name such a directory.
const DIRECTORY_VARIABLES: [&str; 7] = [
    "XDG_RUNTIME_DIR",
    "GNUPGHOME",
    "LXD_DIR",
    "INCUS_DIR",
    "SCREENDIR",
    "PIPEWIRE_RUNTIME_DIR",
    "PULSE_RUNTIME_PATH",
];

/// Beginnings of names of directories in [`shared`] ones that have nothing but sockets, also while they
/// have none: of displays and sessions, tmux, agents of ssh, buses.
const SOCKET_DIRECTORIES: [&str; 8] =
    [".X11-unix", ".ICE-unix", ".font-unix", "tmux-", "ssh-", "dbus-", "screens", "keyring-"];

/// Directories below one that is covered which have sockets sooner or later, whatever is in them now.
const SERVICES: [&str; 16] = [
    "dbus",
    "systemd",
    "docker",
    "podman",
    "containerd",
    "crio",
    "buildkit",
    "libvirt",
    "lxd",
    "incus",
    "gnupg",
    "keyring",
    "dbus-1",
    "avahi-daemon",
    "nscd",
    "snapd",
];

/// Entries that one cover is made of at most, and its depth. What is beyond is not there.
const ENTRIES_MAX: usize = 4096;
const DEPTH_MAX: usize = 6;

/// The file system of a directory in memory (statfs(2)); others than that of `/run` are not walked.
const TMPFS: u64 = 0x0102_1994;

/// What stays although it is below a directory that is covered.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Sockets: of `--keep-socket`, and those of `--reach`, over which others are mounted.
    pub sockets: &'a [PathBuf],
    /// Directories of the run's own files.
    pub directories: &'a [PathBuf],
}

/// The mounts that cover them, in their order; `mounts` are those that are made else, which lead into a
/// cover where their target is below its directory. Directories are made in `dir`.
///
/// # Errors
///
/// A directory cannot be made.
pub fn cover(mut mounts: Vec<Mount>, kept: Kept<'_>, dir: &Path) -> io::Result<Vec<Mount>> {
    let kept_sockets = canonical(kept.sockets);
    let kept_directories = canonical(kept.directories);
    let shared = shared();
    let mut found = Found::default();
    for directory in directories() {
        found.directories.insert(directory);
    }
    for directory in &shared {
        found.look_into(directory);
    }
    for path in named_by_variables() {
        found.add_socket(&path, &shared);
    }
    let empty = dir.join("empty");
    fs::write(&empty, "")?;
    let mut covers = Vec::new();
    for target in outermost(&found.directories) {
        let source = dir.join(format!("covered-{}", covers.len()));
        fs::create_dir(&source)?;
        let mut cover = Cover {
            sockets: &kept_sockets,
            directories: &kept_directories,
            binds: Vec::new(),
            left: ENTRIES_MAX,
        };
        cover.fill(&target, &source, DEPTH_MAX);
        for mount in &mut mounts {
            if let Ok(rest) = mount.target.strip_prefix(&target) {
                mount.target = source.join(rest);
                make_target(&mount.source, &mount.target)?;
            }
        }
        covers.push((cover.binds, Mount { source, target }));
    }
    let is_covered = |path: &Path| covers.iter().any(|(_, cover)| path.starts_with(&cover.target));
    let files =
        found.sockets.iter().filter(|path| !kept_sockets.contains(path) && !is_covered(path));
    let mut all: Vec<_> =
        files.map(|target| Mount { source: empty.clone(), target: target.clone() }).collect();
    // What is bound into a cover comes before what is mounted over it there, and the covers come last:
    // until then every source is where it was.
    let (binds, last): (Vec<_>, Vec<_>) = covers.into_iter().unzip();
    all.extend(binds.into_iter().flatten());
    all.extend(mounts);
    all.extend(last);
    Ok(all)
}

/// One directory that is made to be mounted over another.
struct Cover<'a> {
    sockets: &'a [PathBuf],
    directories: &'a [PathBuf],
    binds: Vec<Mount>,
    left: usize,
}

impl Cover<'_> {
    /// Makes in `to` what `from` has, but for sockets: files and directories without a socket as they
    /// are, others entry by entry. What cannot be read or made is not there.
    fn fill(&mut self, from: &Path, to: &Path, depth: usize) {
        if let Ok(found) = fs::metadata(from) {
            // For whom it is open there; this user fills it here, and removes it.
            let _ = fs::set_permissions(to, Permissions::from_mode(found.mode() & 0o1777 | 0o700));
        }
        let Ok(entries) = fs::read_dir(from) else { return };
        for entry in entries.flatten() {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            let (path, copy) = (entry.path(), to.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                let _ = fs::read_link(&path).and_then(|target| symlink(target, copy));
            } else if kind.is_dir() && !self.stays_whole(&path) {
                if depth > 0 && fs::create_dir(&copy).is_ok() {
                    self.fill(&path, &copy, depth - 1);
                }
            } else if (kind.is_file() || kind.is_dir() || self.sockets.contains(&path))
                && make_target(&path, &copy).is_ok()
            {
                self.binds.push(Mount { source: path, target: copy });
            }
        }
    }

    /// Whether a directory stays as it is: it has something, no socket, and is none of a service.
    fn stays_whole(&mut self, path: &Path) -> bool {
        if self.directories.iter().any(|it| it == path) {
            return true;
        }
        if self.directories.iter().chain(self.sockets).any(|it| it.starts_with(path)) {
            return false;
        }
        if !is_walked(path) {
            return true;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_service = name.is_some_and(|name| SERVICES.contains(&&*name));
        !is_service && self.has_files_alone(path, DEPTH_MAX) == Some(true)
    }

    /// Whether there is something below, and no socket; `None` where that cannot be told.
    fn has_files_alone(&mut self, path: &Path, depth: usize) -> Option<bool> {
        let depth = depth.checked_sub(1)?;
        let mut has_files = false;
        for entry in fs::read_dir(path).ok()?.flatten() {
            self.left = self.left.checked_sub(1)?;
            let kind = entry.file_type().ok()?;
            if kind.is_socket() {
                return Some(false);
            }
            // One that is empty may be for a socket.
            let is_walked = kind.is_dir() && is_walked(&entry.path());
            if is_walked && !self.has_files_alone(&entry.path(), depth)? {
                return Some(false);
            }
            has_files = true;
        }
        Some(has_files)
    }
}

/// Whether a directory is of the file system above it, or in memory: a disk has no sockets of services.
fn is_walked(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let is_same = path.parent().is_some_and(|parent| device(parent) == device(path));
    let in_memory = || rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == TMPFS);
    is_same || in_memory()
}

/// Directories to cover, and sockets in others.
#[derive(Debug, Default)]
struct Found {
    directories: BTreeSet<PathBuf>,
    sockets: BTreeSet<PathBuf>,
}

impl Found {
    /// Sockets in a directory that is everybody's, and directories of sockets there.
    fn look_into(&mut self, shared: &Path) {
        let Ok(entries) = fs::read_dir(shared) else { return };
        for entry in entries.flatten().take(ENTRIES_MAX) {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_socket() {
                self.sockets.insert(path);
            } else if kind.is_dir() {
                let is_named = SOCKET_DIRECTORIES.iter().any(|it| name.starts_with(it));
                if has_sockets_alone(&path).unwrap_or(is_named) {
                    self.directories.insert(path);
                }
            }
        }
    }

    /// A socket, with its directory where that has nothing else.
    fn add_socket(&mut self, path: &Path, shared: &[PathBuf]) {
        let parent = path.parent().filter(|parent| !shared.iter().any(|it| it == parent));
        match parent.filter(|parent| has_sockets_alone(parent) == Some(true)) {
            Some(parent) => self.directories.insert(parent.to_owned()),
            None => self.sockets.insert(path.to_owned()),
        };
    }
}

/// Whether a directory has sockets and nothing else; `None`: it is empty, or cannot be read.
fn has_sockets_alone(directory: &Path) -> Option<bool> {
    let mut is_empty = true;
    for entry in fs::read_dir(directory).ok()?.flatten().take(ENTRIES_MAX) {
        is_empty = false;
        if !entry.file_type().ok()?.is_socket() {
            return Some(false);
        }
    }
    (!is_empty).then_some(true)
}

/// [`DIRECTORIES`] and those of variables, which are there.
fn directories() -> Vec<PathBuf> {
    let home = environment::variable("HOME").map(PathBuf::from);
    let listed = DIRECTORIES.iter().filter_map(|directory| match directory.strip_prefix("~/") {
        Some(rest) => Some(home.as_ref()?.join(rest)),
        None => Some(PathBuf::from(directory)),
    });
    let named = DIRECTORY_VARIABLES.iter().filter_map(|name| environment::variable(name));
    let found = listed.chain(named.map(PathBuf::from)).filter_map(|path| path.canonicalize().ok());
    // A variable that names everything is none of these.
    found.filter(|path| path.is_dir() && path.components().count() > 1).collect()
}

/// Directories for temporary files, in which everything else stays.
fn shared() -> Vec<PathBuf> {
    let named = ["TMPDIR", "TMUX_TMPDIR"].into_iter().filter_map(environment::variable);
    let all = ["/tmp", "/var/tmp"].into_iter().map(PathBuf::from).chain(named.map(PathBuf::from));
    let mut all: Vec<_> = all.filter_map(|path| path.canonicalize().ok()).collect();
    all.sort();
    all.dedup();
    all
}

/// The sockets that any variable names, by its path or within an address of a bus, a URL or a list.
fn named_by_variables() -> Vec<PathBuf> {
    let values = environment::variables().into_iter();
    let paths =
        values.flat_map(|(_, value)| paths_in(&value)).filter_map(|path| path.canonicalize().ok());
    paths
        .filter(|path| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()))
        .collect()
}

/// What may be paths in a value: each part that begins with a slash. Addresses of D-Bus and URLs
/// have bytes as `%2d`.
fn paths_in(value: &str) -> Vec<PathBuf> {
    let parts = value.split([';', ',', ':', '=', '?', '#', '&', ' ', '\n', '"', '\'']);
    let parts = parts.filter(|part| part.starts_with('/')).flat_map(|part| {
        let plain = part.trim_start_matches("//").trim_end_matches('/');
        let plain = format!("/{}", plain.trim_start_matches('/'));
        let decoded = percent_decode_str(&plain).decode_utf8_lossy().into_owned();
        [plain, decoded]
    });
    // A name may have what separates others.
    let whole = value.starts_with('/').then(|| value.to_owned());
    let paths: BTreeSet<_> = parts.chain(whole).map(PathBuf::from).collect();
    paths.into_iter().collect()
}

/// Those that are below no other.
fn outermost(directories: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    // Sorted: one that is above another comes before it.
    for directory in directories {
        if !all.iter().any(|it| directory.starts_with(it)) {
            all.push(directory.clone());
        }
    }
    all
}

fn canonical(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
}

/// Makes what something can be mounted over.
fn make_target(source: &Path, target: &Path) -> io::Result<()> {
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    if source.is_dir() {
        return fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(target, "")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn paths_are_found_in_what_variables_have() {
        for (value, expected) in [
            ("/tmp/ssh-a/agent.7", vec!["/tmp/ssh-a/agent.7"]),
            ("unix:///run/podman/podman.sock", vec!["/run/podman/podman.sock"]),
            ("unix:path=/a/bus,guid=7;unix:path=/b/bus", vec!["/a/bus", "/b/bus"]),
            ("unix:path=/a/b%2dus", vec!["/a/b%2dus", "/a/b-us"]),
            (
                "/tmp/tmux-1000/default,77,0",
                vec!["/tmp/tmux-1000/default", "/tmp/tmux-1000/default,77,0"],
            ),
            (
                "/home/a/.gnupg/S.gpg-agent:77:1",
                vec!["/home/a/.gnupg/S.gpg-agent", "/home/a/.gnupg/S.gpg-agent:77:1"],
            ),
            ("qemu+unix:///system?socket=/a/libvirt-sock", vec!["/a/libvirt-sock", "/system"]),
            ("local/host:@/tmp/.ICE-unix/7,unix/host:/tmp/.ICE-unix/7", vec!["/tmp/.ICE-unix/7"]),
            ("wayland-0", vec![]),
            ("/usr/bin:/bin", vec!["/bin", "/usr/bin", "/usr/bin:/bin"]),
        ] {
            let found: BTreeSet<_> = paths_in(value).into_iter().collect();
            let expected: BTreeSet<_> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn a_cover_has_what_there_is_but_sockets_and_directories_for_them() {
        let all = tempfile::tempdir().unwrap();
        let (from, to) = (all.path().join("from"), all.path().join("to"));
        for directory in ["empty", "files", "mixed", "mixed/files", "docker", "kept"] {
            fs::create_dir_all(from.join(directory)).unwrap();
        }
        fs::create_dir(&to).unwrap();
        for file in ["file", "files/file", "mixed/file", "mixed/files/file", "docker/file"] {
            fs::write(from.join(file), "").unwrap();
        }
        symlink("file", from.join("link")).unwrap();
        let sockets = ["sock", "mixed/sock", "kept/sock", "kept/other"].map(|it| from.join(it));
        let _listeners = sockets.clone().map(|it| UnixListener::bind(it).unwrap());
        let mut cover = Cover {
            sockets: &sockets[2..3],
            directories: &[],
            binds: Vec::new(),
            left: ENTRIES_MAX,
        };
        cover.fill(&from, &to, DEPTH_MAX);
        let mut bound: Vec<_> =
            cover.binds.iter().map(|it| it.target.strip_prefix(&to).unwrap()).collect();
        bound.sort();
        let expected = ["docker/file", "file", "files", "kept/sock", "mixed/file", "mixed/files"];
        assert_eq!(bound, expected.map(Path::new));
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("file"));
        assert_eq!(fs::read_dir(to.join("empty")).unwrap().count(), 0);
        for absent in ["sock", "mixed/sock", "kept/other"] {
            assert!(to.join(absent).symlink_metadata().is_err(), "{absent}");
        }
    }

    #[test]
    fn directories_of_sockets_are_covered_and_others_stay() {
        let all = tempfile::tempdir().unwrap();
        for directory in ["ssh-7", "agents", "work", "empty", "tmux-0"] {
            fs::create_dir(all.path().join(directory)).unwrap();
        }
        fs::write(all.path().join("work/file"), "").unwrap();
        let sockets = ["sock", "agents/a", "work/sock"].map(|it| all.path().join(it));
        let _listeners = sockets.clone().map(|it| UnixListener::bind(it).unwrap());
        let mut found = Found::default();
        found.look_into(all.path());
        found.add_socket(&sockets[2], &[all.path().to_owned()]);
        let directories = ["agents", "ssh-7", "tmux-0"].map(|it| all.path().join(it));
        assert_eq!(found.directories, directories.into());
        assert_eq!(found.sockets, [sockets[0].clone(), sockets[2].clone()].into());
    }

    #[test]
    fn one_below_another_has_no_cover_of_its_own() {
        let all = ["/run", "/run/user/7", "/runner", "/tmp/a"].map(PathBuf::from).into();
        assert_eq!(outermost(&all), ["/run", "/runner", "/tmp/a"].map(PathBuf::from));
    }
}
