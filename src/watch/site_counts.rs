//! What each agent asked of each site, under which robots.txt, and what became of it: allowed requests
//! leave no record, and the owner of a site asks for them first. The counts are lines of the log, one
//! for each site, agent and file, once an hour and at the end.
//!
//! A request costs a look-up and a few additions. Origins and agents are the clients' to choose, so the
//! rows are bounded, and shared between clients; what has no row of its own is counted in one for all.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use foldhash::fast::RandomState;
use http::StatusCode;

use crate::audit::{CountsEvent, Event, Notice, RobotsStatus, SiteCounts};
use crate::policy::state::RobotsState;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::Origin;
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;

/// Rows of an hour: with the longest names 10 MiB.
const ROWS_MAX: usize = 16_384;

/// Of those, lines in the log, the busiest; the others share one.
const ROWS_WRITTEN_MAX: usize = 4096;

/// Bytes of a product token. A longer one has no row of its own.
const AGENT_BYTES_MAX: usize = 128;

/// Maps with a lock each, so that workers seldom wait for each other.
const SHARDS: usize = 16;

/// The rows of all sites.
pub struct SiteTable {
    hasher: RandomState,
    /// By the hash of the key.
    shards: [Lock<HashMap<u64, Arc<SiteRow>>>; SHARDS],
    owners: Lock<Owners>,
    /// For what has no row of its own.
    rest: Arc<SiteRow>,
}

/// How many rows there are, and for which clients.
#[derive(Default)]
struct Owners {
    rows: usize,
    of_clients: HashMap<ClientKey, usize>,
}

/// The counts of one agent at one site, under one robots.txt.
#[derive(Debug)]
pub struct SiteRow {
    /// `None`: of all that have no row of their own.
    key: Option<OwnedKey>,
    owner: ClientKey,
    /// Whether the log has named the file lately.
    is_file_named: AtomicBool,
    counts: [AtomicU64; COUNTS],
    /// Of those, what the log has.
    written: Lock<[u64; COUNTS]>,
}

#[derive(Debug, PartialEq, Eq)]
struct OwnedKey {
    origin: Origin,
    agent: Option<Box<str>>,
    robots: Option<DecidingRobots>,
}

/// A [`SiteRow`]'s key, borrowed.
#[derive(Clone, Copy, Debug, Hash)]
pub struct SiteKey<'a> {
    pub origin: &'a Origin,
    pub agent: Option<&'a str>,
    /// `None`: it decided nothing.
    pub robots: Option<DecidingRobots>,
}

/// The robots.txt that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecidingRobots {
    /// By its SHA-256.
    File([u8; 32]),
    /// There is none.
    Unavailable,
    Unreachable,
}

/// What is counted.
#[derive(Clone, Copy)]
enum Counted {
    Allowed,
    ByHost,
    Denied,
    WouldDeny,
    Exempted,
    Tunnelled,
    Paced,
    WaitedMs,
    Resting,
    Failed,
    Bytes,
    /// The first of the classes of statuses, of which there are five.
    Statuses,
}

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const COUNTS: usize = Counted::Statuses as usize + CLASSES.len();

/// Counts since the last batch, with their lines. Without [`SiteTable::written`] they are in the next, too.
pub struct SiteBatch {
    pub notices: Vec<Notice>,
    rows: Vec<(Arc<SiteRow>, [u64; COUNTS])>,
}

impl DecidingRobots {
    /// Of a state: the file where there is one, though it may be an earlier copy.
    pub fn of(state: &RobotsState) -> Self {
        match (state, state.copy()) {
            (_, Some(copy)) => Self::File(copy.snapshot.sha256),
            (RobotsState::Unavailable { .. }, None) => Self::Unavailable,
            _ => Self::Unreachable,
        }
    }
}

impl SiteKey<'_> {
    fn is(&self, key: &OwnedKey) -> bool {
        key.robots == self.robots
            && key.agent.as_deref() == self.agent
            && key.origin == *self.origin
    }

    fn owned(&self) -> OwnedKey {
        let Self { origin, agent, robots } = *self;
        OwnedKey { origin: origin.clone(), agent: agent.map(Into::into), robots }
    }
}

