//! The proxies that share an engine, as their heartbeats show them, and the loss of the engine's
//! data.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::cells::{AwayStart, MissingRanks, OwnRank, RANK_KEPT, RANKS_MAX, Rank, width_of};
use super::clock::{Micros, micros};
use super::error::{Error, ErrorKind};
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// Time between two heartbeats of a proxy, while there are few: [`Members::heartbeat_interval`].
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Heartbeats a second that all proxies together send at most.
const HEARTBEATS_PER_SECOND_MAX: u32 = 1000;
/// Time between two announcements that a proxy sends requests to an origin, while there are few:
/// [`Members::presence_interval`].
const PRESENCE_INTERVAL_MIN: Duration = Duration::from_secs(15);
/// Announcements of one origin a second that all proxies together send at most.
const ANNOUNCEMENTS_PER_SECOND_MAX: u32 = 200;
/// A proxy that has not been seen for so many intervals is gone.
pub(super) const MISSED_MAX: u64 = 3;
/// More proxies than these are not believed: a program that writes to the server could else make
/// heartbeats rare, and the share of each nothing.
pub(super) const MEMBERS_MAX: usize = 10_000;

/// What a heartbeat returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Proxies that live, this one included.
    pub members: usize,
    /// How many of them have the same shared settings.
    pub same_settings: usize,
    /// The latest format of values that all of them read.
    pub format: u8,
    /// The engine's time.
    pub now: Micros,
    /// When the engine's data began.
    pub epoch: Micros,
    /// Whether another process with the name of this proxy lives.
    pub has_namesake: bool,
    /// This proxy's rank; `None`: there are too many, or there are no ranks.
    pub rank: Option<Rank>,
    /// The proxies that are missing.
    pub missing: Option<Arc<MissingRanks>>,
}

/// What has been seen of the members. Times are own, passed in as a duration since any fixed moment.
#[derive(Debug)]
pub struct Members {
    last: Heartbeat,
    pub(super) own_rank: OwnRank,
    /// The run of the server in each place.
    runs: HashMap<String, String>,
    epoch: Option<Micros>,
    known_since: Micros,
}

/// What a heartbeat says of its proxy's rank, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankClaim {
    pub rank: Option<Rank>,
    /// When the data began that the rank is of.
    pub epoch: Option<Micros>,
    /// This proxy may start without the engine.
    pub is_alone: bool,
}

impl Members {
    /// No contact yet; `own_rank`: what the process before has left.
    pub(super) fn new(own_rank: OwnRank) -> Self {
        Self {
            last: Heartbeat { members: 1, ..Heartbeat::default() },
            own_rank,
            runs: HashMap::new(),
            epoch: None,
            known_since: 0,
        }
    }

    /// Notes that a run of a server responds in a place, at this time of its clock. Another run
    /// than before may lack what that had. Returns whether that is so.
    pub fn note_run(&mut self, place: &str, run: &str, now: Micros) -> bool {
        let before = self.runs.insert(place.to_owned(), run.to_owned());
        let is_lost = before.is_some_and(|before| before != run);
        if is_lost {
            self.note_loss(now);
        }
        is_lost
    }

    /// Notes that data may have been lost before this time of the engine's clock.
    pub fn note_loss(&mut self, now: Micros) {
        self.known_since = self.known_since.max(now);
    }

    /// What a heartbeat that is sent now says of the rank.
    pub(super) fn claim(&mut self, own: Duration) -> RankClaim {
        let is_alone = self.own_rank.says_alone(own, self.heartbeat_interval());
        if !is_alone {
            self.own_rank.note_joined(own);
        }
        RankClaim { rank: self.own_rank.rank(), epoch: self.epoch, is_alone }
    }

    /// Notes the response to a heartbeat that was sent at the first of the times, and what it said of
    /// this proxy. Returns whether data was lost since the heartbeat before.
    pub(super) fn note(
        &mut self,
        mut heartbeat: Heartbeat,
        times: (Duration, Duration),
        said_alone: bool,
    ) -> bool {
        heartbeat.members = heartbeat.members.clamp(1, MEMBERS_MAX);
        heartbeat.same_settings = heartbeat.same_settings.min(heartbeat.members);
        let seen = (heartbeat.rank, heartbeat.missing.clone(), heartbeat.now);
        let interval = self.heartbeat_interval();
        self.own_rank.note(times, (said_alone, interval), seen);
        let is_lost = self.epoch.is_some_and(|epoch| epoch != heartbeat.epoch);
        // Nothing is known of what started before the data began.
        self.known_since =
            if is_lost { heartbeat.now } else { self.known_since.max(heartbeat.epoch) };
        self.epoch = Some(heartbeat.epoch);
        self.last = heartbeat;
        is_lost
    }

