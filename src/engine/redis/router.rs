//! The nodes, which of them has a key, and the lanes whose holds they push.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use redis::Value;
use tokio::sync::{Notify, mpsc};

use super::call::{Job, Parts};
use super::settings::Address;
use crate::engine::error::{Error, ErrorKind};
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Calls that wait for a node's task. Each is about a kilobyte.
const QUEUE_MAX: usize = 1024;
/// More redirections of one call are a circle.
const REDIRECTS_MAX: u8 = 3;

/// The way to a node's task.
#[derive(Debug)]
pub(super) struct Handle {
    /// None for the one server of the settings.
    pub address: Option<Address>,
    jobs: mpsc::Sender<Job>,
    is_up: Arc<AtomicBool>,
}

/// What the task has of a handle. When all handles are gone there are no more calls.
#[derive(Debug)]
pub(super) struct Inbox {
    pub address: Option<Address>,
    pub jobs: mpsc::Receiver<Job>,
    is_up: Arc<AtomicBool>,
}

/// A call that a node does not take.
#[derive(Debug)]
pub(super) struct Refused {
    pub job: Job,
    pub error: Error,
}

/// The nodes at this moment.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub nodes: Vec<Arc<Handle>>,
    /// The last slot of each range, in order, and its node. A range begins after the one before.
    pub ranges: Vec<(u16, u16, Arc<Handle>)>,
}

/// All nodes, replaced as a whole.
#[derive(Debug, Default)]
pub(super) struct Router {
    map: ArcSwap<Map>,
    /// The map is out of date.
    pub refresh: Notify,
}

impl Handle {
    /// A handle, and what its task has of it.
    pub(super) fn new(address: Option<Address>) -> (Arc<Self>, Inbox) {
        let (jobs, taken) = mpsc::channel(QUEUE_MAX);
        let is_up = Arc::new(AtomicBool::new(false));
        let inbox = Inbox { address: address.clone(), jobs: taken, is_up: Arc::clone(&is_up) };
        (Arc::new(Self { address, jobs, is_up }), inbox)
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// Hands a call to the node's task, if the node can be reached.
    pub(super) fn send(&self, job: Job) -> Result<(), Box<Refused>> {
        let refuse = |job, kind: ErrorKind| Box::new(Refused { job, error: kind.with("not sent") });
        if !self.is_up() {
            return Err(refuse(job, ErrorKind::Broken));
        }
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(job) => refuse(job, ErrorKind::Full),
            mpsc::error::TrySendError::Closed(job) => refuse(job, ErrorKind::Broken),
        })
    }
}

impl Inbox {
    pub(super) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Release);
    }

    /// Replies to those who still wait that the node is away. Returns when no handle is left.
    pub(super) async fn refuse(&mut self) {
        while let Some(job) = self.jobs.recv().await {
            // The caller may have gone.
            let _ = job.reply.send(Err(ErrorKind::Broken.with("not sent")));
        }
    }
}

impl Map {
    /// One node that has all keys.
    pub(super) fn of_one(handle: Arc<Handle>) -> Self {
        Self { nodes: vec![Arc::clone(&handle)], ranges: vec![(0, SLOTS - 1, handle)] }
    }

    pub(super) fn node_at(&self, address: &Address) -> Option<&Arc<Handle>> {
        self.nodes.iter().find(|node| node.address.as_ref() == Some(address))
    }

    fn node_of(&self, key: &[u8]) -> Option<&Arc<Handle>> {
        let slot = if self.ranges.len() > 1 { slot_of(key) } else { 0 };
        let at = self.ranges.partition_point(|(_, last, _)| *last < slot);
        self.ranges.get(at).filter(|(first, ..)| *first <= slot).map(|(.., node)| node)
    }
}

impl Router {
    pub(super) fn map(&self) -> Arc<Map> {
        self.map.load_full()
    }

    pub(super) fn set(&self, map: Map) {
        self.map.store(Arc::new(map));
    }

    /// Whether all nodes can be reached.
    pub(super) fn is_up(&self) -> bool {
        let map = self.map.load();
        !map.nodes.is_empty() && map.nodes.iter().all(|node| node.is_up())
    }

    /// Hands a call to the node that has its keys.
    pub(super) fn send(&self, job: Job) -> Result<(), Error> {
        let map = self.map.load();
        let key = job.call.keys.first().map_or(&[][..], |key| key);
        let Some(node) = map.node_of(key) else {
            // The node that named the others may not have known all of them yet.
            self.refresh.notify_one();
            return Err(ErrorKind::Broken.with("no node has the slot"));
        };
        node.send(job).map_err(|refused| refused.error)
    }

