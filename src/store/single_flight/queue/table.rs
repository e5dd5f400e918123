//! The table of fetches under the lock: which requests wait, which fetches run, which ones to
//! cancel.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashMapExt as _};
use tokio::sync::oneshot;

use crate::clients::Turns;
use crate::runtime::clock;
use crate::store::fetch::Progress;
use crate::types::client_key::ClientKey;

/// The minimum time between two searches for fetches to cancel, while others wait.
pub const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// The bounds of concurrent fetches.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Running fetches.
    pub max: usize,
    /// Fetches waiting for a slot.
    pub queue_max: usize,
    /// How long a fetch that requests wait for runs undisturbed while others wait.
    pub patience: Duration,
}

/// Why a fetch ends without having run, or before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// No request waits for it any more.
    Left,
    /// Others need its slot, or too many wait.
    Busy,
    /// The queue has dropped it: an internal error, or the proxy shuts down.
    Aborted,
}

/// Signals a fetch to stop, with the reason.
pub type Cancel = oneshot::Receiver<Cancelled>;

/// The number of a fetch.
pub type Id = u64;

/// The fetches, and what waits for each.
#[derive(Debug)]
pub struct Table {
    bounds: Bounds,
    turns: Turns<Turn>,
    fetches: HashMap<Id, Fetch>,
    /// The running fetches in the order of their start.
    running: VecDeque<Id>,
    /// How many fetches wait for a slot, and how many have been cancelled and still run.
    queued: usize,
    stopping: usize,
    last: Id,
    /// The time of the last search for fetches to cancel, and whether a task repeats it.
    looked: Option<Instant>,
    pub(super) is_repeated: bool,
}

/// A search considers this many waiting clients, in the order of their turns.
const CLIENTS_LOOKED_AT: usize = 64;

/// A client's turn at a slot, for a fetch that it waits for.
#[derive(Debug)]
struct Turn {
    id: Id,
    client: ClientKey,
}

#[derive(Debug)]
struct Fetch {
    /// The client that caused it.
    client: ClientKey,
    /// The waiting clients, each with its number of requests.
    waiting: Vec<(ClientKey, usize)>,
    stage: Stage,
    progress: Arc<Progress>,
}

#[derive(Debug)]
enum Stage {
    /// Has not requested a slot yet, or waits for none any more.
    Idle,
    Queued(oneshot::Sender<Granted>),
    Running {
        /// The client whose share it counts against.
        client: ClientKey,
        since: Instant,
        /// `None` once it has been cancelled.
        cancel: Option<oneshot::Sender<Cancelled>>,
    },
}

/// The outcome of requesting a slot.
pub enum Entered {
    Granted(Cancel),
    Queued(oneshot::Receiver<Granted>),
    Refused,
}

/// A slot, or why there is none.
pub type Granted = Result<Cancel, Cancelled>;

/// A fetch that may be cancelled.
struct Candidate {
    id: Id,
    /// The waiting client with the fewest slots; `None` if none waits.
    owner: Option<ClientKey>,
    is_answered: bool,
}

/// The number of slots of each client, cancelled fetches excluded.
struct Holdings(HashMap<ClientKey, isize>);