impl SiteTable {
    /// The row of `key`, a new one for `client` if there is none.
    pub fn row(&self, key: SiteKey<'_>, client: impl FnOnce() -> ClientKey) -> Arc<SiteRow> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shards[hash as usize % SHARDS].lock();
        if let Some(row) = shard.get(&hash) {
            // Of two keys with one hash, which come once in 2^64, the later has no row of its own.
            let is_own = row.key.as_ref().is_some_and(|own| key.is(own));
            return Arc::clone(if is_own { row } else { &self.rest });
        }
        let is_long = key.agent.is_some_and(|agent| agent.len() > AGENT_BYTES_MAX);
        let client = client();
        if is_long || !self.owners.lock().take(&client) {
            return Arc::clone(&self.rest);
        }
        let row = Arc::new(SiteRow::new(Some(key.owned()), client));
        shard.insert(hash, Arc::clone(&row));
        row
    }

    /// The counts since the last batch that was written, the busiest first. Rows without any that no
    /// request has in hand are removed.
    pub fn batch(&self, since: Timestamp, time: Timestamp) -> SiteBatch {
        let mut rows = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|_, row| {
                row.is_file_named.store(false, Relaxed);
                let new = row.new_counts();
                let is_used = new.iter().any(|count| *count > 0);
                if is_used {
                    rows.push((Arc::clone(row), new));
                } else if Arc::strong_count(row) == 1 {
                    self.owners.lock().give_back(&row.owner);
                    return false;
                }
                true
            });
        }
        let size =
            |counts: &[u64; COUNTS]| counts[..=Counted::Tunnelled as usize].iter().sum::<u64>();
        rows.sort_by_cached_key(|(row, new)| {
            let key = row.key.as_ref();
            (
                std::cmp::Reverse(size(new)),
                key.map(|key| (key.origin.to_string(), key.agent.clone())),
            )
        });
        let shown = rows.len().min(ROWS_WRITTEN_MAX);
        let mut notices: Vec<_> =
            rows[..shown].iter().map(|(row, new)| row.notice(new, since, time)).collect();
        let mut rest = self.rest.new_counts();
        let mut sharing = u64::from(rest.iter().any(|count| *count > 0));
        let own = rest;
        for (_, new) in &rows[shown..] {
            rest.iter_mut().zip(new).for_each(|(sum, count)| *sum += count);
            sharing += 1;
        }
        if sharing > 0 {
            let Notice::SiteCounts(counts) = self.rest.notice(&rest, since, time) else {
                unreachable!("it is made so")
            };
            notices.push(Notice::SiteCounts(SiteCounts { rows: Some(sharing), ..counts }));
            rows.push((Arc::clone(&self.rest), own));
        }
        SiteBatch { notices, rows }
    }

    /// The lines of `batch` are in the log, or will be.
    pub fn written(&self, batch: &SiteBatch) {
        for (row, new) in &batch.rows {
            let mut written = row.written.lock();
            written.iter_mut().zip(new).for_each(|(sum, count)| *sum += count);
        }
    }
}

impl Owners {
    /// One more row for a client, unless it would have more than are left for the others.
    fn take(&mut self, client: &ClientKey) -> bool {
        let own = self.of_clients.get(client).copied().unwrap_or_default();
        let fits = own + self.rows < ROWS_MAX;
        if fits {
            self.of_clients.insert(client.clone(), own + 1);
            self.rows += 1;
        }
        fits
    }

    fn give_back(&mut self, client: &ClientKey) {
        self.rows = self.rows.saturating_sub(1);
        if let Some(own) = self.of_clients.get_mut(client) {
            *own -= 1;
            if *own == 0 {
                self.of_clients.remove(client);
            }
        }
    }
}

