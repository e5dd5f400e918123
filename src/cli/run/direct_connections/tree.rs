//! The processes of a command, and their sockets, as `/proc` shows them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::types::sanitize::text;

/// Processes of a command, and threads of each, at whose sockets `courtesy run` looks.
const RUN_PROCESSES_LOOKED_AT_MAX: usize = 256;

/// Descriptors of all of them that one look reads.
const RUN_DESCRIPTORS_LOOKED_AT_MAX: usize = 16 * 1024;

/// The longest name of a program that is shown: the system keeps 15 bytes of it.
const PROGRAM_NAME_BYTES_MAX: usize = 16;

/// The inodes of the sockets that `root` and its descendants have open, each with the first process
/// that has it.
pub fn sockets(root: u32) -> HashMap<u64, u32> {
    let (mut sockets, mut left) = (HashMap::new(), RUN_DESCRIPTORS_LOOKED_AT_MAX);
    for process in processes(root) {
        // Of a process that has ended, or is another user's, nothing can be seen.
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
        for descriptor in descriptors.flatten().take(left) {
            left -= 1;
            if let Some(inode) = fs::read_link(descriptor.path()).ok().as_deref().and_then(inode) {
                sockets.entry(inode).or_insert(process);
            }
        }
    }
    sockets
}

/// The name of the program that a process runs.
pub fn program(process: u32) -> String {
    let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    text(name.trim_ascii_end(), PROGRAM_NAME_BYTES_MAX)
}

fn processes(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        for child in children(process) {
            if found.len() < RUN_PROCESSES_LOOKED_AT_MAX && !found.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// The system tells them for each thread that has begun some.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    let lists = threads.take(RUN_PROCESSES_LOOKED_AT_MAX).filter_map(of_thread);
    lists
        .flat_map(|list| list.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Of `socket:[4026]`.
fn inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_sockets_of_descendants_are_found() {
        // The shell holds the socket and hands it to its own child.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = sockets(std::process::id());
        assert!(!own.is_empty());
        drop(listener);
        let mut shell =
            Command::new("sh").args(["-c", "sleep 60; :"]).stdin(Stdio::null()).spawn().unwrap();
        let found = std::iter::repeat_with(|| processes(shell.id()))
            .take(100_000)
            .find(|found| found.len() == 2);
        let found = found.unwrap();
        assert!(processes(std::process::id()).contains(&found[1]));
        assert!(["sleep", "sh"].contains(&program(found[1]).as_str()));
        Command::new("kill").args(found.iter().map(ToString::to_string)).status().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn only_sockets_have_an_inode_here() {
        assert_eq!(inode(Path::new("socket:[4026]")), Some(4026));
        for other in ["pipe:[7]", "/dev/null", "socket:[]", "anon_inode:[eventpoll]"] {
            assert_eq!(inode(Path::new(other)), None, "{other}");
        }
    }
}