impl Table {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            turns: Turns::default(),
            fetches: HashMap::new(),
            running: VecDeque::new(),
            queued: 0,
            stopping: 0,
            last: 0,
            looked: None,
            is_repeated: false,
        }
    }

    pub(super) fn change(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.grant();
    }

    pub(super) fn begin(&mut self, client: &ClientKey) -> Id {
        self.last += 1;
        let (client, progress) = (client.clone(), Arc::default());
        self.fetches
            .insert(self.last, Fetch { client, waiting: Vec::new(), stage: Stage::Idle, progress });
        self.last
    }

    pub(super) fn has_slot(&self, client: &ClientKey) -> bool {
        self.turns.has_free(client, self.bounds.max)
    }

    pub(super) fn join(&mut self, id: Id, client: &ClientKey) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        match fetch.waiting.iter_mut().find(|(key, _)| key == client) {
            Some((_, count)) => *count += 1,
            None => {
                fetch.waiting.push((client.clone(), 1));
                if matches!(fetch.stage, Stage::Queued(_)) {
                    self.queue(id, client);
                    self.grant();
                }
            }
        }
    }

    pub(super) fn leave(&mut self, id: Id, client: &ClientKey) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        let Some(at) = fetch.waiting.iter().position(|(key, _)| key == client) else { return };
        fetch.waiting[at].1 -= 1;
        if fetch.waiting[at].1 == 0 {
            fetch.waiting.swap_remove(at);
        }
        if fetch.waiting.is_empty() {
            match fetch.stage {
                Stage::Running { .. } if self.queued > self.stopping => self.stop(id),
                _ => self.dismiss(id, Cancelled::Left),
            }
        }
    }

    /// Requests a slot: at once, or in the turn of a waiting client. A fetch without a waiting
    /// client is never queued.
    pub(super) fn enter(&mut self, id: Id, progress: &Arc<Progress>) -> Entered {
        let max = self.bounds.max;
        let Some(fetch) = self.fetches.get_mut(&id) else { return Entered::Refused };
        fetch.progress = Arc::clone(progress);
        let mut clients: Vec<ClientKey> =
            fetch.waiting.iter().map(|(key, _)| key.clone()).collect();
        let is_waited_for = !clients.is_empty();
        if !is_waited_for {
            clients.push(fetch.client.clone());
        }
        if let Some(client) = clients.iter().find(|client| self.turns.take(client, max)) {
            return Entered::Granted(self.run(id, client.clone()));
        }
        if !is_waited_for {
            return Entered::Refused;
        }
        let (sender, granted) = oneshot::channel();
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.stage = Stage::Queued(sender);
        }
        self.queued += 1;
        clients.iter().for_each(|client| self.queue(id, client));
        self.grant();
        while self.queued > self.bounds.queue_max && self.drop_one() {}
        Entered::Queued(granted)
    }

    pub(super) fn end(&mut self, id: Id) {
        self.dismiss(id, Cancelled::Aborted);
        let Some(fetch) = self.fetches.remove(&id) else { return };
        if let Stage::Running { client, cancel, .. } = fetch.stage {
            self.stopping -= usize::from(cancel.is_none());
            self.turns.release(&client);
            self.running.retain(|running| *running != id);
            self.grant();
        }
    }

    /// As [`Self::look`], unless that ran a moment ago: with many clients it takes some time.
    pub(super) fn look_soon(&mut self, now: Instant) {
        if self.looked.is_none_or(|last| now.saturating_duration_since(last) >= LOOK_INTERVAL_MIN) {
            self.look(now);
        }
    }

    /// Cancels fetches for those that wait. Returns when to search again; `None` if no fetch waits,
    /// which ends the repetition.
    pub(super) fn look(&mut self, now: Instant) -> Option<Duration> {
        if self.queued == 0 {
            self.is_repeated = false;
            return None;
        }
        self.looked = Some(now);
        let mut wanted = self.queued.saturating_sub(self.stopping);
        let mut holdings = self.holdings();
        let (mut candidates, next) = self.candidates(now, &holdings);
        let clients = self.turns.clients().filter_map(|(client, mut turns)| {
            turns.any(|turn| turn.is_good(&self.fetches)).then(|| client.clone())
        });
        let mut clients: Vec<ClientKey> = clients.take(CLIENTS_LOOKED_AT).collect();
        while wanted > 0 && !clients.is_empty() && !candidates.is_empty() {
            clients.retain(|client| {
                let best = candidates
                    .iter()
                    .enumerate()
                    .filter_map(|(at, candidate)| Some((holdings.rank(candidate, client)?, at)));
                let Some((_, at)) = best.min().filter(|_| wanted > 0) else { return false };
                let Some(candidate) = candidates.remove(at) else { return false };
                if let Some(holder) = self.holder(candidate.id) {
                    *holdings.0.entry(holder).or_default() -= 1;
                }
                *holdings.0.entry(client.clone()).or_default() += 1;
                self.stop(candidate.id);
                wanted -= 1;
                true
            });
        }
        Some(next)
    }

    /// The fetches that may be cancelled, the oldest first, and the time until the next one may be.
    fn candidates(&self, now: Instant, holdings: &Holdings) -> (VecDeque<Candidate>, Duration) {
        let mut next = self.bounds.patience;
        let mut candidates = VecDeque::new();
        for id in &self.running {
            let Some(fetch) = self.fetches.get(id) else { continue };
            let Stage::Running { since, cancel: Some(_), .. } = &fetch.stage else { continue };
            let left = self.bounds.patience.saturating_sub(now.saturating_duration_since(*since));
            if !fetch.waiting.is_empty() && !left.is_zero() {
                next = next.min(left);
                continue;
            }
            let lightest = fetch.waiting.iter().min_by_key(|(key, _)| holdings.of(key));
            candidates.push_back(Candidate {
                id: *id,
                owner: lightest.map(|(key, _)| key.clone()),
                is_answered: fetch.progress.has_answer(),
            });
        }
        (candidates, next)
    }

    fn holdings(&self) -> Holdings {
        let mut holdings = Holdings(HashMap::new());
        for client in self.running.iter().filter_map(|id| self.holder(*id)) {
            *holdings.0.entry(client).or_default() += 1;
        }
        holdings
    }

    /// The client that holds the slot of a fetch, unless it has been cancelled.
    fn holder(&self, id: Id) -> Option<ClientKey> {
        match &self.fetches.get(&id)?.stage {
            Stage::Running { client, cancel: Some(_), .. } => Some(client.clone()),
            _ => None,
        }
    }

    /// Cancels a running fetch. A request that joins one without waiters starts another.
    fn stop(&mut self, id: Id) {
        if let Some(Fetch { stage: Stage::Running { cancel, .. }, waiting, .. }) =
            self.fetches.get_mut(&id)
            && let Some(cancel) = cancel.take()
        {
            let _ = cancel.send(if waiting.is_empty() { Cancelled::Left } else { Cancelled::Busy });
            self.stopping += 1;
        }
    }

    /// Adds a fetch to the queue of one client.
    fn queue(&mut self, id: Id, client: &ClientKey) {
        let Self { turns, fetches, .. } = self;
        turns.enter(client, Turn { id, client: client.clone() }, |turn| !turn.is_good(fetches));
    }

    /// Grants free slots.
    fn grant(&mut self) {
        let max = self.bounds.max;
        loop {
            let Self { turns, fetches, .. } = self;
            let Some((client, turn)) = turns.next(max, |turn| !turn.is_good(fetches)) else {
                return;
            };
            let Some(fetch) = self.fetches.get_mut(&turn.id) else { continue };
            let Stage::Queued(sender) = std::mem::replace(&mut fetch.stage, Stage::Idle) else {
                continue;
            };
            self.queued -= 1;
            let cancel = self.run(turn.id, client);
            // If the task has been dropped, its ticket is about to be.
            let _ = sender.send(Ok(cancel));
        }
    }

    /// Grants a slot to the fetch, in `client`'s share.
    fn run(&mut self, id: Id, client: ClientKey) -> Cancel {
        let (sender, cancel) = oneshot::channel();
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.stage =
                Stage::Running { client, since: clock::monotonic(), cancel: Some(sender) };
            self.running.push_back(id);
        }
        cancel
    }

    /// Removes the fetch from the queue, with the reason.
    fn dismiss(&mut self, id: Id, why: Cancelled) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        if !matches!(fetch.stage, Stage::Queued(_)) {
            return;
        }
        if let Stage::Queued(sender) = std::mem::replace(&mut fetch.stage, Stage::Idle) {
            let _ = sender.send(Err(why));
        }
        self.queued -= 1;
        if self.queued == 0 {
            self.turns.sweep(|_| true);
        }
    }

    /// Removes the newest turn of the client with the most, and the fetch from the queue if no
    /// other client waits for it.
    fn drop_one(&mut self) -> bool {
        let Some((client, turn)) = self.turns.drop_newest_of_most() else { return false };
        let Some(fetch) = self.fetches.get(&turn.id) else { return true };
        if fetch.waiting.iter().all(|(key, _)| *key == client) {
            self.dismiss(turn.id, Cancelled::Busy);
        }
        true
    }
}

impl Turn {
    /// Whether the fetch still waits for a slot, and the client for the fetch.
    fn is_good(&self, fetches: &HashMap<Id, Fetch>) -> bool {
        fetches.get(&self.id).is_some_and(|fetch| {
            matches!(fetch.stage, Stage::Queued(_))
                && fetch.waiting.iter().any(|(key, _)| *key == self.client)
        })
    }
}

impl Holdings {
    fn of(&self, client: &ClientKey) -> isize {
        self.0.get(client).copied().unwrap_or(0)
    }

    /// The order in which fetches are cancelled for `client`; `None`: not at all.
    fn rank(&self, candidate: &Candidate, client: &ClientKey) -> Option<(u8, bool, isize)> {
        let Some(owner) = &candidate.owner else { return Some((0, false, 0)) };
        let (theirs, own) = (self.of(owner), self.of(client));
        if owner == client {
            (!candidate.is_answered).then_some((2, false, 0))
        } else {
            (theirs > own + 1).then_some((1, candidate.is_answered, -theirs))
        }
    }
}
