//! Ranks and cells: how proxies that do not see each other keep one pace.
//!
//! The engine gives each proxy a rank, the lowest that is free. Time by the engine's clock is cut, for
//! each delay, into cells that are a little longer than the delay; cell `k` belongs to the rank
//! `k mod width`, where the width is the smallest power of two above the highest rank. A proxy without
//! the engine starts at the beginning of its own cells; the others leave those of a proxy that is
//! missing free. So no two starts are closer than the delay, less the error of the clocks, and none
//! need know of another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Micros, micros};

/// A cell is longer than its delay by this part of it, within bounds: a start begins in the first half
/// of that, and while proxies are missing a slot of the engine lasts no longer.
const GAP_PART: u32 = 5;
const GAP_MIN: Duration = Duration::from_millis(20);
const GAP_MAX: Duration = Duration::from_millis(200);
/// Clocks differ in rate by less than these parts of a million, where nothing corrects them.
const DRIFT_MILLIONTHS: u64 = 200;
/// More ranks are not given.
pub(super) const RANKS_MAX: u32 = 16_384;

/// What lies between the delay and the end of its cell.
pub(super) fn gap(delay: Duration) -> Duration {
    (delay / GAP_PART).clamp(GAP_MIN, GAP_MAX)
}

/// The cells of one delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellTimes {
    delay: Micros,
    gap: Micros,
}

impl CellTimes {
    pub(super) fn of(delay: Duration) -> Self {
        Self { delay: micros(delay), gap: micros(gap(delay)) }
    }

    /// The length of a cell.
    pub(super) const fn length(self) -> Micros {
        self.delay + self.gap
    }

    /// The first moment from `at` on at which the owner of these cells may start, and the end of the
    /// time in which it may.
    fn own_window(self, rank: u32, width: u32, at: Micros) -> (Micros, Micros) {
        let (length, width) = (self.length(), u64::from(width.max(1)));
        let cell = at / length;
        let is_own = cell % width == u64::from(rank) % width;
        if is_own && at < cell * length + self.gap / 2 {
            return (at, cell * length + self.gap / 2);
        }
        let ahead = (u64::from(rank) + width - (cell + 1) % width) % width;
        let begin = (cell + 1 + ahead) * length;
        (begin, begin + self.gap / 2)
    }

    /// Whether a start between `begin` and `end` may come closer than the delay to one of a proxy that
    /// is missing.
    fn is_near(self, missing: &MissingRanks, begin: Micros, end: Micros) -> bool {
        let length = self.length();
        let cell = begin / length;
        (cell.saturating_sub(1)..=cell + 1).any(|cell| {
            let (first, last) = (cell * length, cell * length + self.gap / 2);
            missing.has(cell) && end + self.delay > first && begin < last + self.delay
        })
    }
}

/// The cells that are left free, because their proxies are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingRanks {
    width: u32,
    /// A bit for each rank below the width, the lowest bit of the first byte first.
    bits: Box<[u8]>,
}

impl MissingRanks {
    /// Of these cells of a width; `None`: of none.
    fn of_cells(width: u32, cells: impl Iterator<Item = u32>) -> Option<Arc<Self>> {
        let mut bits = vec![0_u8; width.div_ceil(8) as usize].into_boxed_slice();
        cells.for_each(|cell| bits[cell as usize / 8] |= 1 << (cell % 8));
        Self::of_bits(width, bits)
    }

    fn of_bits(width: u32, bits: Box<[u8]>) -> Option<Arc<Self>> {
        bits.iter().any(|byte| *byte > 0).then(|| Arc::new(Self { width, bits }))
    }

    /// Of these ranks, each with the width that its proxy knew; `None`: none is missing.
    pub(super) fn of(ranks: &[(u32, u32)], width: u32) -> Option<Arc<Self>> {
        let cells = ranks.iter().flat_map(|(rank, known)| {
            let known = (*known).max(1);
            (rank % known..width).step_by(known as usize)
        });
        Self::of_cells(width, cells)
    }

