//! The changes that have had their notice. Several agents see the same change of a file, each by a
//! fetch of its own, and some origins have a file for each agent: what is compared is the file that
//! decides for an agent, before and after, and each change has one notice.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroUsize;
use std::time::Duration;

use foldhash::fast::RandomState;
use lru::LruCache;

use super::budget::Hour;
use super::site_counts::DecidingRobots;
use crate::policy::profile::{Meaning, Profile};
use crate::policy::state::RobotsState;
use crate::runtime::lock::Lock;
use crate::store::{FetchEvent, StateChange};
use crate::types::ClientKey;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// Origins whose last changes are remembered.
const NOTICED_ORIGINS_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not zero");

/// Changes of one origin that are remembered: those of a day, if each agent has a file of its own.
const NOTICED_MAX: usize = 9;

/// The compared part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// By its SHA-256.
    File([u8; 32]),
    NoFile,
}

/// By origin: what its file became.
pub(super) struct Noticed(LruCache<Origin, Vec<NoticedChange>>);

/// A change of what decides for an agent; `None`: an outage.
#[derive(Clone, Copy, Debug)]
struct NoticedChange {
    from: Option<Answer>,
    to: Option<Answer>,
    /// When that was seen first.
    at: Timestamp,
}

impl Answer {
    /// None without a file: it is unreachable, or access to it is denied.
    pub fn of(state: &RobotsState, profile: &Profile) -> Option<Self> {
        match state {
            RobotsState::Successful { copy, .. } => Some(Self::File(copy.snapshot.sha256)),
            RobotsState::Unavailable { cause, .. } => {
                (cause.meaning(profile) == Meaning::Unavailable).then_some(Self::NoFile)
            }
            RobotsState::Unknown | RobotsState::Unreachable(_) => None,
        }
    }
}

impl Noticed {
    /// Whether the change that `fetch` shows under its own profile is to be compared: not if another
    /// agent's fetch has shown it since this agent's file was confirmed, and it still holds. It is
    /// remembered.
    pub fn is_new(&mut self, fetch: &FetchEvent, change: &StateChange) -> bool {
        let answer = |state: &RobotsState| Answer::of(state, &change.profile);
        let Some(before) = change.before.as_deref() else { return false };
        let (from, to) = (answer(before), answer(&change.after));
        if from == to {
            return true;
        }
        let since = before.tried_at();
        let known = self.0.get_or_insert_mut(fetch.origin.clone(), Vec::new);
        // What was left again since then is another change when it comes back.
        let last = known.iter().rev().find(|turn| turn.to == to || turn.from == to);
        if last.is_some_and(|turn| turn.to == to && Some(turn.at) >= since) {
            return false;
        }
        if known.len() >= NOTICED_MAX {
            known.remove(0);
        }
        known.push(NoticedChange { from, to, at: fetch.at });
        true
    }
}

impl Default for Noticed {
    fn default() -> Self {
        Self(LruCache::sparse(NOTICED_ORIGINS_MAX))
    }
}

impl fmt::Debug for Noticed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noticed").field("origins", &self.0.len()).finish_non_exhaustive()
    }
}

/// Notices of delays and of files in an hour, of which no client takes more than it leaves. What is beyond them has
/// its notice with a later request.
pub(crate) const NOTED_MAX: u64 = 50_000;

/// Delays and files of a day that are remembered. With more, some have a second notice.
const TODAY_MAX: usize = 262_144;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What makes a delay another one.
#[derive(Clone, Copy, Debug, Hash)]
pub struct PacedKey<'a> {
    pub origin: &'a Origin,
    pub group: &'a str,
    /// As it is kept.
    pub delay: Duration,
    pub is_exempted: bool,
    /// The requests inside it are not held.
    pub is_tunnel: bool,
    /// Of the file.
    pub sha256: [u8; 32],
}

/// What makes a file of a site another one, or the lack of one.
#[derive(Clone, Copy, Debug, Hash)]
pub struct FileKey<'a> {
    pub origin: &'a Origin,
    pub robots: DecidingRobots,
}

