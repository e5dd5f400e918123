//! Log lines for recorded decisions: one for the first of each origin, agent and event. The others
//! are counted, and the counts are logged once a minute. A line for each would cost more than the
//! decision, and a busy proxy would fill a journal with what the audit log says better.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use tracing::{Level, enabled, info};

use crate::audit::{Event, Record, Writer};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// Lines of the process log for single decisions, a minute.
const DECISION_LINES_MAX: usize = 60;

/// Of those, lines for the requests of one client.
const DECISION_LINES_OF_CLIENT_MAX: usize = 10;

/// Combinations of origin, agent and event that are remembered as logged: eight bytes each.
const DECISION_LINES_SEEN_MAX: usize = 16_384;

/// The `tracing` target that, if enabled, gives each decision its own line.
pub const EACH_DECISION: &str = "each_decision";

/// The `tracing` target of the lines otherwise.
pub const DECISION_LOG: &str = module_path!();

/// Logs decisions of all workers.
#[derive(Debug, Default)]
pub struct DecisionLog {
    hasher: RandomState,
    minute: Lock<Minute>,
}

/// What has been logged and counted since the last summary.
#[derive(Debug, Default)]
struct Minute {
    /// Hashes of origin, agent and event that had a line: the recent and the earlier ones.
    seen: [HashSet<u64>; 2],
    lines: usize,
    lines_of: HashMap<ClientKey, usize>,
    counts: Counts,
}

/// Decisions without a line of their own.
#[derive(Debug, Default)]
struct Counts {
    denied: u64,
    would_deny: u64,
    exempted: u64,
    tunnelled: u64,
    origins: FrequentOrigins,
}

impl DecisionLog {
    /// Logs `record` as `audit` has it, or counts it.
    pub fn log(&self, record: &Record, audit: &Writer) {
        if !enabled!(Level::INFO) {
            return;
        }
        if enabled!(target: EACH_DECISION, Level::INFO)
            || self.minute.lock().takes_line(record, &self.hasher)
        {
            log(&audit.redacted(record));
        }
    }

    /// Logs what was counted since the last summary, if anything.
    pub fn log_summary(&self) {
        let counts = {
            let mut minute = self.minute.lock();
            minute.lines = 0;
            minute.lines_of = HashMap::new();
            std::mem::take(&mut minute.counts)
        };
        let Counts { denied, would_deny, exempted, tunnelled, .. } = counts;
        if denied + would_deny + exempted + tunnelled > 0 {
            let origins = counts.origins.most_frequent();
            info!(
                denied,
                would_deny,
                exempted,
                tunnelled,
                origins,
                "robots.txt decisions without a line of their own"
            );
        }
    }
}

impl Minute {
    /// Takes a line for `record`. `false`: it has been counted instead.
    fn takes_line(&mut self, record: &Record, hasher: &RandomState) -> bool {
        let key = hasher.hash_one((&record.origin, &record.agent, record.event));
        if self.recall(key) || record.client.ip().is_some_and(|ip| !self.take_line_of(ip)) {
            self.counts.add(record);
            return false;
        }
        self.remember(key);
        true
    }

    /// Whether `key` is remembered; if so, it counts as recent again.
    fn recall(&mut self, key: u64) -> bool {
        let [recent, earlier] = &mut self.seen;
        if recent.contains(&key) {
            return true;
        }
        let was_seen = earlier.remove(&key);
        if was_seen {
            self.remember(key);
        }
        was_seen
    }

    fn remember(&mut self, key: u64) {
        self.seen[0].insert(key);
        if self.seen[0].len() >= DECISION_LINES_SEEN_MAX / 2 {
            self.seen[1] = std::mem::take(&mut self.seen[0]);
        }
    }

    /// Takes a line of this minute for the client at `address`; `false`: there is none left. A
    /// client that makes up origins or agents uses up its own lines, not those of others.
    fn take_line_of(&mut self, address: IpAddr) -> bool {
        if self.lines >= DECISION_LINES_MAX {
            return false;
        }
        let lines = self.lines_of.entry(ClientKey::of(address)).or_default();
        if *lines >= DECISION_LINES_OF_CLIENT_MAX {
            return false;
        }
        *lines += 1;
        self.lines += 1;
        true
    }
}

impl Counts {
    fn add(&mut self, record: &Record) {
        let count = match record.event {
            Event::Denied => &mut self.denied,
            Event::WouldDeny => &mut self.would_deny,
            Event::Exempted => &mut self.exempted,
            Event::Tunnelled => &mut self.tunnelled,
        };
        *count += 1;
        self.origins.add(&record.origin);
    }
}

/// Leaves out the query, which may hold secrets: it stands in the record alone.
fn log(record: &Record) {
    let url = record.url.split('?').next().unwrap_or_default();
    info!(
        client = record.client.address.as_ref().map(tracing::field::display),
        user = record.client.name,
        event = record.event.word(),
        reason = record.reason.word(),
        url,
        agent = record.agent,
        line = record.rule.as_ref().map(|rule| rule.line),
        record = record.id,
        "robots.txt decision"
    );
}