    /// As a server has it: the width in digits, a space, the bits. `None`: none is missing, or it is
    /// damaged.
    pub(super) fn parse(value: &[u8]) -> Option<Arc<Self>> {
        let space = value.iter().position(|byte| *byte == b' ')?;
        let width: u32 = std::str::from_utf8(&value[..space]).ok()?.parse().ok()?;
        let bits = &value[space + 1..];
        let is_sound = width.is_power_of_two()
            && width <= RANKS_MAX
            && bits.len() == width.div_ceil(8) as usize
            && bits.iter().any(|byte| *byte > 0);
        is_sound.then(|| Arc::new(Self { width, bits: bits.into() }))
    }

    /// Without a rank whose cells no other one uses; `None`: no other is missing.
    fn without(&self, rank: u32) -> Option<Arc<Self>> {
        let (mut bits, cell) = (self.bits.clone(), rank % self.width);
        bits[cell as usize / 8] &= !(1 << (cell % 8));
        Self::of_bits(self.width, bits)
    }

    /// Of both.
    fn with(&self, other: &Self) -> Option<Arc<Self>> {
        let width = self.width.max(other.width);
        let is_missing = |cell: &u32| self.has((*cell).into()) || other.has((*cell).into());
        Self::of_cells(width, (0..width).filter(is_missing))
    }

    /// Whether the cell is left free.
    pub(super) fn has(&self, cell: u64) -> bool {
        let cell = cell % u64::from(self.width.max(1));
        let byte = usize::try_from(cell / 8).ok().and_then(|at| self.bits.get(at));
        byte.is_some_and(|byte| byte >> (cell % 8) & 1 == 1)
    }

    /// How many cells are left free, of how many.
    pub fn count(&self) -> (u32, u32) {
        (self.bits.iter().map(|byte| byte.count_ones()).sum(), self.width)
    }

    pub(super) const fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// The first cell from the one that begins at or after `at` which is not left free, and its begin;
    /// `None`: all are.
    pub(super) fn next_free(&self, length: Micros, at: Micros) -> Option<Micros> {
        let first = at.div_ceil(length.max(1));
        let free = (first..first + u64::from(self.width)).find(|cell| !self.has(*cell));
        free.map(|cell| cell * length)
    }
}

/// The smallest width for these ranks.
pub(super) const fn width_of(highest: u32) -> u32 {
    (highest + 1).next_power_of_two()
}

/// What a proxy has to know of its rank. It outlives the process, in the file of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// The highest rank that was given.
    pub highest: u32,
    /// Whether all others know of enough ranks to leave its cells free. One that has just come, where a
    /// proxy that is missing had not heard of it, starts nothing without the engine for ten minutes.
    pub is_settled: bool,
}

impl Rank {
    /// The number of ranks that time is cut for.
    pub const fn width(self) -> u32 {
        width_of(self.highest)
    }

    /// This proxy's part of so many places; the parts of all are as many.
    pub const fn part_of(self, places: usize) -> usize {
        let (rank, width) = (self.rank as usize, self.width() as usize);
        places / width + (rank < places % width) as usize
    }
}

/// The engine's clock by that of this machine, in time since a fixed moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    at: Duration,
    /// What the engine's clock showed then, and by how much it may have been more or less.
    shown: Micros,
    error: Micros,
}

impl ClockReading {
    /// The engine's clock showed `shown` some time between the two.
    pub(super) fn new(sent: Duration, received: Duration, shown: Micros) -> Self {
        let half = micros(received.saturating_sub(sent)) / 2;
        Self { at: received, shown: shown + half, error: half }
    }