impl SiteRow {
    fn new(key: Option<OwnedKey>, owner: ClientKey) -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        let written = Lock::new([0; COUNTS]);
        Self { key, owner, is_file_named: AtomicBool::new(false), counts, written }
    }

    /// A request is allowed; `path_seen`: by its path, or a tunnel by its host.
    pub fn add_allowed(&self, path_seen: bool) {
        self.add(Counted::Allowed as usize, 1);
        if !path_seen {
            self.add(Counted::ByHost as usize, 1);
        }
    }

    /// A request has a record of `event`.
    pub fn add_recorded(&self, event: Event) {
        let count = match event {
            Event::Denied => Counted::Denied,
            Event::WouldDeny => Counted::WouldDeny,
            Event::Exempted => Counted::Exempted,
            Event::Tunnelled => Counted::Tunnelled,
        };
        self.add(count as usize, 1);
    }

    /// A request was held for so long.
    pub fn add_wait(&self, waited: Duration) {
        self.add(Counted::Paced as usize, 1);
        let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        self.add(Counted::WaitedMs as usize, millis);
    }

    /// A request has got no turn.
    pub fn add_resting(&self) {
        self.add(Counted::Resting as usize, 1);
    }

    /// A forwarded request has no response.
    pub fn add_failed(&self) {
        self.add(Counted::Failed as usize, 1);
    }

    /// The origin has responded.
    pub fn add_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.add(Counted::Statuses as usize + class, 1);
    }

    /// Bytes of the origin's content were passed on.
    pub fn add_bytes(&self, bytes: usize) {
        self.add(Counted::Bytes as usize, bytes as u64);
    }

    /// Whether the log is to name the file that decides: it has not in this hour, as far as is known here.
    pub fn lacks_file(&self) -> bool {
        !self.is_file_named.load(Relaxed)
    }

    /// The log names the file, or will.
    pub fn note_file_named(&self) {
        // That of all is of many files.
        self.is_file_named.store(self.key.is_some(), Relaxed);
    }

    fn add(&self, count: usize, number: u64) {
        self.counts[count].fetch_add(number, Relaxed);
    }

    fn new_counts(&self) -> [u64; COUNTS] {
        let written = *self.written.lock();
        std::array::from_fn(|at| self.counts[at].load(Relaxed) - written[at])
    }

    fn notice(&self, counts: &[u64; COUNTS], since: Timestamp, time: Timestamp) -> Notice {
        let of = |count: Counted| counts[count as usize];
        let statuses = CLASSES.iter().zip(&counts[Counted::Statuses as usize..]);
        let robots = self.key.as_ref().and_then(|key| key.robots);
        Notice::SiteCounts(SiteCounts {
            agent: self.key.as_ref().and_then(|key| key.agent.as_deref()).map(str::to_owned),
            allowed: of(Counted::Allowed),
            by_host: of(Counted::ByHost),
            denied: of(Counted::Denied),
            event: CountsEvent::It,
            exempted: of(Counted::Exempted),
            failed: of(Counted::Failed),
            node: None,
            bytes: of(Counted::Bytes),
            origin: self.key.as_ref().map(|key| key.origin.to_string()),
            paced: of(Counted::Paced),
            prev: String::new(),
            resting: of(Counted::Resting),
            rows: None,
            seq: 0,
            sha256: match robots {
                Some(DecidingRobots::File(sha256)) => Some(hex(&sha256)),
                _ => None,
            },
            since,
            state: robots.map(|robots| match robots {
                DecidingRobots::File(_) => RobotsStatus::Rules,
                DecidingRobots::Unavailable => RobotsStatus::Unavailable,
                DecidingRobots::Unreachable => RobotsStatus::Unreachable,
            }),
            statuses: statuses
                .filter(|(_, count)| **count > 0)
                .map(|(class, count)| ((*class).to_owned(), *count))
                .collect(),
            time,
            tunnelled: of(Counted::Tunnelled),
            waited_ms: of(Counted::WaitedMs),
            would_deny: of(Counted::WouldDeny),
        })
    }
}

impl Default for SiteTable {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            shards: Default::default(),
            owners: Lock::default(),
            rest: Arc::new(SiteRow::new(None, ClientKey::Proxy)),
        }
    }
}