/// Origins that are counted one by one for a summary of decisions.
pub const DECISION_ORIGINS_COUNTED_MAX: usize = 64;

/// Origins that a summary names.
const DECISION_ORIGINS_NAMED: usize = 5;

/// Counts by the algorithm of Misra and Gries: an origin with more than one in
/// [`DECISION_ORIGINS_COUNTED_MAX`] of all decisions is never missed, and counts are exact up to
/// that many origins.
#[derive(Debug, Default)]
pub struct FrequentOrigins {
    /// Each with a lower bound of its count.
    counts: HashMap<String, u64>,
}

impl FrequentOrigins {
    /// Counts one decision for `origin`.
    pub fn add(&mut self, origin: &str) {
        if let Some(count) = self.counts.get_mut(origin) {
            *count += 1;
        } else if self.counts.len() < DECISION_ORIGINS_COUNTED_MAX {
            self.counts.insert(origin.to_owned(), 1);
        } else {
            self.counts.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// `http://a.example 17, …`.
    pub fn most_frequent(&self) -> String {
        let mut origins: Vec<_> = self.counts.iter().collect();
        origins.sort_unstable_by(|(a, one), (b, other)| other.cmp(one).then_with(|| a.cmp(b)));
        let named: Vec<_> = origins
            .iter()
            .take(DECISION_ORIGINS_NAMED)
            .map(|(origin, count)| format!("{origin} {count}"))
            .collect();
        named.join(", ")
    }

    /// The number of origins that are counted one by one now.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::read::report::tests::log::{NOON, record};
    use crate::audit::{Client, Reason};

    fn of(client: [u8; 4], origin: &str) -> Record {
        let mut record = record(NOON, origin, Some("ExampleBot"), Reason::DisallowRule);
        record.client = Client::at(client, None);
        record
    }

    #[test]
    fn the_first_of_each_origin_agent_and_event_has_a_line() {
        let (mut minute, hasher) = (Minute::default(), RandomState::new());
        let first = of([10, 0, 0, 1], "http://a.example");
        let agent = Record { agent: Some("OtherBot".into()), ..first.clone() };
        let event = Record { event: Event::WouldDeny, ..first.clone() };
        for record in [&first, &agent, &event, &of([10, 0, 0, 1], "http://b.example")] {
            assert!(minute.takes_line(record, &hasher), "{record:?}");
            assert!(!minute.takes_line(record, &hasher), "{record:?}");
        }
        assert_eq!((minute.counts.denied, minute.counts.would_deny), (3, 1));
        assert_eq!(minute.counts.origins.most_frequent(), "http://a.example 3, http://b.example 1");
    }

    #[test]
    fn a_client_that_makes_up_origins_leaves_the_others_their_lines() {
        let log = DecisionLog::default();
        let takes =
            |client, origin: &str| log.minute.lock().takes_line(&of(client, origin), &log.hasher);
        let made_up =
            (0..100_000).filter(|number| takes([10, 0, 0, 1], &format!("http://{number}.example")));
        assert_eq!(made_up.count(), DECISION_LINES_OF_CLIENT_MAX);
        assert!(takes([10, 0, 0, 2], "http://a.example"), "another client has its own");
        assert!(!takes([10, 0, 0, 1], "http://b.example"));
        {
            let minute = log.minute.lock();
            assert!(minute.counts.origins.len() <= DECISION_ORIGINS_COUNTED_MAX);
            assert_eq!(minute.counts.denied, 100_001 - DECISION_LINES_OF_CLIENT_MAX as u64);
        }
        log.log_summary();
        assert!(
            takes([10, 0, 0, 1], "http://b.example"),
            "what was not logged is, in the next minute"
        );
        assert!(!takes([10, 0, 0, 2], "http://a.example"), "what was logged is not logged again");
        assert_eq!(log.minute.lock().counts.denied, 1);
    }

    #[test]
    fn lines_of_many_clients_and_what_is_remembered_are_bounded() {
        let log = DecisionLog::default();
        let mut lines = 0;
        for number in 0..DECISION_LINES_SEEN_MAX as u32 * 2 {
            let [_, a, b, c] = number.to_be_bytes();
            lines +=
                usize::from(log.minute.lock().takes_line(
                    &of([10, a, b, c], &format!("http://{number}.example")),
                    &log.hasher,
                ));
            if number % 1000 == 999 {
                assert_eq!(std::mem::take(&mut lines), DECISION_LINES_MAX);
                log.log_summary();
            }
        }
        for number in 0..DECISION_LINES_SEEN_MAX as u64 * 3 {
            log.minute.lock().remember(number);
        }
        let kept: usize = log.minute.lock().seen.iter().map(HashSet::len).sum();
        assert!(kept <= DECISION_LINES_SEEN_MAX, "{kept}");
    }

    #[test]
    fn a_frequent_origin_is_named_among_many_that_are_not() {
        let mut origins = FrequentOrigins::default();
        for number in 0..1000 {
            origins.add(&format!("http://{number}.example"));
            origins.add("http://busy.example");
        }
        let named = origins.most_frequent();
        assert!(named.starts_with("http://busy.example "), "{named}");
    }
}
