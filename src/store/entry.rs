//! All that is known of one origin: the last file, the last failure, and what they mean under each
//! profile that asked. Never changed, only followed by another: readers need no lock.

use std::mem::size_of;
use std::sync::Arc;

use crate::fetch::Validators;
use crate::limits::{PROFILES_PER_ORIGIN_MAX, STORE_KEY_OCTETS, STORE_PIECE_OCTETS, STORE_SHARED_OCTETS};
use crate::policy::access::{AccessResult, Fetched, Snapshot};
use crate::policy::profile::Profile;
use crate::policy::state::{Circumstances, RobotsState, Unreachable};
use crate::robots::{Dialect, RobotsTxt};

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The last answer with a file, as of its last confirmation, while any state holds a copy.
    pub(super) good: Option<Fetched>,
    /// The last answer without a file, if it came later.
    pub(super) failed: Option<Arc<Fetched>>,
    pub(super) states: Vec<(Arc<RobotsState>, Arc<Profile>)>,
    pub(super) site_up: bool,
}

/// A piece of memory that several entries may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Its address, which is its name as long as an entry has it.
    pub(super) place: usize,
    pub(super) octets: usize,
}

impl Shared {
    /// With what finds it and counts its uses.
    pub(super) const fn weight(&self) -> usize {
        self.octets + STORE_SHARED_OCTETS
    }
}

/// How a file is parsed.
pub(super) type Read<'a> = &'a dyn Fn(&Snapshot, &Dialect) -> Arc<RobotsTxt>;

impl Entry {
    /// What `fetched` makes of `previous`: one fetch, applied to the state of every profile.
    pub(super) fn after(
        previous: Option<&Self>,
        asking: &Arc<Profile>,
        fetched: Fetched,
        jitter: f64,
        read: Read<'_>,
    ) -> Self {
        let unknown = Self { good: None, failed: None, states: Vec::new(), site_up: true };
        let mut entry = previous.unwrap_or(&unknown).with_profile(asking, jitter, read);
        for (state, profile) in &mut entry.states {
            *state = Arc::new(apply(state, profile, &fetched, jitter, entry.site_up, read));
        }
        entry.remember(fetched);
        entry
    }

