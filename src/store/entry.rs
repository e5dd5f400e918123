//! What is known of one origin: the common copy, and what single agents got. Immutable: each change
//! makes a new entry, so readers need no lock.
//!
//! The common copy is the one that is fetched as this program alone. It decides for every agent
//! where it is known that agents get the same; where they do not, each goes by its own answer. So
//! what one agent gets decides for no other.

use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

use super::agents::{AgentAnswer, AgentAnswers, Asker, due};
use super::answer::{Answer, Making, Read, States, find_state};
use super::fetch::{FetchIdentity, Validators};
use crate::audit::PROFILES_PER_ORIGIN_MAX;
use crate::engine::LeaseToken;
use crate::policy::access::{CompletedFetch, Snapshot};
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::types::ClientKey;
use crate::types::timestamp::Timestamp;

/// Two answers within this time are of the same file, if the origin has one for all: a longer time
/// apart, a difference may be a change.
const COMPARED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// What this program alone got; and failures before any request, which concern all agents.
    pub(super) common: Answer,
    /// What single agents got, as far as it is not known to be the same.
    pub(super) agents: Option<Arc<AgentAnswers>>,
    pub(super) site_up: bool,
    /// The token under which it, or what it was made of, is published at the engine.
    pub(super) token: LeaseToken,
}

/// Whom a fetch was made as.
#[derive(Clone, Debug)]
pub(super) struct FetchedAs {
    pub(super) identity: FetchIdentity,
    pub(super) is_common: bool,
    /// The client that caused it.
    pub(super) client: ClientKey,
}

impl Entry {
    pub(super) fn unknown() -> Self {
        Self {
            common: Answer::default(),
            agents: None,
            site_up: true,
            token: LeaseToken::default(),
        }
    }

    /// The entry after `fetched`: one fetch, applied to the state of every profile, and of every
    /// agent that it concerns.
    pub(super) fn after(
        previous: Option<&Self>,
        profile: &Arc<Profile>,
        fetched_as: &FetchedAs,
        fetched: CompletedFetch,
        jitter: f64,
        read: Read<'_>,
    ) -> Self {
        let mut entry = previous.cloned().unwrap_or_else(Self::unknown);
        entry = entry.with_profile(profile, jitter, read);
        let making = Making { jitter, site_up: entry.site_up, read };
        let FetchedAs { identity, is_common, client } = fetched_as;
        let now = fetched.at;
        if fetched.concerns_all() {
            entry.common.take_up(fetched.clone(), &making);
            if let Some(agents) = entry.agents.as_mut().map(Arc::make_mut) {
                agents.0.iter_mut().for_each(|it| it.answer.take_up(fetched.clone(), &making));
            }
        } else if *is_common {
            entry.common.take_up(fetched, &making);
        } else {
            let mut agents = entry.agents.take().map(Arc::unwrap_or_clone).unwrap_or_default();
            let known = agents.take(identity).map(|known| known.answer);
            let mut answer = known.unwrap_or_else(|| entry.as_it_was());
            answer.take_up(fetched, &making);
            let (identity, client) = (identity.clone(), Some(client.clone()));
            agents.put(AgentAnswer { identity, client, answer }, now);
            entry.agents = Some(Arc::new(agents));
        }
        entry.settle();
        entry
    }

    /// What an agent without an answer goes by until it has one: the common copy, not as fresh, and
    /// nothing of its failures.
    fn as_it_was(&self) -> Answer {
        let Answer { good, states, .. } = &self.common;
        Answer { good: good.clone(), failed: None, states: due(states) }
    }

    /// Where all agents get what this program alone gets, the common copy is everybody's, and no
    /// agent needs one of its own.
    fn settle(&mut self) {
        if !self.common.is_settled() || self.differing().next().is_some() {
            return;
        }
        let common = &self.common;
        if let Some(agents) = self.agents.as_mut().map(Arc::make_mut) {
            // A newer one lives longer.
            agents.0.retain(|it| it.answer.at() > common.at());
            if agents.0.is_empty() {
                self.agents = None;
            }
        }
    }

    /// The agents that got something else than this program alone.
    fn differing(&self) -> impl Iterator<Item = &AgentAnswer> {
        let answers = self.agents.iter().flat_map(|agents| &agents.0);
        answers.filter(|it| !it.answer.agrees(&self.common))
    }