    /// The better of the two at the time of the later, `new`; that, if they contradict each other: the
    /// clock was set.
    pub(super) fn better(self, new: Self) -> Self {
        let error = self.error_at(new.at);
        let is_set = self.at(new.at).abs_diff(new.shown) > error + new.error;
        if is_set || new.error <= error { new } else { self }
    }

    pub(super) fn at(self, own: Duration) -> Micros {
        match own.checked_sub(self.at) {
            Some(later) => self.shown + micros(later),
            None => self.shown.saturating_sub(micros(self.at - own)),
        }
    }

    pub(super) fn error_at(self, own: Duration) -> Micros {
        self.error + micros(own.saturating_sub(self.at)) / 1_000_000 * DRIFT_MILLIONTHS
    }

    /// The own time at which the engine's clock shows that.
    fn own(self, shown: Micros) -> Duration {
        match shown.checked_sub(self.shown) {
            Some(later) => self.at + Duration::from_micros(later),
            None => self.at.saturating_sub(Duration::from_micros(self.shown - shown)),
        }
    }
}

/// When a request may start without the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwayStart {
    /// As if there were no other proxy.
    Alone,
    /// From then until then, from now on: in a cell of this proxy.
    Within(Duration, Duration),
    /// Not before that, from now on: until then the others may not know that it is missing.
    NotBefore(Duration),
    /// This proxy has no rank: it has never reached the engine.
    Never,
}

// What a proxy may do by itself, and when: others must know that it is missing before it starts in
// its cells, and it must have told what it has started there before they use those again.

/// Intervals of heartbeats that a view of the missing proxies is used for, since its request was sent.
const VIEW_INTERVALS: u32 = 2;
/// Intervals without a response after which heartbeats say that this proxy is alone.
const SILENT_INTERVALS: u32 = 2;
/// Intervals from the last heartbeat that said nothing of that, whether or not it was answered, until all
/// others leave the cells of this proxy free: one for which it may be on its way, three until the engine
/// misses it, one for which the engine keeps the list, two for which another uses that.
const HOLD_OFF_INTERVALS: u32 = 1 + 3 + 1 + VIEW_INTERVALS;
/// The same from the response to a heartbeat that says so.
const DECLARED_INTERVALS: u32 = 1 + VIEW_INTERVALS;
/// Views of the missing proxies that are remembered; of more, the oldest are taken as one.
const VIEWS_MAX: usize = 8;
/// A rank is kept for a proxy that is missing for so long.
pub(super) const RANK_KEPT: Duration = Duration::from_mins(10);
/// Operations that have failed for so long, while heartbeats do not, have the proxy say that it is alone.
const FAILING: Duration = Duration::from_secs(2);
/// And so long after the last that did.
const WANTED: Duration = Duration::from_secs(3);

/// This proxy among the others, as far as it decides on starts. Times are own, since a fixed moment.
#[derive(Debug, Default)]
pub(super) struct OwnRank {
    rank: Option<Rank>,
    missing: Option<Arc<MissingRanks>>,
    /// What was missing before, and until when: a proxy that is there again may have started something
    /// just before, and a slot that was reserved long ago may be close to that.
    were_missing: VecDeque<(Duration, Arc<MissingRanks>)>,
    clock: Option<ClockReading>,
    /// Heartbeats say until when they are to be carried out: unless the engine's clock was set.
    has_deadlines: bool,
    /// The rank is that of the process before, or a guess.
    is_kept: bool,
    /// When the last heartbeat was sent that was answered, and the last that did not say that this proxy
    /// is alone.
    answered: Option<Duration>,
    joined: Duration,
    /// The response to the first of the heartbeats that have said so since.
    declared: Option<Duration>,
    says_alone: bool,
    wanted_until: Duration,
    /// Something was started in its own cells that the engine does not know of.
    has_started: bool,
    /// The engine is being told of that, and nothing was started there since that began.
    is_telling: bool,
}