/// Whether something has its notice of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noting {
    /// It has.
    Noted,
    /// It is to have the one of this number.
    New(u64),
    /// There is no room for one more.
    NoRoom,
}

/// The delays and files that have a notice today.
#[derive(Default)]
pub(super) struct Today {
    hasher: RandomState,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    day: u64,
    noted: HashSet<u64>,
    hour: Option<Hour>,
}

impl Today {
    /// Whether `key` has its notice today, which would bring `bytes` of evidence, and which `client` causes. It has one
    /// from now on, where there is room.
    pub(super) fn take(
        &self,
        key: &impl Hash,
        client: impl FnOnce() -> ClientKey,
        bytes: usize,
        now: Timestamp,
    ) -> Noting {
        let hash = self.hasher.hash_one(key);
        let mut state = self.state.lock();
        let today = now.millis() / DAY.as_millis() as u64;
        if state.day != today || state.noted.len() >= TODAY_MAX {
            state.day = today;
            state.noted.clear();
        }
        if state.noted.contains(&hash) {
            return Noting::Noted;
        }
        let hour = Hour::current(&mut state.hour, now);
        if !hour.take(&client(), bytes as u64, NOTED_MAX) {
            return Noting::NoRoom;
        }
        state.noted.insert(hash);
        Noting::New(hash)
    }

    /// The notice of this number could not be written: a later request has another.
    pub(super) fn forget(&self, number: u64) {
        self.state.lock().noted.remove(&number);
    }
}

impl fmt::Debug for Today {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Today").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    const NOON: Timestamp = Timestamp::from_millis(1_795_176_000_000);

    fn origin() -> Origin {
        Origin::from_authority(Scheme::Http, "a.example").unwrap()
    }

    fn client(name: &str) -> impl FnOnce() -> ClientKey {
        let key = ClientKey::User(name.into());
        move || key
    }

    #[test]
    fn a_delay_has_one_notice_a_day() {
        let (today, origin) = (Today::default(), origin());
        let key = |group, seconds| PacedKey {
            origin: &origin,
            group,
            delay: Duration::from_secs(seconds),
            is_exempted: false,
            is_tunnel: false,
            sha256: [0; 32],
        };
        let take = |key: PacedKey<'_>, now| match today.take(&key, client("a"), 100, now) {
            Noting::New(number) => Some(number),
            _ => None,
        };
        let first = take(key("*", 10), NOON).unwrap();
        assert_eq!(take(key("*", 10), NOON), None);
        assert!(take(key("bot", 10), NOON).is_some() && take(key("*", 9), NOON).is_some());
        assert!(take(PacedKey { sha256: [1; 32], ..key("*", 10) }, NOON).is_some());
        assert!(take(PacedKey { is_exempted: true, ..key("*", 10) }, NOON).is_some());
        assert!(take(PacedKey { is_tunnel: true, ..key("*", 10) }, NOON).is_some());
        assert!(take(key("*", 10), NOON.plus(DAY)).is_some(), "the next day");
        let again = take(key("*", 10), NOON.plus(2 * DAY)).unwrap();
        assert_eq!(again, first);
        today.forget(again);
        assert!(take(key("*", 10), NOON.plus(2 * DAY)).is_some(), "it was not written");
    }

    #[test]
    fn one_client_leaves_notices_for_others() {
        let (today, origin) = (Today::default(), origin());
        let take = |name: &str, seconds| {
            let delay = Duration::from_secs(seconds);
            let key = PacedKey {
                origin: &origin,
                group: "*",
                delay,
                is_exempted: false,
                is_tunnel: false,
                sha256: [0; 32],
            };
            matches!(today.take(&key, client(name), 0, NOON), Noting::New(_))
        };
        let taken = (0..2 * NOTED_MAX).filter(|seconds| take("hostile", *seconds)).count() as u64;
        assert_eq!(taken, NOTED_MAX / 2);
        assert!(take("other", 3 * NOTED_MAX));
    }
}