    /// Whether the common copy is everybody's, while it is current.
    fn is_for_all(&self) -> bool {
        self.common.is_of_site()
            || self.common.is_settled()
                && self.common.last().is_some_and(|last| !last.varies)
                && self.differing().next().is_none()
    }

    /// Whether all that differs from the common copy is so much newer that the file may have
    /// changed.
    fn is_outdated(&self) -> bool {
        let at = self.common.at().map(|at| at.plus(COMPARED_WITHIN));
        let mut differing = self.differing().peekable();
        differing.peek().is_some() && differing.all(|it| it.answer.at() > at)
    }

    /// What `asker` goes by at `now` under `profile`, or whom the file is to be fetched as for it;
    /// `client` has caused the lookup.
    pub(super) fn course(
        &self,
        asker: Asker<'_>,
        profile: &Arc<Profile>,
        now: Timestamp,
        client: impl FnOnce() -> ClientKey,
    ) -> Course<'_> {
        let common = &self.common;
        let agents = self.agents.as_deref();
        let place = agents.and_then(|agents| agents.of(asker)).filter(|_| !asker.is_common());
        if let Some(place) = place
            && let Some(state) = place.answer.current(profile, now)
            && !self.is_page_beside_file(place)
        {
            let refresh = state.needs_refresh(now).then_some(Whom::Agent);
            return Course::Known(View::of_agent(place), refresh);
        }
        if agents.is_none()
            && let Some(state) = common.current(profile, now)
            && self.is_for_all()
        {
            // All agents but those of another life of the copy.
            let whom = || if asker.is_common() { Whom::Common } else { Whom::Agent };
            let refresh = state.needs_refresh(now).then(whom);
            return Course::Known(View::of_common(common), refresh);
        }
        self.course_apart(asker, place, profile, (now, &client()))
    }

    /// The same, where agents may get different answers.
    #[cold]
    fn course_apart(
        &self,
        asker: Asker<'_>,
        place: Option<&AgentAnswer>,
        profile: &Arc<Profile>,
        (now, client): (Timestamp, &ClientKey),
    ) -> Course<'_> {
        let common = &self.common;
        let current = common.current(profile, now);
        let is_current = current.is_some();
        let known = |whom| {
            let is_due = current.is_some_and(|state| state.needs_refresh(now));
            let refresh = is_due.then_some(whom);
            Course::Known(View::of_common(common), refresh)
        };
        if asker.is_common() || place.is_some_and(|place| self.is_page_beside_file(place)) {
            return if is_current { known(Whom::Common) } else { Course::Fetch(Whom::Common) };
        }
        let agents = self.agents.as_deref();
        let are_others = agents.is_some_and(|agents| {
            let is_other = |it: &&AgentAnswer| !place.is_some_and(|place| std::ptr::eq(place, *it));
            agents.0.iter().filter(is_other).any(|it| it.answer.current(profile, now).is_some())
        });
        if is_current && self.is_for_all() {
            return known(if are_others { Whom::Common } else { Whom::Agent });
        }
        if place.is_none() && are_others && (!is_current || self.is_outdated()) {
            return Course::Fetch(Whom::Common);
        }
        let is_failing = place.is_none_or(|place| place.answer.failed.is_some());
        let backs_off = is_failing && agents.is_some_and(|agents| agents.backs_off(client, now));
        let is_spare = is_current && common.is_settled();
        let has_place = place.is_some() || agents.is_none_or(|it| it.has_place(is_spare, now));
        if has_place && !backs_off {
            let is_first = place.is_none() && !is_current;
            return if is_first { Course::First } else { Course::Fetch(Whom::Agent) };
        }
        match common.state(profile) {
            _ if !is_current => Course::Fetch(Whom::Common),
            Some((state, _)) if stands_in(state) => known(Whom::Common),
            _ => Course::BackOff,
        }
    }

    /// Whether an agent got a page instead of a robots.txt, where this program alone got a file.
    fn is_page_beside_file(&self, place: &AgentAnswer) -> bool {
        self.common.has_good_file() && place.answer.is_page()
    }

    /// What decided for `asker` last, current or not; `None`: nothing.
    pub(super) fn last_view(&self, asker: Asker<'_>) -> Option<View<'_>> {
        let common = View::of_common(&self.common);
        if asker.is_common() {
            return Some(common);
        }
        match self.agents.as_deref().and_then(|agents| agents.of(asker)) {
            Some(place) if self.is_page_beside_file(place) => Some(common),
            Some(place) => Some(View::of_agent(place)),
            None => (self.is_for_all() || self.is_outdated()).then_some(common),
        }
    }

    /// When the last fetch ended.
    pub(super) fn tried_at(&self) -> Option<Timestamp> {
        let own = self.agents.iter().flat_map(|agents| &agents.0).filter_map(|it| it.answer.at());
        own.chain(self.common.at()).max()
    }

    /// The entry with another site status; `None` if it is unchanged.
    pub(super) fn with_site(&self, is_up: bool) -> Option<Self> {
        (self.site_up != is_up).then(|| Self { site_up: is_up, ..self.clone() })
    }

    /// The validators of a conditional fetch for `asker`: of the copy that decided for it.
    pub(super) fn validators(
        &self,
        asker: Asker<'_>,
        profile: &Arc<Profile>,
    ) -> Option<Validators> {
        let agents = self.agents.as_deref().filter(|_| !asker.is_common());
        let place = agents.and_then(|agents| agents.of(asker));
        place.map_or(&self.common, |place| &place.answer).validators(profile)
    }

    /// All answers: the common one first.
    pub(super) fn answers(&self) -> impl Iterator<Item = &Answer> {
        let own = self.agents.iter().flat_map(|agents| &agents.0).map(|it| &it.answer);
        std::iter::once(&self.common).chain(own)
    }

    /// The entry with one more profile, whose states are derived from the stored facts.
    pub(super) fn with_profile(&self, profile: &Arc<Profile>, jitter: f64, read: Read<'_>) -> Self {
        let mut entry = self.clone();
        if entry.has_state_for(profile) {
            return entry;
        }
        if find_state(&self.common.states, profile).is_none()
            && entry.common.states.len() >= PROFILES_PER_ORIGIN_MAX
        {
            entry.drop_first_profile();
        }
        let making = Making { jitter, site_up: self.site_up, read };
        entry.common.add_profile(profile, &making);
        if let Some(agents) = entry.agents.as_mut().map(Arc::make_mut) {
            agents.0.iter_mut().for_each(|it| it.answer.add_profile(profile, &making));
        }
        entry
    }

    /// Removes the oldest profile from every list.
    fn drop_first_profile(&mut self) {
        let (_, gone) = self.common.states.remove(0);
        if let Some(agents) = self.agents.as_mut().map(Arc::make_mut) {
            let lists = agents.0.iter_mut().map(|it| &mut it.answer.states);
            lists.for_each(|states| states.retain(|(_, profile)| *profile != gone));
        }
    }

    /// Whether every agent has a state for `profile`.
    pub(super) fn has_state_for(&self, profile: &Arc<Profile>) -> bool {
        let agents = self.agents.iter().flat_map(|agents| agents.states());
        agents.chain([&self.common.states]).all(|states| find_state(states, profile).is_some())
    }
}