    /// The last heartbeat.
    pub const fn last(&self) -> &Heartbeat {
        &self.last
    }

    /// When the engine's data began; none before the first heartbeat.
    pub const fn epoch(&self) -> Option<Micros> {
        self.epoch
    }

    /// Since when all starts are known, by the engine's clock: before it, one may be missing from
    /// what the engine has.
    pub const fn known_since(&self) -> Micros {
        self.known_since
    }

    /// The time until the next heartbeat.
    pub fn heartbeat_interval(&self) -> Duration {
        heartbeat_interval(self.last.members)
    }

    /// The time between two announcements that this proxy sends requests to an origin.
    pub fn presence_interval(&self) -> Duration {
        let least = PRESENCE_INTERVAL_MIN;
        spread(self.last.members, ANNOUNCEMENTS_PER_SECOND_MAX, least)
    }

    /// When a request may start without the engine: see [`OwnRank::away_start`].
    pub(super) fn away_start(
        &mut self,
        own: Duration,
        (delay, earliest, since): (Duration, Duration, Duration),
    ) -> AwayStart {
        let interval = self.heartbeat_interval();
        let (earliest, since) = (own + earliest, own.saturating_sub(since));
        self.own_rank.away_start(own, interval, (delay, earliest, since))
    }

    /// Whether a start between these times of the engine's clock is allowed at this moment.
    pub(super) fn permits(&self, own: Duration, times: (Micros, Micros), delay: Duration) -> bool {
        self.own_rank.permits(own, self.heartbeat_interval(), times, delay)
    }

    /// Notes a start in an own cell: see [`OwnRank::start_alone`].
    pub(super) fn start_alone(&mut self, own: Duration) -> bool {
        let interval = self.heartbeat_interval();
        self.own_rank.start_alone(own, interval)
    }

    /// See [`OwnRank::has_to_tell`].
    pub(super) fn has_to_tell(&mut self, own: Duration) -> bool {
        let interval = self.heartbeat_interval();
        self.own_rank.has_to_tell(own, interval)
    }

    /// The cells that are left free, and of how many.
    pub(super) fn missing(&self) -> (u32, u32) {
        self.own_rank.missing().map_or((0, 1), MissingRanks::count)
    }

    /// The missing proxies whose cells are left free by what is reserved at this moment.
    ///
    /// # Errors
    ///
    /// It is not known which are missing, because heartbeats fail; or one is that may start at any time,
    /// since it had not heard of the others.
    pub(super) fn view(&self, own: Duration) -> Result<Option<Arc<MissingRanks>>, Error> {
        let view = self.own_rank.view(own, self.heartbeat_interval());
        let missing =
            view.ok_or_else(|| ErrorKind::Timeout.with("no heartbeat was answered lately"))?;
        if missing.as_ref().is_some_and(|missing| missing.count().0 == missing.width()) {
            return Err(ErrorKind::Missing.with("no part of the pace is free"));
        }
        Ok(missing)
    }
}

/// The time between two heartbeats of each of so many proxies.
pub(super) fn heartbeat_interval(members: usize) -> Duration {
    spread(members, HEARTBEATS_PER_SECOND_MAX, HEARTBEAT_INTERVAL_MIN)
}

fn spread(members: usize, per_second: u32, least: Duration) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    (Duration::from_secs(members.into()) / per_second).max(least)
}

/// The last line of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The log; none in what an earlier version has passed on.
    pub log: Option<LogId>,
    /// Its number in the log.
    pub number: u64,
    /// Its SHA-256.
    pub hash: [u8; 32],
    /// When it was written, by the clock of its proxy.
    pub time: Timestamp,
    /// It contradicts a head that the engine has seen of the same log: it is behind that, or beside
    /// it. The proxy has found so itself, or the engine has.
    pub contradicts: bool,
}

