//! The budget of notices: a number per origin and day, and one in all per hour, of which no client
//! takes more than it leaves. Changes beyond it are counted, and the counts are logged.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;

use crate::audit::Omission;
use crate::policy::CLOCK_SET_BACK_MAX;
use crate::types::ClientKey;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// Notices of changes of one origin's robots.txt in a day. A file with a date in a rule, or one that fails every other
/// time, has no more; then one tells how many were left out.
const CHANGES_OF_ORIGIN_MAX: u32 = 24;

/// The same in all in an hour, and bytes of evidence that they may bring.
const CHANGES_MAX: u64 = 1000;
const CHANGES_EVIDENCE_BYTES_MAX: u64 = 256 << 20;

/// Origins whose notices are counted apart.
const CHANGED_ORIGINS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The remaining budget.
pub(super) struct Budget {
    origins: LruCache<Origin, OfOrigin>,
    hour: Hour,
    /// Of which no origin is named: since when, and how many.
    omitted: BTreeMap<Omission, (Timestamp, u64)>,
    /// Counts of single origins whose day is over.
    due: Vec<Omitted>,
}

struct OfOrigin {
    since: Timestamp,
    noted: u32,
    omitted: u64,
}

/// The notices of one hour.
pub(super) struct Hour {
    since: Timestamp,
    of_clients: HashMap<ClientKey, Used>,
    used: Used,
}

#[derive(Clone, Copy, Default)]
struct Used {
    notices: u64,
    bytes: u64,
}

/// Changes without a notice of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Omitted {
    pub origin: Option<Origin>,
    pub since: Timestamp,
    /// How many.
    pub count: u64,
    pub why: Omission,
}

impl Budget {
    /// A budget whose first hour begins at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self {
            origins: LruCache::sparse(CHANGED_ORIGINS_MAX),
            hour: Hour::beginning(now),
            omitted: BTreeMap::new(),
            due: Vec::new(),
        }
    }

    /// Takes budget for a notice about `origin`, whose fetch `client` caused, with `bytes` of
    /// evidence. False: the change is counted instead.
    pub fn take(
        &mut self,
        origin: &Origin,
        client: &ClientKey,
        bytes: usize,
        now: Timestamp,
    ) -> bool {
        self.hour.go_on(now);
        let mut of =
            self.origins.pop(origin).unwrap_or(OfOrigin { since: now, noted: 0, omitted: 0 });
        if is_over(of.since, now, DAY) {
            self.due.extend(of.omitted(origin));
            of = OfOrigin { since: now, noted: 0, omitted: 0 };
        }
        let has_room = of.noted < CHANGES_OF_ORIGIN_MAX;
        let is_noted = has_room && self.hour.take(client, bytes as u64, CHANGES_MAX);
        of.noted += u32::from(is_noted);
        of.omitted += u64::from(!has_room);
        if has_room && !is_noted {
            self.omit(Omission::TotalLimit, 1, now);
        }
        if let Some((gone, of)) = self.origins.push(origin.clone(), of) {
            self.due.extend(of.omitted(&gone));
        }
        is_noted
    }

    /// Counts changes that have no notice.
    pub fn omit(&mut self, why: Omission, count: u64, now: Timestamp) {
        if count > 0 {
            self.omitted.entry(why).or_insert((now, 0)).1 += count;
        }
    }

    /// The counts of omitted changes whose hour or day is over, or all if `is_last`. Those of
    /// single origins take from the budget, too.
    pub fn due(&mut self, now: Timestamp, is_last: bool) -> Vec<Omitted> {
        let is_due = |since, length| is_last || is_over(since, now, length);
        for (origin, of) in self.origins.iter_mut().filter(|(_, of)| is_due(of.since, DAY)) {
            self.due.extend(of.omitted(origin));
            *of = OfOrigin { since: now, noted: 0, omitted: 0 };
        }
        let mut due = Vec::new();
        for omitted in std::mem::take(&mut self.due) {
            if is_last || self.hour.take(&ClientKey::Proxy, 0, CHANGES_MAX) {
                due.push(omitted);
            } else {
                self.omit(Omission::TotalLimit, omitted.count, omitted.since);
            }
        }
        self.omitted.retain(|why, (since, count)| {
            let is_due = is_due(*since, HOUR);
            if is_due {
                due.push(Omitted { origin: None, since: *since, count: *count, why: *why });
            }
            !is_due
        });
        due
    }
}

impl OfOrigin {
    fn omitted(&self, origin: &Origin) -> Option<Omitted> {
        (self.omitted > 0).then(|| Omitted {
            origin: Some(origin.clone()),
            since: self.since,
            count: self.omitted,
            why: Omission::OriginLimit,
        })
    }
}

impl Hour {
    fn beginning(since: Timestamp) -> Self {
        Self { since, of_clients: HashMap::new(), used: Used::default() }
    }