impl OwnRank {
    /// Of a process that begins with the rank of the one before it; `clock`: the engine's clock as that
    /// knew it.
    pub(super) fn kept(rank: Rank, clock: ClockReading) -> Self {
        Self {
            rank: Some(rank),
            clock: Some(clock),
            is_kept: true,
            // It may have started something in its cells.
            says_alone: true,
            ..Self::default()
        }
    }

    /// Notes the response to a heartbeat that was sent then, with what it said.
    pub(super) fn note(
        &mut self,
        (sent, received): (Duration, Duration),
        (said_alone, interval): (bool, Duration),
        (rank, missing, shown): (Option<Rank>, Option<Arc<MissingRanks>>, Micros),
    ) {
        let reading = ClockReading::new(sent, received, shown);
        let before = self.clock.filter(|_| !self.is_kept && self.has_deadlines);
        self.clock = Some(before.map_or(reading, |clock| clock.better(reading)));
        (self.is_kept, self.has_deadlines) = (false, true);
        // Responses may come in another order.
        if self.answered.is_some_and(|answered| answered > sent) {
            return;
        }
        // Its own cells a proxy need not leave free: what it starts there it knows.
        let settled = rank.filter(|rank| rank.is_settled);
        let missing = match (missing, settled) {
            (Some(missing), Some(rank)) => missing.without(rank.rank),
            (missing, _) => missing,
        };
        // Who was missing while no heartbeat was answered is not known: it may be any proxy, in any cell.
        let is_gap =
            self.answered.is_some_and(|answered| sent > answered + VIEW_INTERVALS * interval);
        let before = std::mem::replace(&mut self.missing, missing);
        let before = if is_gap { MissingRanks::of(&[(0, 1)], 1) } else { before };
        if let Some(before) = before.filter(|before| self.missing.as_ref() != Some(before)) {
            self.remember(received, before);
        }
        (self.rank, self.answered) = (rank, Some(sent));
        if !said_alone {
            self.joined = self.joined.max(sent);
        } else if sent > self.joined {
            self.declared = self.declared.or(Some(received));
        }
        // What was started in own cells is reported first.
        if !self.has_started && received >= self.wanted_until {
            self.says_alone = false;
        }
    }

    fn remember(&mut self, until: Duration, missing: Arc<MissingRanks>) {
        self.were_missing.push_back((until, missing));
        if self.were_missing.len() > VIEWS_MAX
            && let Some((_, oldest)) = self.were_missing.pop_front()
            && let Some((_, next)) = self.were_missing.front_mut()
            && let Some(both) = next.with(&oldest)
        {
            *next = both;
        }
    }

    /// Notes that the engine has refused a heartbeat as late: its clock may have been set.
    pub(super) fn note_late(&mut self) {
        self.has_deadlines = false;
    }

    /// What the engine's clock will show then, where that is known.
    pub(super) fn engine_time(&self, own: Duration) -> Option<Micros> {
        let clock = self.clock.filter(|_| self.has_deadlines)?;
        Some(clock.at(own) + clock.error_at(own))
    }

    /// How far the clock's reading may be off.
    pub(super) fn clock_error(&self, own: Duration) -> Option<Duration> {
        self.clock.map(|clock| Duration::from_micros(clock.error_at(own)))
    }

    pub(super) const fn rank(&self) -> Option<Rank> {
        self.rank
    }

    /// Whether a heartbeat that is sent now says that this proxy is alone.
    pub(super) fn says_alone(&mut self, own: Duration, interval: Duration) -> bool {
        let is_silent =
            self.answered.is_some_and(|answered| own > answered + SILENT_INTERVALS * interval);
        self.says_alone |= is_silent || own < self.wanted_until;
        self.says_alone
    }

    /// Notes that a heartbeat is sent that does not say that this proxy is alone: the engine may have it,
    /// though no response comes.
    pub(super) fn note_joined(&mut self, own: Duration) {
        (self.joined, self.declared) = (own, None);
    }

