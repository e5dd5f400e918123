//! Connections of the command that were refused: the kernel answers a connection to a port without
//! a listener with a reset, and UDP with an ICMP error. Both pass loopback, where a packet socket
//! sees them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use socket2::SockFilter;

use crate::audit::{self, AgentSource, Event, Profile, Reason, Record};
use crate::cli::ephemeral_proxy::Recorder;
use crate::name_server::VirtualAddresses;
use crate::policy::profile::ProfileName;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// Destinations that are counted each; more are counted together.
const DESTINATIONS_MAX: usize = 100;

/// Bytes of a packet that are read: its headers, and those of a packet within.
const PACKET_BYTES: u32 = 128;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// Opcodes of a socket filter (bpf, Documentation/networking/filter.rst): load a byte, load the
/// length of the IPv4 header, load a byte after it, compare, test bits, return.
const LOAD: u16 = 0x30;
const LOAD_HEADER_LENGTH: u16 = 0xb1;
const LOAD_AFTER_HEADER: u16 = 0x50;
const EQUALS: u16 = 0x15;
const HAS_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// The flag RST (RFC 9293 §3.1).
const RESET: u32 = 4;

/// ICMP, and TCP with RST.
pub const FILTER_V4: &[SockFilter] = &[
    SockFilter::new(LOAD, 0, 0, 9),
    SockFilter::new(EQUALS, 4, 0, ICMP as u32),
    SockFilter::new(EQUALS, 0, 4, TCP as u32),
    SockFilter::new(LOAD_HEADER_LENGTH, 0, 0, 0),
    SockFilter::new(LOAD_AFTER_HEADER, 0, 0, 13),
    SockFilter::new(HAS_BITS, 0, 1, RESET),
    SockFilter::new(RETURN, 0, 0, PACKET_BYTES),
    SockFilter::new(RETURN, 0, 0, 0),
];

/// The same for IPv6, without extension headers, which the kernel's own packets have not.
pub const FILTER_V6: &[SockFilter] = &[
    SockFilter::new(LOAD, 0, 0, 6),
    SockFilter::new(EQUALS, 3, 0, ICMP_V6 as u32),
    SockFilter::new(EQUALS, 0, 3, TCP as u32),
    SockFilter::new(LOAD, 0, 0, 53),
    SockFilter::new(HAS_BITS, 0, 1, RESET),
    SockFilter::new(RETURN, 0, 0, PACKET_BYTES),
    SockFilter::new(RETURN, 0, 0, 0),
];

/// The destinations that were refused, each with how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RefusedConnections {
    /// By name (or address) and port, as in `example.com:22` and `8.8.8.8:53/udp`.
    pub destinations: BTreeMap<String, u64>,
    /// Of further destinations.
    pub more: u64,
}

/// What a sealed run adds to the summary.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    pub refused: RefusedConnections,
    /// Connections to services of `--reach`.
    pub relayed: u64,
}

impl RefusedConnections {
    /// Counts the packets that wait in `sockets`, which do not block.
    pub fn read(&mut self, sockets: &[OwnedFd], virtual_addresses: &VirtualAddresses) {
        let mut buffer = [0; PACKET_BYTES as usize];
        for socket in sockets {
            // An error is that nothing waits.
            while let Ok(count) = rustix::io::read(socket, &mut buffer) {
                if let Some((destination, is_udp)) = refused(&buffer[..count]) {
                    self.note(destination, is_udp, virtual_addresses);
                }
            }
        }
    }

    /// Counts one attempt.
    pub fn note(
        &mut self,
        destination: SocketAddr,
        is_udp: bool,
        virtual_addresses: &VirtualAddresses,
    ) {
        let port = destination.port();
        let name = virtual_addresses.name_of(destination.ip());
        let shown = name.map_or_else(|| destination.to_string(), |name| format!("{name}:{port}"));
        let shown = if is_udp { shown + "/udp" } else { shown };
        let is_known = self.destinations.contains_key(&shown);
        if is_known || self.destinations.len() < DESTINATIONS_MAX {
            *self.destinations.entry(shown).or_default() += 1;
        } else {
            self.more += 1;
        }
    }

