//! Counts by key in bounded memory: exact as long as the keys fit, and afterwards right for those
//! that occur often, with a bound for how far they may be off.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use serde::Serialize;

use super::events::Events;
use super::series::print_moment;
use crate::audit::{ClientAddress, Exemption, Paced, Profile, Record};
use crate::types::timestamp::Timestamp;

/// Keys that a report counts exactly, of each kind: more origins, rules or clients than any reader
/// reads about. Beyond it the rarest are let go.
const REPORT_KEYS_MAX: usize = 100_000;

/// Bytes of the keys of one kind that a report holds: patterns may be long.
const REPORT_KEY_BYTES_MAX: usize = 32 << 20;

/// A key of a count.
pub trait Key: Clone + Eq + Hash + Ord {
    /// Its memory beyond a fixed amount, in bytes.
    fn bytes(&self) -> usize;
}

/// How often each key occurred, with details.
#[derive(Debug)]
pub struct Tally<K, D = ()> {
    entries: HashMap<K, TallyEntry<D>>,
    bytes: usize,
    keys_max: usize,
    bytes_max: usize,
    /// Records of keys that were let go.
    let_go: Events,
    undercount_at_most: u64,
}

/// The events of one key.
#[derive(Debug, Default)]
pub struct TallyEntry<D> {
    pub events: Events,
    pub detail: D,
}

/// The most frequent keys, and a summary of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Top<R> {
    /// The most frequent first.
    pub rows: Vec<R>,
    /// Records of all keys that have no row.
    pub others: u64,
    /// The same records, by event.
    pub others_by_event: Events,
    /// How many keys there are; at least, if counts are approximate.
    pub distinct: u64,
    /// By how much a row may be short, or a key without a row have been missed; 0: all is exact.
    pub undercount_at_most: u64,
}

impl<K, D> Default for Tally<K, D> {
    fn default() -> Self {
        Self::bounded(REPORT_KEYS_MAX, REPORT_KEY_BYTES_MAX)
    }
}

impl<K, D> Tally<K, D> {
    pub(super) fn bounded(keys_max: usize, bytes_max: usize) -> Self {
        let entries = HashMap::new();
        Self {
            entries,
            bytes: 0,
            keys_max,
            bytes_max,
            let_go: Events::default(),
            undercount_at_most: 0,
        }
    }
}

impl<K: Key, D: Default> Tally<K, D> {
    /// Counts records of `key`; returns its details, to be updated.
    pub fn add(&mut self, key: K, events: Events) -> &mut D {
        if !self.entries.contains_key(&key) {
            self.bytes += key.bytes();
            if self.entries.len() >= self.keys_max || self.bytes > self.bytes_max {
                self.let_half_go();
                self.bytes += key.bytes();
            }
        }
        let entry = self.entries.entry(key).or_default();
        entry.events.add(events);
        &mut entry.detail
    }

    /// Keeps the more frequent half. Each time, a key loses at most the count of the most frequent
    /// key removed: a count may be short by the sum of these, also for a key that was removed and
    /// came back.
    fn let_half_go(&mut self) {
        let mut entries: Vec<_> = self.entries.drain().collect();
        entries.sort_unstable_by(|(a, one), (b, other)| {
            other.events.all().cmp(&one.events.all()).then_with(|| a.cmp(b))
        });
        let gone = entries.split_off(entries.len() / 2);
        self.undercount_at_most += gone.first().map_or(0, |(_, entry)| entry.events.all());
        gone.iter().for_each(|(_, entry)| self.let_go.add(entry.events));
        self.bytes = entries.iter().map(|(key, _)| key.bytes()).sum();
        self.entries = entries.into_iter().collect();
    }

    /// Every key with its events.
    pub fn entries(&self) -> impl Iterator<Item = (&K, &TallyEntry<D>)> {
        self.entries.iter()
    }

    /// The `rows_max` keys with most records, made into rows.
    pub fn top<R>(&self, rows_max: usize, row: impl Fn(&K, &TallyEntry<D>) -> R) -> Top<R> {
        self.top_of(rows_max, |events| events, row)
    }

    /// The `rows_max` keys with most of the records that `counted` leaves, made into rows; those
    /// with none of them are left out.
    pub fn top_of<R>(
        &self,
        rows_max: usize,
        counted: impl Fn(Events) -> Events,
        row: impl Fn(&K, &TallyEntry<D>) -> R,
    ) -> Top<R> {
        let count = |entry: &TallyEntry<D>| counted(entry.events).all();
        let mut entries: Vec<_> =
            self.entries.iter().filter(|(_, entry)| count(entry) > 0).collect();
        entries.sort_unstable_by(|(a, one), (b, other)| {
            count(other).cmp(&count(one)).then_with(|| a.cmp(b))
        });
        let distinct = entries.len() as u64;
        let rest = entries.split_off(entries.len().min(rows_max));
        let mut others_by_event = counted(self.let_go);
        rest.iter().for_each(|(_, entry)| others_by_event.add(counted(entry.events)));
        Top {
            rows: entries.into_iter().map(|(key, entry)| row(key, entry)).collect(),
            others: others_by_event.all(),
            others_by_event,
            distinct,
            undercount_at_most: self.undercount_at_most,
        }
    }
}