/// Heads by the names of their proxies.
pub type NamedHeads = Vec<(String, LogHead)>;

/// Numbers that are compared: those of a server are exact up to there.
pub(super) const NUMBER_MAX: u64 = (1 << 53) - 1;

impl LogHead {
    /// The head, of a log or of the proxy of this name, that it follows or contradicts; what
    /// contradicts has a place beside it.
    pub(super) fn place(&self, proxy: &str) -> String {
        self.log.map_or_else(|| proxy.to_owned(), |log| log.to_string())
    }

    /// Whether it does not follow the head that was seen before it, which moves forward only.
    pub(super) fn is_against(&self, seen: &Self) -> bool {
        let (number, before) = (self.number, seen.number);
        let is_behind = number < before || number == before && self.hash != seen.hash;
        before <= NUMBER_MAX && (self.contradicts || number <= NUMBER_MAX && is_behind)
    }
}

/// The hours of which the heads of a log are kept, each in the place of its number modulo this.
pub(super) const HOURS_KEPT: u64 = 7 * 24;

/// The place of an hour at that time.
pub(super) const fn hour_place(now: Micros) -> u64 {
    now / 3_600_000_000 % HOURS_KEPT
}

/// The place of what contradicts the head in `place`.
pub(super) fn against(place: &str) -> String {
    format!("{place}!")
}

/// In one order, each once.
pub(super) fn in_order(mut heads: NamedHeads) -> NamedHeads {
    heads.sort_by(|(one, a), (other, b)| {
        (one, a.log, a.contradicts).cmp(&(other, b.log, b.contradicts))
    });
    heads.dedup_by(|(one, a), (other, b)| {
        one == other && (a.log, a.contradicts) == (b.log, b.contradicts)
    });
    heads
}

// The proxies as one that is none of them sees them, by what their heartbeats have left.

/// Members of a key with their numbers.
pub(super) type Scores = BTreeMap<String, u64>;

/// What heartbeats leave of all proxies, by the keys of their script.
#[derive(Debug, Default)]
pub(super) struct HeartbeatScores {
    members: Scores,
    about: Scores,
    ranks: Scores,
    seen: Scores,
    widths: Scores,
    alone: Scores,
}

impl HeartbeatScores {
    pub(super) fn by_key(&mut self) -> [(&'static str, &mut Scores); 6] {
        let Self { members, about, ranks, seen, widths, alone } = self;
        [
            ("members", members),
            ("about", about),
            ("ranks", ranks),
            ("seen", seen),
            ("widths", widths),
            ("alone", alone),
        ]
    }
}

/// Why the cells of a proxy are left free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// It has not signed off, and is silent; they are left free until then, by the engine's clock.
    Silent(Micros),
    /// Its heartbeats say that it may start requests without the engine.
    Alone,
}

/// A proxy that sends heartbeats, or has a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownProxy {
    /// `None`: its rank was given before the engine lost its data, and was not claimed since.
    pub name: Option<String>,
    /// The random letters of its process; may be empty.
    pub process: String,
    /// Which cells are its own, from 0; `None`: there are too many proxies.
    pub rank: Option<u32>,
    /// When its last heartbeat came, by the engine's clock.
    pub seen: Option<Micros>,
    pub missing: Option<MissingReason>,
    /// The latest format of values that it reads; of one that lives.
    pub format: Option<u8>,
    /// Whether its shared settings are those of who asks; of one that lives.
    pub has_same_settings: Option<bool>,
    /// Its version, as far as a head of its log was seen.
    pub version: Option<String>,
}

/// All proxies that share an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// The time, by the engine's clock.
    pub now: Micros,
    /// In the order of their ranks.
    pub proxies: Vec<KnownProxy>,
    /// The cells that are left free, and of how many.
    pub left_free: (u32, u32),
}

