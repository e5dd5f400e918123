//! Inherited descriptors that lead out: by a socket the command would reach what its parent was
//! connected with, by a directory the mounts of the machine, by a namespace or process another one, by a
//! file of the kernel the memory of a process or a setting of the machine.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::{fs, io};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Kinds without a file that stay: they reach nothing by themselves.
const HARMLESS: [&str; 6] = [
    "pipe:[",
    "anon_inode:[eventfd",
    "anon_inode:[eventpoll]",
    "anon_inode:[timerfd]",
    "anon_inode:[signalfd]",
    "anon_inode:inotify",
];

/// Devices that stay: sinks, sources of bytes, terminals. By others a network, a disk or the memory of
/// the machine is reached.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/pts/",
    "/dev/console",
];

/// File systems of which each file is the kernel's (statfs(2)): /proc, /sys, control groups (two),
/// debugfs, tracefs, securityfs, bpf, configfs.
const KERNELS: [u64; 9] = [
    0x9fa0,
    0x6265_6572,
    0x27_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xcafe_4a11,
    0x6265_6570,
];

/// Closes those beside standard input, output and error, of which files, pipes and terminals stay.
pub fn close_those_that_lead_out() -> io::Result<()> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
        // The directory that is read here is closed by then.
        let Some(number) = number.filter(|number| *number > 2) else { continue };
        numbers.push((number, path));
    }
    for (number, path) in numbers {
        let Ok(target) = fs::read_link(&path) else { continue };
        if !stays(&target.to_string_lossy(), &path) {
            nix::unistd::close(number)?;
        }
    }
    Ok(())
}

/// Whether what `target` names may stay; `path` leads to it.
fn stays(target: &str, path: &Path) -> bool {
    if !target.starts_with('/') {
        return HARMLESS.iter().any(|kind| target.starts_with(kind));
    }
    // What has been deleted is still there by its descriptor.
    let Ok(kind) = fs::metadata(path).map(|found| found.file_type()) else { return false };
    let is_below_dev = target.starts_with("/dev/") && !target.starts_with("/dev/shm/");
    if is_below_dev || kind.is_char_device() {
        return DEVICES.iter().any(|device| target.starts_with(device));
    }
    (kind.is_file() || kind.is_fifo()) && !is_kernels(path)
}

/// Whether what `path` leads to is a file of the kernel.
fn is_kernels(path: &Path) -> bool {
    rustix::fs::statfs(path).map_or(true, |found| KERNELS.contains(&(found.f_type as u64)))
}

/// Puts /dev/null in the place of standard input, output or error that is a file of the kernel. Others
/// stay, sockets too: a service manager gives them.
pub fn replace_standard_of_the_kernel() -> io::Result<()> {
    for number in 0..=2 {
        let path = format!("/proc/self/fd/{number}");
        let is_file = fs::metadata(&path).is_ok_and(|found| found.is_file());
        if is_file && is_kernels(Path::new(&path)) {
            let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
            match number {
                0 => rustix::stdio::dup2_stdin(null)?,
                1 => rustix::stdio::dup2_stdout(null)?,
                _ => rustix::stdio::dup2_stderr(null)?,
            }
        }
    }
    Ok(())
}

/// What the first process of the namespace of processes needs: mounts, the network, and to give up
/// the rest.
const NEEDED: [CapabilitySet; 5] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::SETPCAP,
];

/// Lets a program that this process executes have the rights over the namespaces: an ordinary user
/// would lose them (capabilities(7), ambient).
pub fn keep_over_exec() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable = NEEDED.into_iter().collect();
    set_capabilities(None, sets)?;
    for capability in NEEDED {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Gives up all rights over the namespaces, so that neither this process nor what it starts can
/// change them.
pub fn give_up() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // EINVAL: an older kernel does not know it.
        match remove_capability_from_bounding_set(capability) {
            Err(error) if error != rustix::io::Errno::INVAL => return Err(error.into()),
            _ => {}
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    Ok(())
}

// Namespaces of its own for this process (namespaces(7)): users, network, mounts, IPC and host
// name.

/// Moves this process, which has one thread, into new namespaces, and its children into one of
/// processes if `processes`. User and group stay what they are
/// (user_namespaces(7)); the rights over the namespaces last until a program is executed.
///
/// # Errors
///
/// The step that the system refuses, as text.
pub fn enter_namespaces(processes: bool) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_pipes_stay_and_what_leads_out_does_not() {
        let (file, directory) = (Path::new("/etc/passwd"), Path::new("/etc"));
        for (target, path, expected) in [
            ("/etc/passwd", file, true),
            ("pipe:[7]", file, true),
            ("anon_inode:[eventfd]", file, true),
            ("/etc", directory, false),
            ("socket:[7]", file, false),
            ("net:[7]", file, false),
            ("mnt:[7]", file, false),
            ("pidfd:[7]", file, false),
            ("anon_inode:[pidfd]", file, false),
            ("anon_inode:[io_uring]", file, false),
            ("anon_inode:bpf-map", file, false),
            ("/dev/net/tun", file, false),
            ("/none", Path::new("/none"), false),
            ("/dev/null", Path::new("/dev/null"), true),
            ("/dev/kmsg", Path::new("/dev/null"), false),
            ("/proc/7/mem", Path::new("/proc/self/mem"), false),
            ("/elsewhere/7/mem", Path::new("/proc/self/mem"), false),
            ("/proc/sys/kernel/core_pattern", Path::new("/proc/sys/kernel/core_pattern"), false),
            ("/sys/kernel/uevent_seqnum", Path::new("/sys/kernel/uevent_seqnum"), false),
        ] {
            assert_eq!(stays(target, path), expected, "{target}");
        }
    }
}