    /// Hands a call to the node that another has named.
    pub(super) fn redirect(&self, mut job: Job, address: &Address, is_asking: bool) {
        job.redirects += 1;
        job.is_asking = is_asking;
        if !is_asking {
            self.refresh.notify_one();
        }
        let map = self.map.load();
        let refused = match map.node_at(address) {
            Some(node) if job.redirects <= REDIRECTS_MAX => node.send(job).err(),
            _ => {
                let error = ErrorKind::Moving.with(format!("to {address}"));
                Some(Box::new(Refused { job, error }))
            }
        };
        if let Some(refused) = refused {
            // The caller may have gone.
            let _ = refused.job.reply.send(Err(refused.error));
        }
    }
}

/// The hash slots of a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: that of its hash tag, if it has one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16 with the polynomial 0x1021, as XMODEM has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// Ranges of slots, each with the address of its primary.
pub(super) type Ranges = Vec<(u16, u16, Address)>;

/// The primaries of `CLUSTER SLOTS`, by the last slot of each range. A node that does not say where
/// it is is at the address that responded.
pub(super) fn ranges(reply: Value, asked: &Address) -> Option<Ranges> {
    let mut parts = Parts::of(reply)?;
    let mut ranges = Vec::new();
    while let Some(range) = parts.value() {
        let mut range = Parts::of(range)?;
        let first = u16::try_from(range.number()?).ok()?;
        let last = u16::try_from(range.number()?).ok().filter(|last| *last < SLOTS)?;
        let mut node = Parts::of(range.value()?)?;
        let host = node.bytes().and_then(|host| String::from_utf8(host).ok());
        let port = u16::try_from(node.number()?).ok()?;
        ranges.push((first, last, node_address(host.as_deref(), port, asked)));
    }
    ranges.sort_by_key(|(first, ..)| *first);
    (!ranges.is_empty()).then_some(ranges)
}

/// The address that a redirection (`MOVED`, `ASK`) names: `host:port`.
pub(super) fn redirected(text: &str, asked: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Some(node_address(Some(host), port.parse().ok()?, asked))
}

fn node_address(host: Option<&str>, port: u16, asked: &Address) -> Address {
    let (own_host, is_tls) = match asked {
        Address::Tcp { host, is_tls, .. } => (host.as_str(), *is_tls),
        Address::Unix(_) => ("127.0.0.1", false),
    };
    let host = host.filter(|host| !host.is_empty() && *host != "?").unwrap_or(own_host);
    Address::Tcp { host: host.to_owned(), port, is_tls }
}

/// The addresses, each once.
pub(super) fn nodes(ranges: &[(u16, u16, Address)]) -> Vec<Address> {
    let mut seen = HashMap::new();
    let new = |address: &&Address| seen.insert((*address).clone(), ()).is_none();
    ranges.iter().map(|(.., address)| address).filter(new).cloned().collect()
}

// The lanes that this proxy uses, whose holds are pushed.

/// Lanes of one command.
const AT_ONCE: usize = 256;
/// Lanes that are followed at a time; further ones are asked about as without a subscription.
const LANES_MAX: usize = 16_384;
/// The lanes whose holds are pushed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    lanes: Lock<HashMap<Vec<u8>, Lane>>,
    /// There are new ones.
    pub has_new: Notify,
}

#[derive(Debug)]
struct Lane {
    origin: Origin,
    used: Instant,
    is_subscribed: bool,
}

impl Followed {
    /// Notes that this proxy sends requests to the origin of this key.
    pub(super) fn note(&self, key: &[u8], origin: &Origin) {
        let now = monotonic();
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.get_mut(key) {
            lane.used = now;
        } else if lanes.len() < LANES_MAX {
            let origin = origin.lane().into_owned();
            lanes.insert(key.to_vec(), Lane { origin, used: now, is_subscribed: false });
            self.has_new.notify_one();
        }
    }

    pub(super) fn origin(&self, key: &[u8]) -> Option<Origin> {
        self.lanes.lock().get(key).map(|lane| lane.origin.clone())
    }

    /// Those that are not subscribed yet, as if they were now.
    pub(super) fn take_new(&self) -> Vec<Vec<u8>> {
        let mut lanes = self.lanes.lock();
        let new = lanes.iter_mut().filter(|(_, lane)| !lane.is_subscribed).take(AT_ONCE);
        new.map(|(key, lane)| {
            lane.is_subscribed = true;
            key.clone()
        })
        .collect()
    }

