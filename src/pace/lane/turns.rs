//! The granted turns of a lane, and what they count.

use std::time::Duration;

use super::config::{ADAPT_MAX, Config, LONG_TRANSFER};
use super::group::GroupKey;
use crate::pace::tick::Tick;
use crate::types::ClientKey;

/// A client may have one more request under way while it has less than this many times what is
/// free: an eighth is kept from each client. Where these are few, the last one is kept from a client
/// that has one, while others have requests there.
const HELD_PER_FREE: usize = 7;

/// A granted turn, within its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnId(pub(super) u64);

#[derive(Debug)]
pub(super) struct LaneTurn {
    pub id: TurnId,
    pub client: ClientKey,
    pub key: GroupKey,
    /// The delay that the site asks of it.
    pub delay: Duration,
    pub has_started: bool,
    /// When it may start, unless a hold lasts longer, if that has been fixed: by a slot, or by this
    /// proxy's share of the pace.
    pub fixed_start: Option<Tick>,
    /// When it started; before that, when it was granted.
    pub granted_or_started: Tick,
    /// When the head of its response came.
    pub head: Option<Tick>,
    /// Its client holds the request up: it does not count as under way.
    pub is_stalled: bool,
}

/// All turns that have not ended.
#[derive(Debug, Default)]
pub(super) struct LaneTurns(pub Vec<LaneTurn>);

impl LaneTurns {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn get_mut(&mut self, id: TurnId) -> Option<&mut LaneTurn> {
        self.0.iter_mut().find(|turn| turn.id == id)
    }

    pub(super) fn get(&self, id: TurnId) -> Option<&LaneTurn> {
        self.0.iter().find(|turn| turn.id == id)
    }

    pub(super) fn remove(&mut self, id: TurnId) {
        if let Some(at) = self.0.iter().position(|turn| turn.id == id) {
            self.0.swap_remove(at);
        }
    }

    /// Ends the turns whose response goes on for long after its head.
    pub(super) fn end_long_transfers(&mut self, now: Tick) {
        self.0.retain(|turn| turn.head.is_none_or(|head| now < head + LONG_TRANSFER));
    }

    /// The next moment for [`Self::end_long_transfers`].
    pub(super) fn next_long_transfer_end(&self) -> Option<Tick> {
        self.0.iter().filter_map(|turn| turn.head).min().map(|head| head + LONG_TRANSFER)
    }

    /// The last start of a page, of those that have not ended.
    pub(super) fn last_start(&self) -> Option<Tick> {
        let has_started = |turn: &&LaneTurn| turn.has_started && turn.key.is_page();
        self.0.iter().filter(has_started).map(|turn| turn.granted_or_started).max()
    }

    /// Whether one more request of `client` may be under way, of `limit` in all.
    pub(super) fn has_free_concurrency(&self, client: &ClientKey, limit: usize) -> bool {
        let counting = || self.0.iter().filter(|turn| turn.key.counts() && !turn.is_stalled);
        let free = limit.saturating_sub(counting().count());
        if free == 0 {
            return false;
        }
        let own = counting().filter(|turn| turn.client == *client).count();
        let is_last_of_several = || free == 1 && self.0.iter().any(|turn| turn.client != *client);
        own == 0 || own < free.saturating_mul(HELD_PER_FREE) && !is_last_of_several()
    }

    /// Turns that have not started and are to be a delay apart, of one group or of all.
    pub(super) fn unstarted(&self, key: Option<&GroupKey>) -> usize {
        let is_it = |turn: &&LaneTurn| {
            !turn.has_started && turn.key.is_page() && key.is_none_or(|key| turn.key == *key)
        };
        self.0.iter().filter(is_it).count()
    }
}

// The delay of a lane itself, whatever the site asks of a group: the operator's, that of a low
// quota (RateLimit), and that of a slow site.

/// What the responses of an origin say about how many requests it takes.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The mean time from a start to the head of the response, half of it the last one's.
    latency: Option<Duration>,
    /// The delay that spreads a low quota, until then.
    spread: Option<(Duration, Tick)>,
    /// The most concurrency, until then.
    concurrency: Option<(usize, Tick)>,
}

impl Rate {
    pub(super) const fn new() -> Self {
        Self { latency: None, spread: None, concurrency: None }
    }

    pub(super) const fn latency(&self) -> Option<Duration> {
        self.latency
    }

    pub(super) const fn set_latency(&mut self, latency: Option<Duration>) {
        self.latency = latency;
    }

