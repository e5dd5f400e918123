//! Inherited descriptors that lead out: by a socket the command would reach what its parent was
//! connected with, by a directory the mounts of the machine, by a namespace or process another one, by a
//! file of the kernel the memory of a process or a setting of the machine.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

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