    /// The same origin under one more profile: its state is what it would be, had it been there.
    pub(super) fn with_profile(&self, profile: &Arc<Profile>, jitter: f64, read: Read<'_>) -> Self {
        let mut entry = self.clone();
        if entry.state(profile).is_some() {
            return entry;
        }
        let alike = |(state, other): &'_ (Arc<RobotsState>, Arc<Profile>)| {
            state.outage().filter(|_| other.meanings == profile.meanings).cloned()
        };
        let outage = self.states.iter().find_map(alike);
        let state = self.derive(profile, outage.as_ref(), jitter, read);
        if entry.states.len() >= PROFILES_PER_ORIGIN_MAX {
            entry.states.remove(0);
        }
        entry.states.push((Arc::new(state), Arc::clone(profile)));
        entry
    }

    /// What the facts are under `profile`. An `outage` that a profile of the same meanings has
    /// observed goes on.
    pub(super) fn derive(
        &self,
        profile: &Profile,
        outage: Option<&Unreachable>,
        jitter: f64,
        read: Read<'_>,
    ) -> RobotsState {
        let apply = |state, fetched| apply(&state, profile, fetched, jitter, self.site_up, read);
        let state = self.good.iter().fold(RobotsState::Unknown, apply);
        let state = match outage {
            Some(outage) => RobotsState::Unreachable(outage.before_last_failure(state.copy().cloned())),
            None => state,
        };
        self.failed.as_deref().into_iter().fold(state, apply)
    }

    /// The last attempt, where no file came of it.
    pub(super) const fn failed(&self) -> Option<&Arc<Fetched>> {
        self.failed.as_ref()
    }

    /// With other news of the site's pages; `None` where it is no news.
    pub(super) fn with_site(&self, is_up: bool) -> Option<Self> {
        (self.site_up != is_up).then(|| Self { site_up: is_up, ..self.clone() })
    }

    pub(super) fn state(&self, profile: &Arc<Profile>) -> Option<&(Arc<RobotsState>, Arc<Profile>)> {
        // Profiles are made once and shared, so the same one is nearly always the same pointer.
        let same = |(_, known): &&(_, Arc<Profile>)| Arc::ptr_eq(known, profile);
        let equal = |(_, known): &&(_, Arc<Profile>)| known == profile;
        self.states.iter().find(same).or_else(|| self.states.iter().find(equal))
    }

    /// What a refresh may ask with: only if a 304 would be understood under every profile.
    pub(super) fn validators(&self, asking: &Arc<Profile>) -> Option<Validators> {
        let Some(Fetched { result: AccessResult::Successful { snapshot, .. }, .. }) = &self.good else {
            return None;
        };
        let understands = |(state, profile): &(Arc<RobotsState>, Arc<Profile>)| {
            profile.conditional && state.copy().is_some_and(|copy| Arc::ptr_eq(&copy.snapshot, snapshot))
        };
        let has_any = snapshot.etag.is_some() || snapshot.last_modified.is_some();
        // A cut file is asked for whole again: a raised limit must get to see the rest.
        let may =
            has_any && !snapshot.cut && self.state(asking).is_some() && self.states.iter().all(understands);
        may.then(|| Validators {
            url: snapshot.url.clone(),
            etag: snapshot.etag.clone(),
            last_modified: snapshot.last_modified.clone(),
        })
    }

    /// Octets in memory of what no other entry has, roughly: what is counted here and what its pieces take
    /// beside themselves.
    pub(super) fn own_weight(&self) -> usize {
        let fetched = |fetched: &Fetched| {
            size_of::<Fetched>() + piece(fetched.url.len()) + piece(fetched.capture.json.len())
        };
        let facts: usize = self.good.iter().chain(self.failed.as_deref()).map(fetched).sum();
        let file = self.snapshot().map_or(0, |snapshot| {
            let fields = [&snapshot.content_type, &snapshot.etag, &snapshot.last_modified];
            let fields = fields.into_iter().flatten().map(|value| piece(value.len()));
            piece(size_of::<Snapshot>()) + piece(snapshot.url.len()) + fields.sum::<usize>()
        });
        let state = size_of::<(Arc<RobotsState>, Arc<Profile>)>() + piece(size_of::<RobotsState>());
        STORE_KEY_OCTETS + piece(size_of::<Self>()) + facts + file + piece(self.states.len() * state)
    }

    /// What other entries may have too: the file as it was received, and as each dialect reads it.
    pub(super) fn shared(&self) -> impl Iterator<Item = Shared> {
        let body = self.snapshot().map(|snapshot| Shared {
            place: snapshot.body.as_ptr().addr(),
            octets: piece(snapshot.body.len()),
        });
        let rules = self.states.iter().filter_map(|(state, _)| state.copy()).map(|copy| Shared {
            place: Arc::as_ptr(&copy.rules).addr(),
            octets: piece(copy.rules.weight()),
        });
        body.into_iter().chain(rules)
    }

    /// All of it, as if it were shared with nobody.
    pub(super) fn weight(&self) -> usize {
        self.own_weight() + self.shared().map(|shared| shared.octets).sum::<usize>()
    }

    /// The most that it adds to those that are ready.
    pub(super) fn weight_when_ready(&self) -> usize {
        self.own_weight() + self.shared().map(|shared| shared.weight()).sum::<usize>()
    }

    pub(super) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match &self.good.as_ref()?.result {
            AccessResult::Successful { snapshot, .. } => Some(snapshot),
            _ => None,
        }
    }

    fn remember(&mut self, fetched: Fetched) {
        match (&fetched.result, self.snapshot().map(Arc::clone)) {
            (AccessResult::Successful { .. }, _) => (self.good, self.failed) = (Some(fetched), None),
            (AccessResult::NotModified { freshness }, Some(snapshot)) => {
                // The file's evidence stays the attempt that brought it.
                let capture = snapshot.capture.clone();
                let result = AccessResult::Successful { snapshot, freshness: *freshness };
                (self.good, self.failed) = (Some(Fetched { result, capture, ..fetched }), None);
            }
            _ => self.failed = Some(Arc::new(fetched)),
        }
        // The site took the file away: nobody may find it here again.
        if self.states.iter().all(|(state, _)| state.copy().is_none()) {
            self.good = None;
        }
    }
}

/// An allocation of that many octets, with what it takes beside them.
const fn piece(octets: usize) -> usize {
    octets + STORE_PIECE_OCTETS
}

fn apply(
    state: &RobotsState,
    profile: &Profile,
    fetched: &Fetched,
    jitter: f64,
    site_up: bool,
    read: Read<'_>,
) -> RobotsState {
    let circumstances = Circumstances { now: fetched.at, jitter, site_up };
    state.after(profile, &fetched.result, &circumstances, |snapshot| read(snapshot, &profile.dialect))
}