    /// None is: the connection is new.
    pub(super) fn forget_subscriptions(&self) {
        self.lanes.lock().values_mut().for_each(|lane| lane.is_subscribed = false);
    }

    /// Those that have not been used for so long.
    pub(super) fn take_unused(&self, length: Duration) -> Vec<Vec<u8>> {
        let now = monotonic();
        let is_unused = |_: &Vec<u8>, lane: &mut Lane| now - lane.used > length;
        self.lanes.lock().extract_if(is_unused).map(|(key, _)| key).take(AT_ONCE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    #[test]
    fn a_key_belongs_to_the_node_of_its_slot() {
        let node = |port| {
            let address = Address::Tcp { host: "node".into(), port, is_tls: false };
            Handle::new(Some(address)).0
        };
        let (one, other) = (node(1), node(2));
        let map = Map {
            nodes: vec![Arc::clone(&one), Arc::clone(&other)],
            ranges: vec![(0, 8191, one), (12_182, 16_383, other)],
        };
        let port = |key: &[u8]| map.node_of(key).map(|node| node.address.clone());
        assert_eq!(port(b""), map.nodes[0].address.clone().into());
        assert_eq!(port(b"{foo}x"), map.nodes[1].address.clone().into());
        assert!(map.node_of(b"123456789").is_some(), "slot 12739");
        let gap = (0..1000).map(|number| number.to_string().into_bytes());
        let mut gap = gap.filter(|key| (8192..12_182).contains(&slot_of(key)));
        assert!(map.node_of(&gap.next().unwrap()).is_none(), "no node has the slot");
    }

    #[test]
    fn the_slot_of_a_key_is_what_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As `CLUSTER KEYSLOT` has them.
        let cases: [(&[u8], u16); 4] =
            [(b"foo", 12182), (b"{foo}bar", 12182), (b"a{foo}{bar}", 12182), (b"", 0)];
        for (key, slot) in cases {
            assert_eq!(slot_of(key), slot, "{key:?}");
        }
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS, "an empty tag is none");
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
    }

    #[test]
    fn nodes_that_do_not_say_where_they_are_are_where_they_were_asked() {
        let asked = Address::Tcp { host: "seed".into(), port: 7000, is_tls: true };
        let node = |host: &str, port| Address::Tcp { host: host.into(), port, is_tls: true };
        assert_eq!(redirected("10.0.0.1:7001", &asked), Some(node("10.0.0.1", 7001)));
        assert_eq!(redirected(":7001", &asked), Some(node("seed", 7001)));
        assert_eq!(redirected("fd00::1:7001", &asked), Some(node("fd00::1", 7001)));
        assert_eq!(redirected("nothing", &asked), None);
    }

    #[test]
    fn ranges_are_in_order_and_nonsense_is_refused() {
        let asked = Address::Tcp { host: "seed".into(), port: 7000, is_tls: false };
        let text = b"*2\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nb\r\n:2\r\n\
            *3\r\n:0\r\n:8191\r\n*2\r\n$1\r\na\r\n:1\r\n";
        let ranges = ranges(redis::parse_redis_value(text).unwrap(), &asked).unwrap();
        let node = |host: &str, port| Address::Tcp { host: host.into(), port, is_tls: false };
        assert_eq!(ranges, [(0, 8191, node("a", 1)), (8192, 16383, node("b", 2))]);
        assert_eq!(nodes(&ranges), [node("a", 1), node("b", 2)]);
        for text in
            [&b"*0\r\n"[..], b"+OK\r\n", b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n"]
        {
            assert_eq!(super::ranges(redis::parse_redis_value(text).unwrap(), &asked), None);
        }
    }

    #[test]
    fn lanes_in_use_are_subscribed_once_and_left_when_they_are_not_used() {
        let followed = Followed::default();
        let origin = Origin::from_authority(Scheme::Https, "example.com").unwrap();
        followed.note(b"a", &origin);
        followed.note(b"a", &origin);
        followed.note(b"b", &origin);
        assert_eq!(followed.take_new().len(), 2);
        assert_eq!(followed.take_new().len(), 0);
        followed.forget_subscriptions();
        assert_eq!(followed.take_new().len(), 2);
        assert_eq!(followed.take_unused(Duration::from_mins(1)).len(), 0);
        assert_eq!(followed.take_unused(Duration::ZERO).len(), 2);
        assert_eq!(followed.origin(b"a"), None);
        for number in 0..2 * LANES_MAX {
            followed.note(&number.to_be_bytes(), &origin);
        }
        assert_eq!(followed.lanes.lock().len(), LANES_MAX);
    }
}
