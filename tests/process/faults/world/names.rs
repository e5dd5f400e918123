//! A name server in which a name says what is answered for it: `0a000001.names.test` has the address
//! 10.0.0.1. Its labels are addresses in hexadecimal, words of [`Word`], and others that mean nothing.
//! Whatever it says may be kept for no time at all (RFC 1035 §3.2.1: a TTL of 0). With the label `slow` it
//! takes [`SLOW`].

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

/// How long a slow answer takes.
pub const SLOW: Duration = Duration::from_millis(400);

/// What all names end in.
pub const ZONE: &str = "names.test";

/// Bytes of an answer by UDP (RFC 1035 §4.2.1).
const UDP_BYTES_MAX: usize = 512;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// The name of these addresses, with words and other labels before them.
pub fn name(labels: &[&str], addresses: &[&str]) -> String {
    let addresses = addresses.iter().map(|address| match address.parse().expect("an address") {
        IpAddr::V4(v4) => format!("{:08x}", v4.to_bits()),
        IpAddr::V6(v6) => format!("{:032x}", v6.to_bits()),
    });
    let labels = labels.iter().map(|label| (*label).to_owned());
    labels.chain(addresses).chain([ZONE.to_owned()]).collect::<Vec<_>>().join(".")
}

/// The server; it lasts as long as the process.
#[derive(Clone, Default)]
pub struct Names {
    /// How often each name and type was asked for.
    asked: Arc<Mutex<HashMap<(String, u16), usize>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Udp,
    Tcp,
}

struct Question {
    name: String,
    kind: u16,
    /// The question as it came, to be repeated.
    bytes: Vec<u8>,
}

/// What is said to a question.
#[derive(Default)]
struct Reply {
    code: u8,
    truncated: bool,
    records: Vec<Record>,
}

/// Owner, type and data of a resource record.
type Record = (String, u16, Vec<u8>);

impl Names {
    pub fn start() -> Self {
        let names = Self::default();
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).expect("a port of this world");
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 53)).expect("a port of this world");
        let (by_udp, by_tcp) = (names.clone(), names.clone());
        thread::spawn(move || by_udp.serve_udp(&udp));
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let names = by_tcp.clone();
                thread::spawn(move || names.serve_tcp(stream));
            }
        });
        names
    }

    /// How often `name` was asked for, in whatever type.
    pub fn asked(&self, name: &str) -> usize {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        [A, AAAA].into_iter().filter_map(|kind| asked.get(&(name.to_owned(), kind))).sum()
    }

    fn serve_udp(&self, socket: &UdpSocket) {
        let mut bytes = [0; UDP_BYTES_MAX];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let Some(answer) = self.answer(&bytes[..length], Over::Udp) else { continue };
            if !is_slow(&bytes[..length]) {
                let _ = socket.send_to(&answer, from);
                continue;
            }
            let socket = socket.try_clone().expect("a descriptor");
            thread::spawn(move || {
                let begun = monotonic();
                while begun.elapsed() < SLOW {
                    thread::park_timeout(SLOW);
                }
                let _ = socket.send_to(&answer, from);
            });
        }
    }

    fn serve_tcp(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut bytes = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut bytes)?;
            let Some(answer) = self.answer(&bytes, Over::Tcp) else { return Ok(()) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes(), answer.as_slice()].concat())?;
        }
        Ok(())
    }

    fn answer(&self, bytes: &[u8], over: Over) -> Option<Vec<u8>> {
        let question = Question::read(bytes)?;
        let times = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let times = asked.entry((question.name.clone(), question.kind)).or_default();
            *times += 1;
            *times
        };
        let reply = question.reply(times, over)?;
        let whole = reply.message(&bytes[..2], &question);
        if over == Over::Udp && whole.len() > UDP_BYTES_MAX {
            return Some(
                Reply { truncated: true, ..Reply::default() }.message(&bytes[..2], &question),
            );
        }
        Some(whole)
    }
}

/// Whether a question has the label `slow`.
fn is_slow(bytes: &[u8]) -> bool {
    Question::read(bytes).is_some_and(|question| question.name.split('.').any(|it| it == "slow"))
}