impl fmt::Debug for SiteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteTable").field("rows", &self.owners.lock().rows).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_000);

    fn origin(name: &str) -> Origin {
        Origin::from_authority(Scheme::Http, name).unwrap()
    }

    fn client(name: &str) -> ClientKey {
        ClientKey::User(name.into())
    }

    fn row(table: &SiteTable, name: &str, agent: &str, by: &str) -> Arc<SiteRow> {
        let origin = origin(name);
        let robots = Some(DecidingRobots::File([7; 32]));
        table.row(SiteKey { origin: &origin, agent: Some(agent), robots }, || client(by))
    }

    fn lines(table: &SiteTable) -> (SiteBatch, Vec<SiteCounts>) {
        let batch = table.batch(NOON, NOON);
        let counts = batch.notices.iter().map(|notice| match notice {
            Notice::SiteCounts(counts) => counts.clone(),
            other => panic!("{other:?}"),
        });
        let counts = counts.collect();
        (batch, counts)
    }

    #[test]
    fn each_site_agent_and_file_has_a_line_with_what_became_of_its_requests() {
        let table = SiteTable::default();
        let busy = row(&table, "a.example", "Bot", "a");
        for path_seen in [true, true, false] {
            busy.add_allowed(path_seen);
        }
        for event in [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled] {
            busy.add_recorded(event);
        }
        busy.add_wait(Duration::from_millis(1500));
        busy.add_resting();
        busy.add_failed();
        busy.add_response(StatusCode::OK);
        busy.add_response(StatusCode::NOT_FOUND);
        busy.add_response(StatusCode::from_u16(999).unwrap());
        busy.add_bytes(100);
        let origin = origin("a.example");
        let key =
            SiteKey { origin: &origin, agent: None, robots: Some(DecidingRobots::Unavailable) };
        table.row(key, || client("a")).add_allowed(true);
        table.row(SiteKey { robots: None, ..key }, || client("a")).add_recorded(Event::Denied);
        let (_, lines) = lines(&table);
        let all = [2, 1, 1, 1, 1, 1, 1, 1500, 1, 1, 100];
        let first = &lines[0];
        assert_eq!(
            [
                first.allowed - 1,
                first.by_host,
                first.denied,
                first.would_deny,
                first.exempted,
                first.tunnelled,
                first.paced,
                first.waited_ms,
                first.resting,
                first.failed,
                first.bytes
            ],
            all
        );
        assert_eq!(first.agent.as_deref(), Some("Bot"));
        assert_eq!(first.origin.as_deref(), Some("http://a.example"));
        assert_eq!(first.sha256, Some(hex(&[7; 32])));
        let classes: Vec<_> = first.statuses.keys().map(String::as_str).collect();
        assert_eq!(classes, ["2xx", "4xx", "5xx"]);
        let states: Vec<_> = lines.iter().map(|line| line.state).collect();
        assert_eq!(states.len(), 3);
        assert!(states.contains(&Some(RobotsStatus::Unavailable)) && states.contains(&None));
    }

    #[test]
    fn what_is_written_is_not_written_again_and_what_is_not_waits() {
        let table = SiteTable::default();
        let row = row(&table, "a.example", "Bot", "a");
        row.add_allowed(true);
        let allowed = || lines(&table).1.iter().map(|line| line.allowed).collect::<Vec<_>>();
        assert_eq!(allowed(), [1]);
        let (batch, _) = lines(&table);
        row.add_allowed(true);
        assert_eq!(allowed(), [2], "the batch could not be written");
        table.written(&batch);
        assert_eq!(allowed(), [1]);
        table.written(&lines(&table).0);
        assert_eq!(allowed(), [0; 0]);
        row.add_bytes(5);
        assert_eq!(lines(&table).1[0].bytes, 5, "a response that ended later");
    }

    #[test]
    fn one_client_leaves_rows_for_others_and_loses_no_count() {
        let table = SiteTable::default();
        for number in 0..ROWS_MAX {
            row(&table, &format!("n{number}.example"), "Bot", "hostile").add_allowed(true);
        }
        row(&table, "long.example", &"a".repeat(AGENT_BYTES_MAX + 1), "b").add_allowed(true);
        row(&table, "a.example", "Bot", "other").add_allowed(true);
        row(&table, "a.example", "Bot", "other").add_allowed(true);
        let (batch, lines) = lines(&table);
        assert_eq!(lines.len(), ROWS_WRITTEN_MAX + 1);
        assert_eq!(lines[0].origin.as_deref(), Some("http://a.example"), "the busiest is first");
        let rest = lines.last().unwrap();
        assert_eq!((&rest.origin, &rest.agent), (&None, &None));
        let own = ROWS_MAX as u64 / 2 + 1 - ROWS_WRITTEN_MAX as u64;
        assert_eq!(rest.rows, Some(own + 1));
        let sum: u64 = lines.iter().map(|line| line.allowed).sum();
        assert_eq!(sum, ROWS_MAX as u64 + 3);
        table.written(&batch);
        drop(batch);
        assert!(table.batch(NOON, NOON).notices.is_empty());
        assert_eq!(table.owners.lock().rows, 0, "an hour later all have gone");
        assert!(table.owners.lock().of_clients.is_empty());
    }

    #[test]
    fn the_file_of_a_row_is_to_be_named_once_an_hour() {
        let table = SiteTable::default();
        let row = row(&table, "a.example", "Bot", "a");
        assert!(row.lacks_file());
        row.note_file_named();
        assert!(!row.lacks_file());
        table.batch(NOON, NOON);
        assert!(row.lacks_file());
        table.rest.note_file_named();
        assert!(table.rest.lacks_file(), "it is of many files");
    }
}
