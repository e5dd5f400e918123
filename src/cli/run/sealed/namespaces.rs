//! Namespaces of its own for this process (namespaces(7)): users, network, mounts, IPC and host
//! name.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};

/// Moves this process, which has one thread, into new namespaces, and its children into one of
/// processes if `processes`. User and group stay what they are
/// (user_namespaces(7)); the rights over the namespaces last until a program is executed.
///
/// # Errors
///
/// The step that the system refuses, as text.
pub fn enter(processes: bool) -> Result<(), String> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    let flags = if processes { flags | CloneFlags::CLONE_NEWPID } else { flags };
    unshare(flags).map_err(|error| format!("namespaces: {}", io::Error::from(error)))?;
    write("setgroups", "deny")?;
    write("uid_map", &format!("{user} {user} 1"))?;
    write("gid_map", &format!("{group} {group} 1"))?;
    // What is mounted from here on is seen by no other process.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| format!("mounts: {error}"))
}

fn write(file: &str, text: &str) -> Result<(), String> {
    fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))
}

/// Why the system refuses namespaces, and what helps; by the settings that are known to.
pub fn why_refused() -> &'static str {
    let is =
        |file: &str, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    if is("/proc/sys/user/max_user_namespaces", "0") {
        "user.max_user_namespaces is 0: set it to a thousand or more (sysctl)"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone is 0: set it to 1 (sysctl)"
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1): \
         allow them for this program with a profile"
    } else {
        "a seccomp filter refuses it, as in most containers: allow unshare and mount there \
         (--security-opt), or let the network redirect the crawler (courtesy redirect)"
    }
}