impl Roster {
    /// `settings`: the digest of those who asks has; `versions`: by the names of proxies, each with the
    /// time at which it was noted.
    pub(super) fn of(
        scores: &HeartbeatScores,
        mut versions: Vec<(String, Micros, String)>,
        settings: u32,
        now: Micros,
    ) -> Self {
        versions.sort();
        let versions: HashMap<_, _> =
            versions.into_iter().map(|(name, _, version)| (name, version)).collect();
        let rank_of = |member: &str| {
            let rank = scores.ranks.get(member).and_then(|rank| u32::try_from(*rank).ok());
            rank.filter(|rank| *rank < RANKS_MAX)
        };
        let silence = MISSED_MAX * micros(heartbeat_interval(scores.members.len()));
        let is_silent = |member: &str| {
            scores.seen.get(member).is_none_or(|seen| *seen < now.saturating_sub(silence))
        };
        let names: BTreeSet<_> = scores.ranks.keys().chain(scores.members.keys()).collect();
        let mut proxies = Vec::new();
        let (mut free, mut highest) = (Vec::new(), 0);
        for member in names {
            let (rank, is_silent) = (rank_of(member), is_silent(member));
            // Without a rank, one that is silent has no part.
            if is_silent && rank.is_none() {
                continue;
            }
            let seen = scores.seen.get(member).copied();
            let missing = if is_silent {
                Some(MissingReason::Silent(seen.unwrap_or(now) + micros(RANK_KEPT)))
            } else {
                scores.alone.contains_key(member).then_some(MissingReason::Alone)
            };
            if let Some(rank) = rank {
                highest = highest.max(rank);
                let known = scores.widths.get(member).and_then(|width| u32::try_from(*width).ok());
                free.extend(missing.map(|_| (rank, known.unwrap_or(RANKS_MAX))));
            }
            let about = scores.about.get(member).filter(|_| !is_silent);
            let (name, process) = name_and_process(member);
            proxies.push(KnownProxy {
                version: name.and_then(|name| versions.get(name).cloned()),
                name: name.map(str::to_owned),
                process: process.to_owned(),
                rank,
                seen,
                missing,
                format: about.and_then(|about| u8::try_from(about >> 32).ok()),
                has_same_settings: about.map(|about| about & 0xffff_ffff == u64::from(settings)),
            });
        }
        proxies.sort_by_key(|proxy| proxy.rank.unwrap_or(RANKS_MAX));
        let width = width_of(highest);
        let left_free = MissingRanks::of(&free, width);
        let left_free = left_free.map_or((0, width), |missing| missing.count());
        Self { now, proxies, left_free }
    }

    /// Names that several live processes have, each once.
    pub fn namesakes(&self) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        self.live().filter_map(|it| it.name.as_deref()).filter(|name| !seen.insert(*name)).collect()
    }

    /// Those that send heartbeats.
    pub fn live(&self) -> impl Iterator<Item = &KnownProxy> {
        self.proxies.iter().filter(|it| !matches!(it.missing, Some(MissingReason::Silent(_))))
    }

    /// Those whose cells are left free.
    pub fn missing(&self) -> impl Iterator<Item = &KnownProxy> {
        self.proxies.iter().filter(|it| it.missing.is_some())
    }

    /// Until when cells are left free for those that are silent now, by the engine's clock.
    pub fn free_until(&self) -> Option<Micros> {
        let until = |it: &KnownProxy| match it.missing {
            Some(MissingReason::Silent(until)) => Some(until),
            Some(MissingReason::Alone) | None => None,
        };
        self.proxies.iter().filter_map(until).max()
    }
}