/// Whether this program's own answer stands in for an agent that cannot have one: not if it is
/// allowed everything only because this program was refused the file.
fn stands_in(state: &RobotsState) -> bool {
    match state {
        RobotsState::Unavailable { cause, copy: None, .. } => cause.says_there_is_none(),
        RobotsState::Unknown => false,
        _ => true,
    }
}

/// Bytes that an origin takes in memory beside its entry: its key, its place in the table and in
/// the list by last use.
const STORE_KEY_BYTES: usize = 256;
/// Bytes that a shared allocation takes in the tables that find it and count its uses: a row in two
/// tables that may be half empty.
const STORE_SHARED_BYTES: usize = 128;
/// Bytes that an allocation takes beside its content: the allocator's own, rounding, and the count
/// of its owners.
const STORE_PIECE_BYTES: usize = 48;

/// An allocation that several entries may share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Its address, which identifies it as long as an entry holds it.
    pub(super) place: usize,
    pub(super) bytes: usize,
}

impl Shared {
    /// Includes the map entry that counts its uses.
    pub(super) const fn weight(&self) -> usize {
        self.bytes + STORE_SHARED_BYTES
    }
}

impl Entry {
    /// Bytes of memory that no other entry shares, approximately: the counted allocations and their
    /// overhead.
    pub(super) fn own_weight(&self) -> usize {
        let fetched = |fetched: &CompletedFetch| {
            size_of::<CompletedFetch>()
                + piece(fetched.url.len())
                + piece(fetched.capture.json.len())
        };
        let file = |snapshot: &Arc<Snapshot>| {
            let fields = [&snapshot.content_type, &snapshot.etag, &snapshot.last_modified];
            let fields = fields.into_iter().flatten().map(|value| piece(value.len()));
            piece(size_of::<Snapshot>()) + piece(snapshot.url.len()) + fields.sum::<usize>()
        };
        let state = size_of::<(Arc<RobotsState>, Arc<Profile>)>() + piece(size_of::<RobotsState>());
        let of_answer = |answer: &Answer| {
            let facts = answer.good.iter().chain(answer.failed.as_deref()).map(fetched);
            let file = answer.snapshot().map_or(0, file);
            facts.sum::<usize>() + file + piece(answer.states.len() * state)
        };
        // Includes the short identity, in an allocation of its own.
        let agents = self.agents.as_ref().map_or(0, |agents| agents.0.len());
        let of_agents = agents * (size_of::<AgentAnswer>() + 3 * STORE_PIECE_BYTES);
        let answers: usize = self.answers().map(of_answer).sum();
        STORE_KEY_BYTES + piece(size_of::<Self>()) + answers + of_agents
    }