    pub(super) fn note_latency(&mut self, sample: Duration, is_good: bool) {
        let former = self.latency.unwrap_or(sample);
        if is_good || sample > former {
            self.latency = Some((former + sample) / 2);
        }
    }

    pub(super) const fn spread(&mut self, delay: Duration, until: Tick) {
        self.spread = Some((delay, until));
    }

    pub(super) const fn limit_concurrency(&mut self, concurrency: usize, until: Tick) {
        self.concurrency = Some((concurrency, until));
    }

    /// Of `ramp` requests under way, those that the site takes.
    pub(super) fn concurrency(&self, ramp: usize, now: Tick) -> usize {
        match self.concurrency {
            Some((concurrency, until)) if now < until => ramp.min(concurrency).max(1),
            _ => ramp,
        }
    }

    /// The moment at which the number of concurrency rises again.
    pub(super) fn concurrency_until(&self) -> Option<Tick> {
        self.concurrency.map(|(_, until)| until)
    }

    /// The delay of the lane.
    pub(super) fn delay(&self, config: &Config, now: Tick) -> Duration {
        let delay = self.unadapted(config, now);
        delay.max(self.adapted(delay))
    }

    /// The same, however slow the site is.
    pub(super) fn unadapted(&self, config: &Config, now: Tick) -> Duration {
        let spread = self.spread.filter(|(_, until)| now < *until).map(|(delay, _)| delay);
        config.delay.max(spread.unwrap_or_default())
    }

    /// The least delay of a lane or group that has the delay `own` without it: the mean time to the
    /// head of a response, so that a slow site has as long without a request as it took for one.
    /// Without a delay the concurrency alone bounds what a slow site has to do.
    pub(super) fn adapted(&self, own: Duration) -> Duration {
        let latency = self.latency.filter(|_| !own.is_zero());
        latency.map_or(Duration::ZERO, |it| it.min(ADAPT_MAX))
    }

    /// When the last of what the site said ends.
    pub(super) fn ends_at(&self) -> Option<Tick> {
        self.spread.map(|(_, until)| until).max(self.concurrency_until())
    }

    /// Whether nothing need be remembered at `now`.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        self.spread.is_none_or(|(_, until)| until <= now)
            && self.concurrency.is_none_or(|(_, until)| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::lane::config::Kind;

    /// Turns of these clients, of which the upper-case ones hold their requests up.
    fn turns(clients: &str) -> LaneTurns {
        let turn = |client: char| LaneTurn {
            id: TurnId(0),
            client: key(client.to_ascii_lowercase()),
            key: GroupKey::of(Kind::Subresource),
            delay: Duration::ZERO,
            has_started: true,
            fixed_start: None,
            granted_or_started: Tick::default(),
            head: None,
            is_stalled: client.is_ascii_uppercase(),
        };
        LaneTurns(clients.chars().map(turn).collect())
    }

    fn key(client: char) -> ClientKey {
        ClientKey::User(client.to_string().into())
    }

    #[test]
    fn p8_no_client_has_all_places_and_who_stalls_has_none() {
        for (name, under_way, client, limit, expected) in [
            ("the one place", "", 'a', 1, true),
            ("it is taken", "a", 'b', 1, false),
            ("its client stalls", "A", 'b', 1, true),
            ("and its own next", "A", 'a', 1, true),
            ("a hundred stall", &"A".repeat(100), 'b', 1, true),
            ("two of two, alone", "a", 'a', 2, true),
            ("the last of two is the other's", "aB", 'a', 2, false),
            ("the other", "aB", 'b', 2, true),
            ("the last of three", "ab", 'a', 3, false),
            ("the last of three, of a third", "ab", 'c', 3, true),
            ("seven of eight", "aaaaaa", 'a', 8, true),
            ("all of eight", "aaaaaaa", 'a', 8, false),
            ("the eighth", "aaaaaaa", 'b', 8, true),
            ("beside seven that stall", "AAAAAAA", 'a', 8, true),
        ] {
            assert_eq!(
                turns(under_way).has_free_concurrency(&key(client), limit),
                expected,
                "{name}"
            );
        }
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_delay_is_at_least_the_mean_response_time() {
        for (own, latency, expected) in
            [(100, 400, 400), (500, 400, 500), (100, 40_000, 30_000), (0, 400, 0)]
        {
            let config = Config { delay: ms(own), ..crate::pace::Config::off().lane };
            let mut rate = Rate::new();
            rate.note_latency(ms(latency), true);
            assert_eq!(rate.delay(&config, Tick::default()), ms(expected), "{own} {latency}");
        }
    }
}
