//! Which recorded decisions have a line of the process's log of their own: the first of each origin, agent and
//! event. The others are counted, and the counts are logged once a minute. A line for each would cost more
//! than the decision, and a busy proxy would fill a journal with what its records say better.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use tracing::{Level, enabled, info};

use crate::audit::{Event, Record};
use crate::types::client_key::ClientKey;

/// Lines that the log of the process has for single decisions in that time.
const DECISION_LINES_MAX: usize = 60;

/// Of those, lines for requests of one client.
const DECISION_LINES_OF_CLIENT_MAX: usize = 10;

/// Origins with an agent and an event that are known to have had a line: eight bytes each.
const DECISION_LINES_SEEN_MAX: usize = 16_384;

/// Origins that are counted apart for a summary of decisions.
const DECISION_ORIGINS_COUNTED_MAX: usize = 64;

/// Origins that a summary of decisions names.
const DECISION_ORIGINS_NAMED: usize = 5;

/// The target that is enabled where each decision is to have a line of its own.
pub const EACH_DECISION: &str = "each_decision";

/// Shared by all workers.
#[derive(Debug, Default)]
pub struct DecisionLog {
    hasher: RandomState,
    minute: Mutex<Minute>,
}

/// What was logged since the last summary, and what was not.
#[derive(Debug, Default)]
struct Minute {
    /// Hashes of origin, agent and event that had a line; of the earlier ones half are kept.
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
    /// The most frequent origins, each with what it occurred at least.
    origins: HashMap<String, u64>,
}

impl DecisionLog {
    /// Logs `record`, or counts it.
    pub fn say(&self, record: &Record) {
        if !enabled!(Level::INFO) {
            return;
        }
        if enabled!(target: EACH_DECISION, Level::INFO) || self.lock().takes(record, &self.hasher) {
            say(record);
        }
    }