    /// What other entries may share: the files as received, and as parsed in each dialect.
    pub(super) fn shared(&self) -> impl Iterator<Item = Shared> {
        self.answers().flat_map(|answer| {
            let body = answer.snapshot().map(|snapshot| Shared {
                place: snapshot.body.as_ptr().addr(),
                bytes: piece(snapshot.body.len()),
            });
            let copies = answer.states.iter().filter_map(|(state, _)| state.copy());
            let rules = copies.map(|copy| Shared {
                place: Arc::as_ptr(&copy.rules).addr(),
                bytes: piece(copy.rules.weight()),
            });
            body.into_iter().chain(rules)
        })
    }

    /// Bytes of everything, as if nothing were shared.
    pub(super) fn weight(&self) -> usize {
        self.own_weight() + self.shared().map(|shared| shared.bytes).sum::<usize>()
    }

    /// The most bytes that it adds to the memory.
    pub(super) fn own_weight_and_shared(&self) -> usize {
        self.own_weight() + self.shared().map(|shared| shared.weight()).sum::<usize>()
    }
}

/// An allocation of this size, with its overhead.
const fn piece(bytes: usize) -> usize {
    bytes + STORE_PIECE_BYTES
}

/// The part of an entry that holds for one agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    answer: &'a Answer,
    /// The agent, if this holds for it alone; else it is the common copy, or of the whole site.
    pub(super) only_agent: Option<&'a FetchIdentity>,
}

/// Whom a robots.txt is fetched as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// The agent that is judged.
    Agent,
    /// This program alone.
    Common,
}

/// What follows for a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course<'a> {
    /// This decides; near the end of its time it is fetched again.
    Known(View<'a>, Option<Whom>),
    /// The agent is the first that asks, unless another is about to.
    First,
    Fetch(Whom),
    /// The file was fetched for other agents a moment ago, and failed; nothing stands in.
    BackOff,
}

impl<'a> View<'a> {
    pub(super) const fn of_common(answer: &'a Answer) -> Self {
        Self { answer, only_agent: None }
    }

    pub(super) fn of_agent(agent: &'a AgentAnswer) -> Self {
        let AgentAnswer { identity, answer, .. } = agent;
        Self { answer, only_agent: (!answer.is_of_site()).then_some(identity) }
    }

    /// One state per profile.
    pub(super) const fn states(&self) -> &'a States {
        &self.answer.states
    }

    /// The last fetch, if it returned no file.
    pub(super) const fn failed(&self) -> Option<&'a Arc<CompletedFetch>> {
        self.answer.failed.as_ref()
    }

    pub(super) const fn answer(&self) -> &'a Answer {
        self.answer
    }

    pub(super) fn state(
        &self,
        profile: &Arc<Profile>,
    ) -> Option<&'a (Arc<RobotsState>, Arc<Profile>)> {
        self.answer.state(profile)
    }
}

impl Course<'_> {
    /// Whether a fetch as `whom` is in order.
    pub(super) fn is_fetch_as(&self, whom: Whom) -> bool {
        match self {
            Self::Fetch(own) => *own == whom,
            Self::First => true,
            Self::Known(..) | Self::BackOff => false,
        }
    }
}