    /// Whether what is known of the missing proxies is recent enough to reserve slots by it, or to start
    /// in one.
    fn is_fresh(&self, own: Duration, interval: Duration) -> bool {
        self.answered.is_some_and(|answered| own <= answered + VIEW_INTERVALS * interval)
    }

    /// The proxies that are missing, to be left free; `None`: that is not known.
    pub(super) fn view(
        &self,
        own: Duration,
        interval: Duration,
    ) -> Option<Option<Arc<MissingRanks>>> {
        // Until the engine knows what was started without it, a proxy goes on in its cells: slots by the
        // engine would lie there, too, and those between would be lost.
        (self.is_fresh(own, interval) && !self.has_started).then(|| self.missing.clone())
    }

    /// The proxies that are missing, as last heard.
    pub(super) fn missing(&self) -> Option<&MissingRanks> {
        self.missing.as_deref()
    }

    /// Whether a start is allowed in a slot between these times of the engine's clock.
    pub(super) fn permits(
        &self,
        own: Duration,
        interval: Duration,
        (begin, end): (Micros, Micros),
        delay: Duration,
    ) -> bool {
        let times = CellTimes::of(delay);
        let is_near = |missing: &MissingRanks| times.is_near(missing, begin, end);
        let kept = Duration::from_micros(times.length());
        let mut before = self.were_missing.iter().filter(|(until, _)| own <= *until + kept);
        self.is_fresh(own, interval)
            && !self.missing().is_some_and(is_near)
            && !before.any(|(_, missing)| is_near(missing))
    }

    /// When a request with this delay may start without the engine, not before `earliest`; operations
    /// have failed since `since`.
    pub(super) fn away_start(
        &mut self,
        own: Duration,
        interval: Duration,
        (delay, earliest, since): (Duration, Duration, Duration),
    ) -> AwayStart {
        let (Some(rank), Some(clock)) = (self.rank, self.clock) else { return AwayStart::Never };
        if own >= since + FAILING && self.is_fresh(own, interval) && !self.has_started {
            self.wanted_until = own + WANTED;
        }
        let unseen = self.joined + HOLD_OFF_INTERVALS * interval;
        let declared = self.declared.map(|declared| declared + DECLARED_INTERVALS * interval);
        let known = if rank.is_settled {
            declared.map_or(unseen, |declared| declared.min(unseen))
        } else {
            self.joined + RANK_KEPT
        };
        // Another may have started just before it knew.
        let first = known + delay;
        if own < known {
            return AwayStart::NotBefore(first - own);
        }
        let from = first.max(earliest).max(own);
        let times = CellTimes::of(delay);
        let (begin, end) = times.own_window(rank.rank, rank.width(), clock.at(from));
        let ahead = |shown| clock.own(shown).max(from).saturating_sub(own);
        AwayStart::Within(ahead(begin), ahead(end))
    }

    /// Whether a start in an own cell is allowed at this moment; it is noted.
    pub(super) fn start_alone(&mut self, own: Duration, interval: Duration) -> bool {
        let is_alone = self.says_alone(own, interval);
        if is_alone {
            (self.has_started, self.is_telling) = (true, false);
        }
        is_alone
    }

    /// Whether something was started in own cells that the engine does not know of: the rank is not to be
    /// given back then.
    pub(super) const fn has_untold(&self) -> bool {
        self.has_started
    }

    /// Whether the engine responds again, and has to be told what was started in own cells.
    pub(super) fn has_to_tell(&mut self, own: Duration, interval: Duration) -> bool {
        self.is_telling =
            self.has_started && self.is_fresh(own, interval) && own >= self.wanted_until;
        self.is_telling
    }

    /// Notes that the engine knows of all that had been started in own cells when it had to be told.
    pub(super) fn end_alone(&mut self) {
        if std::mem::take(&mut self.is_telling) {
            (self.has_started, self.says_alone) = (false, false);
        }
    }
}