    /// Logs what was counted since the last time, if anything was.
    pub fn say_summary(&self) {
        let counts = {
            let mut minute = self.lock();
            (minute.lines, minute.lines_of) = (0, HashMap::new());
            std::mem::take(&mut minute.counts)
        };
        let Counts { denied, would_deny, exempted, tunnelled, .. } = counts;
        if denied + would_deny + exempted + tunnelled > 0 {
            let origins = counts.most_frequent();
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Minute> {
        self.minute.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Minute {
    /// Whether `record` is to have a line: it is counted otherwise.
    fn takes(&mut self, record: &Record, hasher: &RandomState) -> bool {
        let key = hasher.hash_one((&record.origin, &record.agent, record.event));
        if self.was_seen(key) || !self.has_room_for(record.client.address) {
            self.counts.add(record);
            return false;
        }
        self.remember(key);
        true
    }

    fn was_seen(&mut self, key: u64) -> bool {
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

    /// Takes a line of this minute for the client at `address`. One that makes up origins or agents uses
    /// up what is its own, and leaves the others theirs.
    fn has_room_for(&mut self, address: IpAddr) -> bool {
        if self.lines >= DECISION_LINES_MAX {
            return false;
        }
        let lines = self.lines_of.entry(ClientKey::of(address)).or_default();
        if *lines >= DECISION_LINES_OF_CLIENT_MAX {
            return false;
        }
        (*lines, self.lines) = (*lines + 1, self.lines + 1);
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
        self.add_origin(&record.origin);
    }

    /// Counts by Misra and Gries: an origin with more than one in [`DECISION_ORIGINS_COUNTED_MAX`] of all is
    /// never missed, however many there are; a count is exact until there are more origins than that.
    fn add_origin(&mut self, origin: &str) {
        if let Some(count) = self.origins.get_mut(origin) {
            *count += 1;
        } else if self.origins.len() < DECISION_ORIGINS_COUNTED_MAX {
            self.origins.insert(origin.to_owned(), 1);
        } else {
            self.origins.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// `http://a.example 17, …`.
    fn most_frequent(&self) -> String {
        let mut origins: Vec<_> = self.origins.iter().collect();
        origins.sort_unstable_by(|(a, one), (b, other)| other.cmp(one).then_with(|| a.cmp(b)));
        let named: Vec<_> = origins
            .iter()
            .take(DECISION_ORIGINS_NAMED)
            .map(|(origin, count)| format!("{origin} {count}"))
            .collect();
        named.join(", ")
    }
}

/// The query is where secrets are: it stands in the record alone.
fn say(record: &Record) {
    let url = record.url.split('?').next().unwrap_or_default();
    info!(
        client = %record.client.address, user = record.client.name, event = record.event.word(), reason = record.reason.word(), url, agent = record.agent,
        line = record.rule.as_ref().map(|rule| rule.line), record = record.id, "robots.txt decision"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Reason;
    use crate::audit::read::report::tests::log::{NOON, record};

    fn of(client: [u8; 4], origin: &str) -> Record {
        let mut record = record(NOON, origin, Some("ExampleBot"), Reason::DisallowRule);
        record.client.address = client.into();
        record
    }

    #[test]
    fn the_first_of_each_origin_agent_and_event_has_a_line() {
        let (mut minute, hasher) = (Minute::default(), RandomState::new());
        let first = of([10, 0, 0, 1], "http://a.example");
        let agent = Record { agent: Some("OtherBot".into()), ..first.clone() };
        let event = Record { event: Event::WouldDeny, ..first.clone() };
        for record in [&first, &agent, &event, &of([10, 0, 0, 1], "http://b.example")] {
            assert!(minute.takes(record, &hasher), "{record:?}");
            assert!(!minute.takes(record, &hasher), "{record:?}");
        }
        assert_eq!((minute.counts.denied, minute.counts.would_deny), (3, 1));
        assert_eq!(minute.counts.most_frequent(), "http://a.example 3, http://b.example 1");
    }

    #[test]
    fn a_client_that_makes_up_origins_leaves_the_others_their_lines() {
        let log = DecisionLog::default();
        let takes = |client, origin: &str| log.lock().takes(&of(client, origin), &log.hasher);
        let made_up =
            (0..100_000).filter(|number| takes([10, 0, 0, 1], &format!("http://{number}.example")));
        assert_eq!(made_up.count(), DECISION_LINES_OF_CLIENT_MAX);
        assert!(takes([10, 0, 0, 2], "http://a.example"), "another client has its own");
        assert!(!takes([10, 0, 0, 1], "http://b.example"));
        {
            let minute = log.lock();
            assert!(minute.counts.origins.len() <= DECISION_ORIGINS_COUNTED_MAX);
            assert_eq!(minute.counts.denied, 100_001 - DECISION_LINES_OF_CLIENT_MAX as u64);
        }
        log.say_summary();
        assert!(
            takes([10, 0, 0, 1], "http://b.example"),
            "what was not logged is, in the next minute"
        );
        assert!(!takes([10, 0, 0, 2], "http://a.example"), "what was logged is not logged again");
        assert_eq!(log.lock().counts.denied, 1);
    }

    #[test]
    fn many_clients_have_no_more_lines_than_a_minute_has_and_no_more_is_remembered_than_there_is_room_for()
     {
        let log = DecisionLog::default();
        let mut lines = 0;
        for number in 0..DECISION_LINES_SEEN_MAX as u32 * 2 {
            let [_, a, b, c] = number.to_be_bytes();
            lines += usize::from(
                log.lock()
                    .takes(&of([10, a, b, c], &format!("http://{number}.example")), &log.hasher),
            );
            if number % 1000 == 999 {
                assert_eq!(std::mem::take(&mut lines), DECISION_LINES_MAX);
                log.say_summary();
            }
        }
        for number in 0..DECISION_LINES_SEEN_MAX as u64 * 3 {
            log.lock().remember(number);
        }
        let kept: usize = log.lock().seen.iter().map(HashSet::len).sum();
        assert!(kept <= DECISION_LINES_SEEN_MAX, "{kept}");
    }

    #[test]
    fn an_origin_that_is_frequent_is_named_among_many_that_are_not() {
        let mut counts = Counts::default();
        for number in 0..1000 {
            counts.add(&of([10, 0, 0, 1], &format!("http://{number}.example")));
            counts.add(&of([10, 0, 0, 1], "http://busy.example"));
        }
        assert!(
            counts.most_frequent().starts_with("http://busy.example "),
            "{}",
            counts.most_frequent()
        );
    }
}