/// The parts of what [`super::member`] makes.
fn name_and_process(member: &str) -> (Option<&str>, &str) {
    let rank = member.strip_prefix('?').filter(|rest| !rest.is_empty());
    if rank.is_some_and(|rank| rank.bytes().all(|byte| byte.is_ascii_digit())) {
        return (None, "");
    }
    let is_process = |text: &str| {
        (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match member.rsplit_once(' ') {
        Some((name, process)) if is_process(process) => (Some(name), process),
        _ => (Some(member), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_known_by_what_their_heartbeats_have_left() {
        const NOW: Micros = 1_000_000_000_000;
        let scores = |given: &[(&str, u64)]| {
            given.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect::<Scores>()
        };
        let ago = |seconds: u64| NOW - seconds * 1_000_000;
        let left = HeartbeatScores {
            members: scores(&[("a 1f", NOW), ("b", NOW), ("late 2", NOW)]),
            about: scores(&[("a 1f", 1 << 32 | 7), ("b", 2 << 32 | 8), ("gone 3", 1 << 32 | 7)]),
            ranks: scores(&[("a 1f", 0), ("b", 2), ("gone 3", 1), ("?3", 3), ("x", u64::MAX)]),
            seen: scores(&[("a 1f", ago(1)), ("b", NOW), ("late 2", NOW), ("gone 3", ago(60))]),
            widths: scores(&[("gone 3", 2), ("?3", 4), ("b", 4)]),
            alone: scores(&[("b", 0), ("unknown", 0)]),
        };
        let versions = [("a", 5, "0.2"), ("a", 4, "0.1")];
        let versions = versions.map(|(name, at, said)| (name.to_owned(), at, said.to_owned()));
        let roster = Roster::of(&left, versions.to_vec(), 7, NOW);
        let names: Vec<_> = roster.proxies.iter().map(|it| it.name.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("gone"), Some("b"), None, Some("late")]);
        let [a, gone, b, lost, late] = roster.proxies.as_slice() else { panic!("{roster:?}") };
        assert_eq!((a.rank, a.missing, a.process.as_str()), (Some(0), None, "1f"));
        assert_eq!((a.format, a.has_same_settings), (Some(1), Some(true)));
        assert_eq!(a.version.as_deref(), Some("0.2"), "the last");
        assert_eq!((b.format, b.has_same_settings), (Some(2), Some(false)));
        assert_eq!(b.missing, Some(MissingReason::Alone));
        let until = NOW + 540_000_000;
        assert_eq!((gone.missing, gone.format), (Some(MissingReason::Silent(until)), None));
        assert_eq!(lost.missing, Some(MissingReason::Silent(NOW + 600_000_000)));
        assert_eq!((late.rank, late.missing), (None, None));
        assert_eq!(roster.left_free, (3, 4), "1 and 3, 2, 3");
        assert_eq!((roster.live().count(), roster.missing().count()), (3, 3));
        assert_eq!(roster.free_until(), Some(NOW + 600_000_000));
        assert!(roster.namesakes().is_empty());
        let none = Roster::of(&HeartbeatScores::default(), Vec::new(), 7, NOW);
        assert_eq!((none.proxies.len(), none.left_free, none.free_until()), (0, (0, 1), None));
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn heartbeat(members: usize, now: Micros, epoch: Micros) -> Heartbeat {
        let same_settings = members;
        Heartbeat { members, same_settings, format: 1, now, epoch, ..Heartbeat::default() }
    }

    fn note(members: &mut Members, heartbeat: Heartbeat, at: Duration) -> bool {
        members.note(heartbeat, (at, at), false)
    }

    #[test]
    fn many_proxies_send_fewer_heartbeats() {
        let ms = Duration::from_millis;
        for (count, heartbeats, marks) in
            [(0, ms(500), 15), (500, ms(500), 15), (2000, ms(2000), 15), (10_000, ms(10_000), 50)]
        {
            let mut members = Members::new(OwnRank::default());
            note(&mut members, heartbeat(count, 1, 1), seconds(0));
            assert_eq!(
                (members.heartbeat_interval(), members.presence_interval()),
                (heartbeats, seconds(marks))
            );
        }
    }

    #[test]
    fn another_epoch_or_another_run_is_a_loss() {
        let mut members = Members::new(OwnRank::default());
        assert!(!members.note_run("primary", "a", 90));
        assert!(!note(&mut members, heartbeat(1, 100, 70), seconds(0)));
        assert_eq!(members.known_since(), 70, "what was before the data began is not known");
        assert!(!members.note_run("primary", "a", 150), "the same run");
        assert!(!note(&mut members, heartbeat(1, 200, 70), seconds(5)));
        assert_eq!(members.known_since(), 70);
        assert!(note(&mut members, heartbeat(1, 300, 290), seconds(10)), "another epoch");
        assert_eq!((members.known_since(), members.epoch()), (300, Some(290)));
        assert!(members.note_run("primary", "b", 400), "another run");
        assert_eq!(members.known_since(), 400);
        assert!(!members.note_run("another node", "c", 450));
        assert!(!note(&mut members, heartbeat(1, 500, 290), seconds(20)));
        assert_eq!(members.known_since(), 400);
    }
}
