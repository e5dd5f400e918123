//! Finds TCP connections of the command's processes that bypass the proxy, while the command runs.
//! Best effort: connections that end between two samples are missed, and so is a process that has
//! left the command's tree.

mod table;
mod tree;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tracing::warn;

use crate::runtime::clock::monotonic;

/// Connections of a command's own, each program and address once, that the summary of its run names.
const OWN_CONNECTIONS_NAMED_MAX: usize = 5;

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
#[derive(Debug)]
pub struct Watch {
    root: u32,
    /// The connections that were judged, by the inode of their socket.
    known: HashSet<u64>,
    pub found: DirectConnections,
    interval: Duration,
    cost: Duration,
}

impl Watch {
    /// The command's first process is `root`.
    pub fn new(root: u32) -> Self {
        let (known, found) = <(HashSet<_>, DirectConnections)>::default();
        Self { root, known, found, interval: INTERVAL_FIRST, cost: Duration::ZERO }
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
        let mut sockets = tree::sockets(self.root);
        sockets.retain(|inode, _| !self.known.contains(inode));
        if !sockets.is_empty() {
            for connection in table::connections(self.root) {
                if let Some(process) = sockets.get(&connection.inode) {
                    self.known.insert(connection.inode);
                    if connection.is_direct() {
                        self.note(tree::program(*process), connection.peer);
                    }
                }
            }
        }
        self.cost = begun.elapsed();
    }

    fn note(&mut self, program: String, address: SocketAddr) {
        self.found.count += 1;
        let named = Named { program, address };
        if self.found.named.len() < OWN_CONNECTIONS_NAMED_MAX && !self.found.named.contains(&named)
        {
            warn!(
                program = named.program,
                address = %named.address,
                "the command has a connection of its own, which does not come by the proxy"
            );
            self.found.named.push(named);
        }
    }
}