impl<R> Top<R> {
    /// Whether some counts may be short.
    pub const fn is_approximate(&self) -> bool {
        self.undercount_at_most > 0
    }
}

macro_rules! keys {
    ($($(#[$doc:meta])+ $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)? })+) => {$(
        $(#[$doc])+
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),+ }
    )+};
}

keys! {
    /// Of one origin.
    OriginKey { origin: String }
    /// Of one product token; none where the User-Agent has none.
    AgentKey { agent: Option<String> }
    /// Of one rule in one version of a file.
    RuleKey {
        origin: String,
        line: u32,
        directive: String,
        pattern: String,
        /// Of the file.
        sha256: Option<String>,
    }
    /// Of one client: its name if it has authenticated, else its address; neither where the log leaves both out.
    ClientKey { client: Option<String>, address: Option<ClientAddress> }
    /// Of one proxy; none where the record does not name it, as in logs of earlier versions.
    NodeKey { node: Option<String> }
    /// Of one dialect.
    ProfileKey { profile: String, version: u32, settings: BTreeMap<String, String> }
    /// Of one line of a robots.txt that asks for a delay.
    PacedKey {
        origin: String,
        /// The group that it applied to, as written; none: all agents without a group of their own.
        group: Option<String>,
        line: u32,
        /// The line as written.
        text: String,
        delay_ms: u64,
        source: String,
        clamped: bool,
        observed: bool,
        /// A tunnel: the requests inside it are not held.
        not_seen: bool,
        /// The name behind the exemption that changes the delay.
        exempted_by: Option<String>,
    }
    /// Of one exemption on one origin.
    ExemptionKey {
        by: String,
        reason: String,
        ticket: Option<String>,
        #[serde(serialize_with = "print_moment")]
        until: Timestamp,
        origin: String,
    }
}

impl OriginKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        Self { origin: record.origin.clone() }
    }
}

impl AgentKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        Self { agent: record.agent.clone() }
    }
}

impl RuleKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Option<Self> {
        record.rule.as_ref().map(|rule| Self {
            origin: record.origin.clone(),
            line: rule.line,
            directive: rule.directive.clone(),
            pattern: rule.pattern.clone(),
            sha256: record.robots.as_ref().and_then(|robots| robots.sha256.clone()),
        })
    }
}

impl ClientKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        match &record.client.name {
            Some(name) => Self { client: Some(name.clone()), address: None },
            None => Self { client: None, address: record.client.address.clone() },
        }
    }
}

impl NodeKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        Self { node: record.node.as_ref().map(ToString::to_string) }
    }
}

impl ProfileKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Self {
        let Profile { name, settings, version } = &record.profile;
        Self { profile: name.clone(), version: *version, settings: settings.clone() }
    }
}

impl PacedKey {
    /// The key of `paced`.
    pub fn of(paced: &Paced) -> Self {
        Self {
            origin: paced.origin.clone(),
            group: paced.group.as_ref().map(|group| group.token.clone()),
            line: paced.line,
            text: paced.text.clone(),
            delay_ms: paced.delay_ms,
            source: paced.source.clone(),
            clamped: paced.clamped,
            observed: paced.observed,
            not_seen: paced.pace_seen == Some(false),
            exempted_by: paced.exemption.as_ref().map(|exemption| exemption.by.clone()),
        }
    }
}

impl ExemptionKey {
    /// The key of `record`.
    pub fn of(record: &Record) -> Option<Self> {
        let Exemption { by, reason, ticket, until } = record.exemption.clone()?;
        Some(Self { by, reason, ticket, until, origin: record.origin.clone() })
    }
}

impl Key for OriginKey {
    fn bytes(&self) -> usize {
        self.origin.len()
    }
}

impl Key for AgentKey {
    fn bytes(&self) -> usize {
        length(&self.agent)
    }
}

impl Key for RuleKey {
    fn bytes(&self) -> usize {
        self.origin.len() + self.directive.len() + self.pattern.len() + length(&self.sha256)
    }
}

impl Key for ClientKey {
    fn bytes(&self) -> usize {
        let keyed = match &self.address {
            Some(ClientAddress::Keyed(hash)) => hash.len(),
            _ => 0,
        };
        length(&self.client) + keyed
    }
}

impl Key for NodeKey {
    fn bytes(&self) -> usize {
        length(&self.node)
    }
}

impl Key for ProfileKey {
    fn bytes(&self) -> usize {
        let settings = self.settings.iter().map(|(name, value)| name.len() + value.len());
        self.profile.len() + settings.sum::<usize>()
    }
}

impl Key for PacedKey {
    fn bytes(&self) -> usize {
        self.origin.len()
            + length(&self.group)
            + self.text.len()
            + self.source.len()
            + length(&self.exempted_by)
    }
}

impl Key for ExemptionKey {
    fn bytes(&self) -> usize {
        self.by.len() + self.reason.len() + length(&self.ticket) + self.origin.len()
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

/// When something was used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// First and last.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl Use {
    pub(super) fn note(&mut self, time: Timestamp) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }
}
