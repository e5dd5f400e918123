//! What the command sees in the place of files and sockets of the machine.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountFlags, mount_bind_recursive, mount_remount};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// A file or directory, and what it is mounted over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub source: PathBuf,
    pub target: PathBuf,
}

/// Makes the mounts in their order, each with those below its source. The current directory is then that of
/// its path: by the one before, what is covered could be reached.
///
/// # Errors
///
/// Of the first that the system refuses, with its target; the current directory is not there any more.
pub fn make(mounts: &[Mount]) -> io::Result<()> {
    for Mount { source, target } in mounts {
        mount_bind_recursive(source, target).map_err(|error| {
            io::Error::other(format!("cannot mount over {}: {error}", target.display()))
        })?;
    }
    protect_kernel()?;
    let Ok(current) = std::env::current_dir() else { return Ok(()) };
    std::env::set_current_dir(&current).map_err(|error| {
        let current = current.display();
        io::Error::other(format!(
            "sockets of services live in {current}, which is covered: {error}"
        ))
    })
}

/// What the kernel offers to root for the whole machine, whatever namespace it is in: settings (one names a
/// program that the kernel starts outside), interrupts, buses, and the keys of sysrq(7).
const KERNEL: [&str; 6] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi"];

/// Makes what root could change outside read-only. Others may not write there, and it is left alone.
fn protect_kernel() -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    for path in KERNEL.map(Path::new).into_iter().filter(|path| path.exists()) {
        mount_bind_recursive(path, path).map_err(|error| named(error.into(), path))?;
    }
    // Each mount below, such as those of control groups, is one of its own.
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for path in mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new) {
        let is_kernels = path.starts_with("/sys") || KERNEL.iter().any(|it| path.starts_with(it));
        if is_kernels && !is_read_only(path)? {
            make_read_only(path).map_err(|error| named(error.into(), path))?;
        }
    }
    Ok(())
}

/// The kernel's log, to which root could write what a service outside passes on: an empty file is over it.
/// On a file system that is read-only a device can be written to all the same. Other users may not.
///
/// # Errors
///
/// The file cannot be made in `dir`.
pub fn kernel_log(dir: &Path) -> io::Result<Option<Mount>> {
    let target = PathBuf::from("/dev/kmsg");
    if !geteuid().is_root() || !target.exists() {
        return Ok(None);
    }
    let source = dir.join("kmsg");
    fs::write(&source, "")?;
    fs::set_permissions(&source, fs::Permissions::from_mode(0o444))?;
    Ok(Some(Mount { source, target }))
}

fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::other(format!("cannot make {} read-only: {error}", path.display()))
}

fn is_read_only(path: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statvfs(path)?.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The mount keeps what else it is: a namespace of users may take none of these from it.
fn make_read_only(path: &Path) -> rustix::io::Result<()> {
    let present = rustix::fs::statvfs(path)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(is, _)| present.contains(*is)).map(|(_, flag)| flag);
    let flags = MountFlags::BIND | MountFlags::RDONLY;
    mount_remount(path, kept.fold(flags, |all, flag| all | flag), "")
}