    /// Waits until packets wait in one of `sockets`.
    pub async fn readable(sockets: &[tokio::io::unix::AsyncFd<OwnedFd>]) -> io::Result<()> {
        std::future::poll_fn(|cx| {
            for socket in sockets {
                if let std::task::Poll::Ready(ready) = socket.poll_read_ready(cx) {
                    return std::task::Poll::Ready(ready.map(|mut ready| ready.clear_ready()));
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The destination that a packet says was refused, and whether by UDP.
fn refused(packet: &[u8]) -> Option<(SocketAddr, bool)> {
    let (protocol, source, _, payload) = parts(packet)?;
    match protocol {
        // A reset in answer to the first packet of a connection has no sequence number of its own
        // (RFC 9293 §3.10.7.1).
        TCP if payload.get(4..8)? == [0; 4] && payload.get(13)? & 4 != 0 => {
            Some((SocketAddr::new(source, port(payload, 0)?), false))
        }
        // Port unreachable, with the packet that it is about (RFC 792, RFC 4443 §3.1).
        ICMP if payload.get(..2)? == [3, 3] => within(payload),
        ICMP_V6 if payload.get(..2)? == [1, 4] => within(payload),
        _ => None,
    }
}

/// The destination of the UDP packet within an ICMP error.
fn within(payload: &[u8]) -> Option<(SocketAddr, bool)> {
    let (protocol, _, destination, inner) = parts(payload.get(8..)?)?;
    (protocol == UDP).then_some((SocketAddr::new(destination, port(inner, 2)?), true))
}

/// Protocol, source, destination and payload of an IP packet.
fn parts(packet: &[u8]) -> Option<(u8, IpAddr, IpAddr, &[u8])> {
    let v4 = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let v6 = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let first = *packet.first()?;
    match first >> 4 {
        4 => {
            let payload = packet.get(usize::from(first & 0xf) * 4..)?;
            Some((*packet.get(9)?, v4(12)?, v4(16)?, payload))
        }
        6 => Some((*packet.get(6)?, v6(8)?, v6(24)?, packet.get(40..)?)),
        _ => None,
    }
}

fn port(header: &[u8], at: usize) -> Option<u16> {
    let bytes: [u8; 2] = header.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(bytes))
}

/// Writes the records of relayed connections.
#[derive(Clone, Debug)]
pub struct RelayRecords {
    recorder: Recorder,
    profile: ProfileName,
}

impl RelayRecords {
    /// With the profile of the settings, which every record names.
    pub const fn new(recorder: Recorder, profile: ProfileName) -> Self {
        Self { recorder, profile }
    }

    /// Records a connection to `service`; whether it may go on.
    pub async fn record(&self, service: &ServiceName<'_>, client: IpAddr) -> bool {
        let now = SystemClock.wall();
        self.recorder.record(record(service, client, self.profile, now)).await
    }
}

/// A service, as records name it.
#[derive(Clone, Copy, Debug)]
pub enum ServiceName<'a> {
    /// Host and port.
    Tcp(&'a str, u16),
    /// The path of a Unix socket.
    Unix(&'a str),
}

/// The address of the client where the connection has none.
pub const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn record(
    service: &ServiceName<'_>,
    client: IpAddr,
    profile: ProfileName,
    now: Timestamp,
) -> Record {
    let (origin, url) = match service {
        // As in the target of a CONNECT.
        ServiceName::Tcp(host, port) => (format!("tcp://{host}:{port}"), format!("{host}:{port}")),
        ServiceName::Unix(path) => (format!("unix:{path}"), format!("unix:{path}")),
    };
    Record {
        agent: None,
        agent_source: AgentSource::Absent,
        client: audit::Client::at(client.to_canonical(), None),
        event: Event::Tunnelled,
        exemption: None,
        group: None,
        id: audit::new_id(now),
        method: "CONNECT".into(),
        node: None,
        origin: Record::url(origin.as_bytes()),
        pace_seen: None,
        path_seen: false,
        prev: String::new(),
        profile: Profile::of(&profile.row()),
        reason: Reason::Reach,
        robots: None,
        rule: None,
        seq: 0,
        setting: None,
        sni: None,
        time: now,
        trace_id: None,
        url: Record::url(url.as_bytes()),
        url_as_received: None,
        user_agent: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(source);
        packet.extend(destination);
        packet.extend(payload);
        packet
    }

    fn reset(port: u16, sequence: u8) -> Vec<u8> {
        let mut header = vec![0; 20];
        header[..2].copy_from_slice(&port.to_be_bytes());
        (header[7], header[13]) = (sequence, 0x14);
        header
    }

    #[test]
    fn a_packet_tells_what_was_refused() {
        let (here, there) = ([127, 0, 0, 1], [93, 184, 216, 34]);
        let tcp = v4(TCP, there, here, &reset(22, 0));
        assert_eq!(refused(&tcp), Some(("93.184.216.34:22".parse().unwrap(), false)));
        let open = v4(TCP, there, here, &reset(80, 1));
        assert_eq!(refused(&open), None, "a connection that was open");
        let udp = v4(UDP, here, there, &[0, 9, 1, 187]);
        let icmp = v4(ICMP, there, here, &[&[3, 3, 0, 0, 0, 0, 0, 0][..], &udp].concat());
        assert_eq!(refused(&icmp), Some(("93.184.216.34:443".parse().unwrap(), true)));
        for cut in 0..icmp.len() {
            refused(&icmp[..cut]);
            refused(&tcp[..cut.min(tcp.len())]);
        }
    }

    #[test]
    fn destinations_are_counted_by_name_and_bounded() {
        let virtual_addresses = VirtualAddresses::default();
        let address = virtual_addresses.addresses_of("a.example").0;
        let mut found = RefusedConnections::default();
        for _ in 0..2 {
            found.note((address, 22).into(), false, &virtual_addresses);
        }
        for port in 0..200 {
            found.note((Ipv4Addr::LOCALHOST, port).into(), true, &virtual_addresses);
        }
        assert_eq!(found.destinations["a.example:22"], 2);
        assert_eq!(found.destinations["127.0.0.1:7/udp"], 1);
        assert_eq!((found.destinations.len(), found.more), (DESTINATIONS_MAX, 101));
    }

    #[test]
    fn a_record_names_the_service_and_no_agent() {
        let now = Timestamp::from_millis(0);
        for (service, origin, url) in [
            (ServiceName::Tcp("db.example", 5432), "tcp://db.example:5432", "db.example:5432"),
            (ServiceName::Tcp("[::1]", 80), "tcp://[::1]:80", "[::1]:80"),
            (ServiceName::Unix("/run/a b.sock"), "unix:/run/a%20b.sock", "unix:/run/a%20b.sock"),
        ] {
            let made = record(&service, NO_ADDRESS, ProfileName::Rfc9309, now);
            assert_eq!((made.origin.as_str(), made.url.as_str()), (origin, url));
            assert_eq!((made.event, made.reason), (Event::Tunnelled, Reason::Reach));
            assert!(made.agent.is_none() && !made.path_seen);
        }
    }
}