    /// The hour of `now`.
    pub(super) fn current(hour: &mut Option<Self>, now: Timestamp) -> &mut Self {
        let hour = hour.get_or_insert_with(|| Self::beginning(now));
        hour.go_on(now);
        hour
    }

    fn go_on(&mut self, now: Timestamp) {
        if is_over(self.since, now, HOUR) {
            *self = Self::beginning(now);
        }
    }

    /// One more of a client, of at most `max`, unless it would have had more than is left for the others.
    pub(super) fn take(&mut self, client: &ClientKey, bytes: u64, max: u64) -> bool {
        let own = self.of_clients.get(client).copied().unwrap_or_default();
        let with = |used: Used| Used { notices: used.notices + 1, bytes: used.bytes + bytes };
        let (own, used) = (with(own), with(self.used));
        let fits = own.notices + used.notices <= max + 1
            && own.bytes + used.bytes <= CHANGES_EVIDENCE_BYTES_MAX;
        if fits {
            self.of_clients.insert(client.clone(), own);
            self.used = used;
        }
        fits
    }
}

/// Whether a time has passed; that the clock was set back ends it, too.
fn is_over(since: Timestamp, now: Timestamp, length: Duration) -> bool {
    now.since(since) >= length || since.since(now) > CLOCK_SET_BACK_MAX
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

    fn origin(number: u64) -> Origin {
        Origin::from_authority(Scheme::Https, &format!("n{number}.example")).unwrap()
    }

    fn client(number: u8) -> ClientKey {
        ClientKey::of([10, 0, 0, number].into())
    }

    fn taken(budget: &mut Budget, client: &ClientKey, count: u64, bytes: usize) -> u64 {
        (0..count).map(|number| u64::from(budget.take(&origin(number), client, bytes, START))).sum()
    }

    #[test]
    fn an_origin_has_its_notices_a_day_and_then_a_count() {
        let (mut budget, mut noted) = (Budget::new(START), 0);
        for hour in 0..48 {
            let now = START.plus(HOUR * hour / 2);
            noted += u32::from(budget.take(&origin(0), &client(1), 0, now));
            assert_eq!(budget.due(now, false), []);
        }
        assert_eq!(noted, CHANGES_OF_ORIGIN_MAX);
        let count = 48 - u64::from(CHANGES_OF_ORIGIN_MAX);
        let expected =
            Omitted { origin: Some(origin(0)), since: START, count, why: Omission::OriginLimit };
        assert_eq!(budget.due(START.plus(HOUR * 24), false), [expected]);
        assert!(budget.take(&origin(0), &client(1), 0, START.plus(HOUR * 24)));
        assert_eq!(budget.due(START.plus(HOUR * 24), true), []);
    }

    #[test]
    fn a_client_leaves_the_others_as_much_as_it_takes() {
        let mut budget = Budget::new(START);
        let counts = [1, 2, 3].map(|number| taken(&mut budget, &client(number), CHANGES_MAX, 0));
        assert_eq!(counts, [500, 250, 125]);
        let due = budget.due(START.plus(HOUR), false);
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].count, due[0].why), (3 * CHANGES_MAX - 875, Omission::TotalLimit));
        assert!(budget.take(&origin(0), &client(1), 0, START.plus(HOUR)));
    }

    #[test]
    fn one_client_takes_at_most_half_of_the_evidence_budget() {
        let mut budget = Budget::new(START);
        let large = usize::try_from(CHANGES_EVIDENCE_BYTES_MAX / 16).unwrap();
        let counts = [1, 2].map(|number| taken(&mut budget, &client(number), 16, large));
        assert_eq!(counts, [8, 4]);
    }

    #[test]
    fn a_clock_that_is_set_back_stops_no_notices() {
        let mut budget = Budget::new(START);
        taken(&mut budget, &client(1), CHANGES_MAX, 0);
        for _ in 0..CHANGES_OF_ORIGIN_MAX {
            budget.take(&origin(0), &client(2), 0, START);
        }
        assert!(!budget.take(&origin(0), &client(2), 0, START));
        let earlier = Timestamp::from_millis(START.millis() - 365 * 24 * 60 * 60 * 1000);
        assert!(budget.take(&origin(0), &client(2), 0, earlier));
    }

    #[test]
    fn what_is_no_longer_counted_apart_is_said_all_the_same() {
        let mut budget = Budget::new(START);
        for _ in 0..=CHANGES_OF_ORIGIN_MAX {
            budget.take(&origin(0), &client(1), 0, START);
        }
        for number in 1..=CHANGED_ORIGINS_MAX.get() as u64 {
            budget.take(&origin(number), &client(2), 0, START);
        }
        let due = budget.due(START, false);
        assert_eq!(due.len(), 1, "{due:?}");
        assert_eq!((due[0].origin.as_ref(), due[0].count), (Some(&origin(0)), 1));
    }
}
