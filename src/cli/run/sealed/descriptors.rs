//! Inherited descriptors that lead out: by a socket the command would reach what its parent was
//! connected with, by a directory the mounts of the machine, by a namespace or process another one.

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

/// Devices that are networks.
const NETWORK_DEVICES: [&str; 3] = ["/dev/net/", "/dev/vhost-", "/dev/vsock"];

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
    let is_network = NETWORK_DEVICES.iter().any(|device| target.starts_with(device));
    // What has been deleted is still there by its descriptor.
    let kind = fs::metadata(path).map(|found| found.file_type());
    !is_network && kind.is_ok_and(|kind| !kind.is_dir() && !kind.is_socket())
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
        ] {
            assert_eq!(stays(target, path), expected, "{target}");
        }
    }
}