impl Question {
    /// The only question of a message (RFC 1035 §4.1).
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut labels = Vec::new();
        let mut at = 12;
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(bytes.get(at..at + length)?).to_ascii_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
        Some(Self { name: labels.join("."), kind, bytes: bytes.get(12..at + 4)?.to_vec() })
    }

    /// What is said when it is asked for this time; nothing where there is to be silence.
    fn reply(&self, times: usize, over: Over) -> Option<Reply> {
        let coded = |code| Some(Reply { code, ..Reply::default() });
        let Some(labels) = self.name.strip_suffix(ZONE) else { return coded(NXDOMAIN) };
        let has = |word: &str| labels.split('.').any(|label| label == word);
        if has("silent") {
            return None;
        }
        if has("servfail") {
            return coded(SERVFAIL);
        }
        if has("truncated") && over == Over::Udp {
            return Some(Reply { truncated: true, ..Reply::default() });
        }
        let mut addresses: Vec<IpAddr> = labels.split('.').filter_map(address).collect();
        if addresses.is_empty() {
            return coded(NXDOMAIN);
        }
        addresses
            .retain(|address| if address.is_ipv4() { self.kind == A } else { self.kind == AAAA });
        if has("rebinding") && !addresses.is_empty() {
            addresses = vec![addresses[(times - 1).min(addresses.len() - 1)]];
        }
        if has("thousand") {
            addresses = addresses
                .into_iter()
                .flat_map(|first| (0..1000).map(move |n| after(first, n)))
                .collect();
        }
        let (owner, mut records) = aliases(&self.name);
        records.extend(addresses.into_iter().map(|address| match address {
            IpAddr::V4(v4) => (owner.clone(), A, v4.octets().to_vec()),
            IpAddr::V6(v6) => (owner.clone(), AAAA, v6.octets().to_vec()),
        }));
        Some(Reply { records, ..Reply::default() })
    }
}

/// An address that a label is.
fn address(label: &str) -> Option<IpAddr> {
    match label.len() {
        8 => u32::from_str_radix(label, 16).ok().map(|bits| Ipv4Addr::from_bits(bits).into()),
        32 => u128::from_str_radix(label, 16).ok().map(|bits| Ipv6Addr::from_bits(bits).into()),
        _ => None,
    }
}

/// The address so many places after another.
fn after(address: IpAddr, places: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() + places).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() + u128::from(places)).into(),
    }
}

/// A name that begins with `alias20` is another one for `alias19` …: what the last of them is, and the
/// whole way there, as a resolver tells it.
fn aliases(name: &str) -> (String, Vec<Record>) {
    let (mut owner, mut records) = (name.to_owned(), Vec::new());
    while let Some((alias, rest)) = owner.split_once('.') {
        let Some(left) = alias.strip_prefix("alias").and_then(|count| count.parse::<u32>().ok())
        else {
            break;
        };
        let target = if left > 1 { format!("alias{}.{rest}", left - 1) } else { rest.to_owned() };
        records.push((owner, CNAME, encoded(&target)));
        owner = target;
    }
    (owner, records)
}

/// A name in a message (RFC 1035 §3.1).
fn encoded(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("a label of at most 63 bytes"));
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

impl Reply {
    fn message(&self, id: &[u8], question: &Question) -> Vec<u8> {
        let mut bytes = id.to_vec();
        // A response, recursion desired and available (RFC 1035 §4.1.1).
        bytes.extend([0x81 | u8::from(self.truncated) << 1, 0x80 | self.code]);
        let count = u16::try_from(self.records.len()).expect("a few records");
        bytes.extend([1, count, 0, 0].into_iter().flat_map(u16::to_be_bytes));
        bytes.extend(&question.bytes);
        for (owner, kind, data) in &self.records {
            bytes.extend(encoded(owner));
            bytes.extend([*kind, 1, 0, 0].into_iter().flat_map(u16::to_be_bytes));
            bytes.extend(u16::try_from(data.len()).expect("a short record").to_be_bytes());
            bytes.extend(data);
        }
        bytes
    }
}
