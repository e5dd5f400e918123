//! The TCP connections of a network, as `/proc/PID/net/tcp` and `tcp6` list them (proc(5)).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

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
}
