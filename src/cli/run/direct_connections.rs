//! Finds TCP connections of the command's processes that bypass the proxy, while the command runs.
//! Best effort: connections that end between two samples are missed, and so is a process that has
//! left the command's tree.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::proxy::RunEvent;
use crate::runtime::clock::monotonic;
use crate::types::sanitize::text;

/// Connections of a command's own, each program and address once, that the summary of its run names.
const OWN_CONNECTIONS_NAMED_MAX: usize = 5;

/// Programs of which the first such connection is said.
const PROGRAMS_TOLD_MAX: usize = 64;

/// Connections of a command that are known to have been looked at; then they are forgotten, and those
/// that are still there counted again.
const SOCKETS_KNOWN_MAX: usize = 64 * 1024;

/// The time before the first sample; it doubles with each sample, up to [`INTERVAL_MAX`].
const INTERVAL_FIRST: Duration = Duration::from_millis(20);
const INTERVAL_MAX: Duration = Duration::from_millis(250);

/// The wait is at least so many times the duration of the last sample: sampling takes at most a
/// fiftieth of a processor.
const REST: u32 = 50;

/// The connections that bypassed the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectConnections {
    /// How many.
    pub count: u64,
    /// The first few, each program and address once.
    pub named: Vec<Named>,
}

/// A connection around the proxy, with the program that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    pub program: String,
    pub address: SocketAddr,
}

/// Follows the processes of one command.
#[derive(Debug, Default)]
pub struct Watch {
    root: u32,
    /// The connections that were judged, by the inode of their socket.
    known: HashSet<u64>,
    pub found: DirectConnections,
    /// Where the first of each program is said, if it is.
    events: Option<SyncSender<RunEvent>>,
    told: HashSet<String>,
    interval: Duration,
    cost: Duration,
}

impl Watch {
    /// Says to `events` what it finds.
    pub fn new(events: Option<SyncSender<RunEvent>>) -> Self {
        Self { events, interval: INTERVAL_FIRST, ..Self::default() }
    }

    /// The command's first process is `root`.
    pub fn of(self, root: u32) -> Self {
        Self { root, ..self }
    }

    /// Waits until the next sample is due.
    pub async fn rest(&self) {
        sleep(self.interval.max(self.cost * REST)).await;
    }

    /// Takes one sample.
    pub fn look(&mut self) {
        let begun = monotonic();
        self.interval = (self.interval * 2).min(INTERVAL_MAX);
        if self.known.len() > SOCKETS_KNOWN_MAX {
            self.known.clear();
        }
        let mut sockets = sockets(self.root);
        sockets.retain(|inode, _| !self.known.contains(inode));
        if !sockets.is_empty() {
            for connection in connections(self.root) {
                if let Some(process) = sockets.get(&connection.inode) {
                    self.known.insert(connection.inode);
                    if connection.is_direct() {
                        self.note(program(*process), *process, connection.peer);
                    }
                }
            }
        }
        self.cost = begun.elapsed();
    }

    fn note(&mut self, program: String, process: u32, address: SocketAddr) {
        self.found.count += 1;
        if let Some(events) = &self.events
            && self.told.len() < PROGRAMS_TOLD_MAX
            && self.told.insert(program.clone())
        {
            let program = program.clone();
            let _ = events.try_send(RunEvent::Bypass { program, process, address });
        }
        let named = Named { program, address };
        if self.found.named.len() < OWN_CONNECTIONS_NAMED_MAX && !self.found.named.contains(&named)
        {
            self.found.named.push(named);
        }
    }
}

/// What one look reads of each table of TCP connections: some 7,000 of them.
const TCP_TABLE_BYTES_MAX: u64 = 1 << 20;

/// Where a connection is being made, is there, or is being closed: not the states of listeners, of
/// connections that no process has any more (TIME_WAIT), and of sockets that are closed.
const STATES: [&str; 7] = ["01", "02", "03", "04", "05", "08", "09"];

/// Names are looked up by TCP, too, where an answer is long; that is no visit.
const DNS_PORT: u16 = 53;

/// A connection, or the attempt at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub peer: SocketAddr,
    /// The inode of its socket.
    pub inode: u64,
}

impl Connection {
    /// Whether it leads to somewhere else than to this machine's services, of which the proxy is one.
    pub fn is_direct(&self) -> bool {
        let ip = self.peer.ip();
        !ip.is_loopback() && !ip.is_unspecified() && self.peer.port() != DNS_PORT
    }
}

/// Those in the network of `process`, as far as they fit into the bound.
pub fn connections(process: u32) -> Vec<Connection> {
    let tables = ["tcp", "tcp6"].map(|name| File::open(format!("/proc/{process}/net/{name}")).ok());
    let lines = tables.into_iter().flatten().flat_map(|file| {
        BufReader::new(file.take(TCP_TABLE_BYTES_MAX)).lines().map_while(Result::ok)
    });
    lines.filter_map(|line| connection(&line)).collect()
}

/// `0: 0100007F:0CEA 0101000A:01BB 01 …`: number, own and other address, state; the tenth is the inode.
fn connection(line: &str) -> Option<Connection> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let (peer, state) = (words.next()?, words.next()?);
    let inode = words.nth(5)?.parse().ok()?;
    let peer = STATES.contains(&state).then(|| address(peer))??;
    Some(Connection { peer, inode })
}

fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of 32 bits, in the order of this machine, of an address in that of the network.
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

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
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_are_read_as_the_system_writes_them() {
        let line = |peer: &str, state: &str| {
            connection(&format!(
                "  12: 0100007F:9C40 {peer} {state} 00000000:00000000 00:00000000 00000000  1000        0 4026 1 0"
            ))
        };
        let found = line("22D8B85D:01BB", "01").unwrap();
        assert_eq!(
            (found.peer.to_string(), found.inode, found.is_direct()),
            ("93.184.216.34:443".into(), 4026, true)
        );
        let v6 = line("B80D0120000000000000000001000000:0050", "02").unwrap();
        assert_eq!(v6.peer.to_string(), "[2001:db8::1]:80");
        let mapped = line("0000000000000000FFFF00000100007F:0050", "01").unwrap();
        assert_eq!((mapped.peer.to_string(), mapped.is_direct()), ("127.0.0.1:80".into(), false));
        assert!(!line("0100000A:0035", "01").unwrap().is_direct(), "a look-up of a name");
        for (peer, state) in
            [("00000000:0000", "0A"), ("22D8B85D:01BB", "06"), ("22D8:01BB", "01"), ("x:y", "01")]
        {
            assert_eq!(line(peer, state), None, "{peer} {state}");
        }
        assert_eq!(
            connection(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
            ),
            None
        );
    }

    #[test]
    fn a_connection_of_this_process_is_in_the_table() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).unwrap();
        // The system's table is read while other processes change it, and may lack a line.
        let is_it =
            |found: &Connection| link.to_str() == Some(&format!("socket:[{}]", found.inode));
        let look = || connections(std::process::id()).into_iter().find(is_it);
        let found = std::iter::repeat_with(look).take(10).find_map(|found| found).unwrap();
        assert_eq!((found.peer, found.is_direct()), (stream.peer_addr().unwrap(), false));
    }

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
