//! Schedules fetches: clients take turns at a bounded number of permits, and a fetch counts for
//! each client that waits for it.
//!
//! When clients wait for a permit, running fetches are cancelled for them: first those that no
//! request waits for, such as background refreshes; then, after a minimum time, one of a client
//! with more permits than the waiting one; then the client's own that no site has responded to yet.
//! A cancelled fetch says nothing about its site.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashMapExt as _};
use tokio::sync::oneshot;

use crate::clients::{ClientWaits, FairQueue};
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::store::fetch::Progress;
use crate::types::ClientKey;

/// The time between two searches for fetches to cancel, while others wait: little beside a fetch,
/// much beside a search of all of them.
const PREEMPTION_INTERVAL: Duration = Duration::from_millis(50);

/// The fetches of a store.
#[derive(Debug)]
pub struct Queue(Lock<Table>);

/// A fetch from start to end. Releases its permit when dropped.
#[derive(Debug)]
pub struct Ticket {
    id: Id,
    queue: Arc<Queue>,
}

/// What waits for a fetch, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightWait {
    /// Since the fetch began.
    pub time: Duration,
    pub clients: ClientWaits,
    /// Whether the fetch waits for others to end.
    pub is_queued: bool,
}

/// A client's request that waits for a fetch, until dropped.
#[derive(Debug)]
pub struct Interest {
    id: Id,
    client: ClientKey,
    queue: Arc<Queue>,
}

impl Queue {
    /// A queue without fetches.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self(Lock::new(Table::new(bounds))))
    }

    /// Applies new bounds.
    pub fn resize(&self, bounds: Bounds) {
        self.table().change(bounds);
    }

    /// Registers a fetch that `client` causes.
    pub fn begin(self: &Arc<Self>, client: &ClientKey) -> Ticket {
        Ticket { id: self.table().begin(client), queue: Arc::clone(self) }
    }

    /// Whether a fetch for `client` could start at once without delaying others.
    pub fn has_free_permit(&self, client: &ClientKey) -> bool {
        self.table().has_free_permit(client)
    }

    /// Of the fetches in `ids`, since when there is each, which clients wait for it, and whether it
    /// waits for a permit.
    pub fn waits(&self, ids: impl IntoIterator<Item = Id>) -> Vec<Option<FlightWait>> {
        let (table, now) = (self.table(), clock::monotonic());
        let wait = |fetch: &Fetch| FlightWait {
            time: now.saturating_duration_since(fetch.began),
            clients: ClientWaits::of(fetch.waiting.iter().map(|(key, count)| (key, *count))),
            is_queued: matches!(fetch.stage, Stage::Queued(_)),
        };
        ids.into_iter().map(|id| table.fetches.get(&id).map(wait)).collect()
    }

    /// Registers a request of `client` as waiting for a fetch.
    pub fn join(self: &Arc<Self>, id: Id, client: &ClientKey) -> Interest {
        self.table().join(id, client);
        Interest { id, client: client.clone(), queue: Arc::clone(self) }
    }

    /// Cancels fetches for those that wait, by a task as long as any does.
    fn start_canceller(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.table().has_canceller, true) {
            tokio::spawn(Canceller { queue: Arc::clone(self), has_ended: false }.run());
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also locked while dropping, where a panic would be a second one.
        self.0.lock()
    }
}

impl Ticket {
    /// The number by which requests join this fetch.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// Waits for a permit. Fails with [`CancelReason::Busy`] if too many wait, and with
    /// [`CancelReason::Abandoned`] if no request waits for this fetch any more.
    pub async fn wait_for_permit(
        &self,
        progress: &Arc<Progress>,
    ) -> Result<CancelSignal, CancelReason> {
        let outcome = self.queue.table().request_permit(self.id, progress);
        match outcome {
            PermitRequestOutcome::Granted(cancel) => Ok(cancel),
            PermitRequestOutcome::Queued(granted) => {
                self.queue.start_canceller();
                granted.await.unwrap_or(Err(CancelReason::Aborted))
            }
            PermitRequestOutcome::Refused => Err(CancelReason::Abandoned),
        }
    }
}

/// The task that cancels fetches while others wait for a permit; one for all of them.
struct Canceller {
    queue: Arc<Queue>,
    has_ended: bool,
}

impl Canceller {
    async fn run(mut self) {
        while self.queue.table().preempt(clock::monotonic()) {
            tokio::time::sleep(PREEMPTION_INTERVAL).await;
        }
        self.has_ended = true;
    }
}

impl Drop for Canceller {
    /// Dropped with a runtime that shuts down: the next fetch that waits starts another task.
    fn drop(&mut self) {
        if !self.has_ended {
            self.queue.table().has_canceller = false;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queue.table().end(self.id);
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.queue.table().leave(self.id, &self.client);
    }
}

// The table of fetches under the lock: which requests wait, which fetches run, which ones to cancel.

/// The fetches, and what waits for each.
#[derive(Debug)]
struct Table {
    bounds: Bounds,
    turns: FairQueue<Turn>,
    fetches: HashMap<Id, Fetch>,
    /// The running fetches in the order of their start.
    running: VecDeque<Id>,
    /// How many fetches wait for a permit, and how many have been cancelled and still run.
    queued: usize,
    stopping: usize,
    last: Id,
    /// Whether a task searches for fetches to cancel.
    has_canceller: bool,
}

/// A search considers this many waiting clients, in the order of their turns.
const CLIENTS_CONSIDERED_MAX: usize = 64;

impl Table {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            turns: FairQueue::default(),
            fetches: HashMap::new(),
            running: VecDeque::new(),
            queued: 0,
            stopping: 0,
            last: 0,
            has_canceller: false,
        }
    }

    fn change(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.grant();
    }

    fn begin(&mut self, client: &ClientKey) -> Id {
        self.last += 1;
        let (client, progress) = (client.clone(), Arc::default());
        let (began, waiting) = (clock::monotonic(), Vec::new());
        let fetch = Fetch { client, began, waiting, stage: Stage::Idle, progress };
        self.fetches.insert(self.last, fetch);
        self.last
    }

    fn has_free_permit(&self, client: &ClientKey) -> bool {
        self.turns.has_free(client, self.bounds.max)
    }

    fn join(&mut self, id: Id, client: &ClientKey) {
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

    fn leave(&mut self, id: Id, client: &ClientKey) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        let Some(at) = fetch.waiting.iter().position(|(key, _)| key == client) else { return };
        fetch.waiting[at].1 -= 1;
        if fetch.waiting[at].1 == 0 {
            fetch.waiting.swap_remove(at);
        }
        if fetch.waiting.is_empty() {
            match fetch.stage {
                Stage::Running { .. } if self.queued > self.stopping => self.stop(id),
                _ => self.dismiss(id, CancelReason::Abandoned),
            }
        }
    }

    /// Requests a permit: at once, or in the turn of a waiting client. A fetch without a waiting
    /// client is never queued.
    fn request_permit(&mut self, id: Id, progress: &Arc<Progress>) -> PermitRequestOutcome {
        let max = self.bounds.max;
        let Some(fetch) = self.fetches.get_mut(&id) else { return PermitRequestOutcome::Refused };
        fetch.progress = Arc::clone(progress);
        let mut clients: Vec<ClientKey> =
            fetch.waiting.iter().map(|(key, _)| key.clone()).collect();
        let is_waited_for = !clients.is_empty();
        if !is_waited_for {
            clients.push(fetch.client.clone());
        }
        if let Some(client) = clients.iter().find(|client| self.turns.take(client, max)) {
            return PermitRequestOutcome::Granted(self.run(id, client.clone()));
        }
        if !is_waited_for {
            return PermitRequestOutcome::Refused;
        }
        let (sender, granted) = oneshot::channel();
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.stage = Stage::Queued(sender);
        }
        self.queued += 1;
        clients.iter().for_each(|client| self.queue(id, client));
        self.grant();
        while self.queued > self.bounds.queue_max && self.drop_one() {}
        PermitRequestOutcome::Queued(granted)
    }

    fn end(&mut self, id: Id) {
        self.dismiss(id, CancelReason::Aborted);
        let Some(fetch) = self.fetches.remove(&id) else { return };
        if let Stage::Running { client, cancel, .. } = fetch.stage {
            self.stopping -= usize::from(cancel.is_none());
            self.turns.release(&client);
            self.running.retain(|running| *running != id);
            self.grant();
        }
    }

    /// Cancels fetches for those that wait. `false` if none waits, which ends the repetition.
    fn preempt(&mut self, now: Instant) -> bool {
        if self.queued == 0 {
            self.has_canceller = false;
            return false;
        }
        let wanted = self.queued.saturating_sub(self.stopping);
        let holdings = Holdings::new(self.running().filter_map(|(_, fetch)| fetch.holder()));
        let candidates = candidates(self.running(), &holdings, now, self.bounds.busy_wait);
        let clients = self.turns.clients().filter_map(|(client, mut turns)| {
            turns.any(|turn| turn.is_pending(&self.fetches)).then(|| client.clone())
        });
        let clients: Vec<ClientKey> = clients.take(CLIENTS_CONSIDERED_MAX).collect();
        choose(candidates, holdings, clients, wanted).into_iter().for_each(|id| self.stop(id));
        true
    }

    /// The running fetches, the oldest first.
    fn running(&self) -> impl Iterator<Item = (Id, &Fetch)> {
        self.running.iter().filter_map(|id| Some((*id, self.fetches.get(id)?)))
    }

    /// Cancels a running fetch. A request that joins one without waiters starts another.
    fn stop(&mut self, id: Id) {
        if let Some(Fetch { stage: Stage::Running { cancel, .. }, waiting, .. }) =
            self.fetches.get_mut(&id)
            && let Some(cancel) = cancel.take()
        {
            let _ = cancel.send(if waiting.is_empty() {
                CancelReason::Abandoned
            } else {
                CancelReason::Busy
            });
            self.stopping += 1;
        }
    }

    /// Adds a fetch to the queue of one client.
    fn queue(&mut self, id: Id, client: &ClientKey) {
        let Self { turns, fetches, .. } = self;
        turns
            .enqueue(client, Turn { id, client: client.clone() }, |turn| !turn.is_pending(fetches));
    }

    /// Grants free permits.
    fn grant(&mut self) {
        let max = self.bounds.max;
        loop {
            let Self { turns, fetches, .. } = self;
            let Some((client, turn)) = turns.next(max, |turn| !turn.is_pending(fetches)) else {
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

    /// Grants a permit to the fetch, in `client`'s share.
    fn run(&mut self, id: Id, client: ClientKey) -> CancelSignal {
        let (sender, cancel) = oneshot::channel();
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.stage =
                Stage::Running { client, since: clock::monotonic(), cancel: Some(sender) };
            self.running.push_back(id);
        }
        cancel
    }

    /// Removes the fetch from the queue, with the reason.
    fn dismiss(&mut self, id: Id, why: CancelReason) {
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
            self.dismiss(turn.id, CancelReason::Busy);
        }
        true
    }
}

/// The bounds of concurrent fetches.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Running fetches.
    pub max: usize,
    /// Fetches waiting for a permit.
    pub queue_max: usize,
    /// How long a fetch that requests wait for runs undisturbed while others wait.
    pub busy_wait: Duration,
}

/// Why a fetch ends without having run, or before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// No request waits for it any more.
    Abandoned,
    /// Others need its permit, or too many wait.
    Busy,
    /// The queue has dropped it: an internal error, or the proxy shuts down.
    Aborted,
}

/// Signals to a fetch that it has to stop, and why.
pub type CancelSignal = oneshot::Receiver<CancelReason>;

/// The number of a fetch.
pub type Id = u64;

/// A client's turn at a permit, for a fetch that it waits for.
#[derive(Debug)]
struct Turn {
    id: Id,
    client: ClientKey,
}

#[derive(Debug)]
struct Fetch {
    /// The client that caused it.
    client: ClientKey,
    began: Instant,
    /// The waiting clients, each with its number of requests.
    waiting: Vec<(ClientKey, usize)>,
    stage: Stage,
    progress: Arc<Progress>,
}

#[derive(Debug)]
enum Stage {
    /// Has not requested a permit yet, or waits for none any more.
    Idle,
    Queued(oneshot::Sender<PermitResult>),
    Running {
        /// The client whose share it counts against.
        client: ClientKey,
        since: Instant,
        /// `None` once it has been cancelled.
        cancel: Option<oneshot::Sender<CancelReason>>,
    },
}

/// The outcome of requesting a permit.
enum PermitRequestOutcome {
    Granted(CancelSignal),
    Queued(oneshot::Receiver<PermitResult>),
    Refused,
}

/// A permit, or why there is none.
type PermitResult = Result<CancelSignal, CancelReason>;

impl Fetch {
    /// The client that holds its permit, unless it has none or has been cancelled.
    fn holder(&self) -> Option<&ClientKey> {
        match &self.stage {
            Stage::Running { client, cancel: Some(_), .. } => Some(client),
            _ => None,
        }
    }
}

impl Turn {
    /// Whether the fetch still waits for a permit, and the client for the fetch.
    fn is_pending(&self, fetches: &HashMap<Id, Fetch>) -> bool {
        fetches.get(&self.id).is_some_and(|fetch| {
            matches!(fetch.stage, Stage::Queued(_))
                && fetch.waiting.iter().any(|(key, _)| *key == self.client)
        })
    }
}

/// A fetch that may be cancelled.
struct Candidate {
    id: Id,
    /// The client that holds its permit.
    holder: ClientKey,
    /// The waiting client with the fewest permits; `None` if none waits.
    owner: Option<ClientKey>,
    is_answered: bool,
}

/// The number of permits of each client, cancelled fetches excluded.
struct Holdings(HashMap<ClientKey, isize>);

/// The fetches of `running` that may be cancelled, in their order: `busy_wait` is how long one that
/// requests wait for runs undisturbed.
fn candidates<'a>(
    running: impl Iterator<Item = (Id, &'a Fetch)>,
    holdings: &Holdings,
    now: Instant,
    busy_wait: Duration,
) -> VecDeque<Candidate> {
    let candidate = |(id, fetch): (Id, &Fetch)| {
        let Stage::Running { client, since, cancel: Some(_) } = &fetch.stage else { return None };
        if !fetch.waiting.is_empty() && now.saturating_duration_since(*since) < busy_wait {
            return None;
        }
        let lightest = fetch.waiting.iter().min_by_key(|(key, _)| holdings.of(key));
        Some(Candidate {
            id,
            holder: client.clone(),
            owner: lightest.map(|(key, _)| key.clone()),
            is_answered: fetch.progress.has_answer(),
        })
    };
    running.filter_map(candidate).collect()
}

/// The fetches to cancel, at most `wanted` and for one client after the other in turn. `candidates`
/// are in the order of their start.
fn choose(
    mut candidates: VecDeque<Candidate>,
    mut holdings: Holdings,
    mut clients: Vec<ClientKey>,
    wanted: usize,
) -> Vec<Id> {
    let mut chosen = Vec::new();
    while chosen.len() < wanted && !clients.is_empty() && !candidates.is_empty() {
        clients.retain(|client| {
            let best = candidates
                .iter()
                .enumerate()
                .filter_map(|(at, candidate)| Some((holdings.rank(candidate, client)?, at)));
            let Some((_, at)) = best.min().filter(|_| chosen.len() < wanted) else { return false };
            let Some(candidate) = candidates.remove(at) else { return false };
            holdings.add(&candidate.holder, -1);
            holdings.add(client, 1);
            chosen.push(candidate.id);
            true
        });
    }
    chosen
}

impl Holdings {
    /// `holders`: the client of each permit.
    fn new<'a>(holders: impl Iterator<Item = &'a ClientKey>) -> Self {
        let mut holdings = Self(HashMap::new());
        holders.for_each(|client| holdings.add(client, 1));
        holdings
    }

    /// Counts one more permit of `client`, or one less.
    fn add(&mut self, client: &ClientKey, count: isize) {
        *self.0.entry(client.clone()).or_default() += count;
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const fn client(number: u8) -> ClientKey {
        ClientKey::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, number)))
    }

    /// The fetches that are cancelled for `waiting`, of those with this holder, owner and answer.
    fn chosen(running: &[(u8, Option<u8>, bool)], waiting: &[u8], wanted: usize) -> Vec<Id> {
        let holders: Vec<_> = running.iter().map(|(holder, ..)| client(*holder)).collect();
        let candidates = running.iter().zip(0..).map(|((holder, owner, is_answered), id)| {
            let (holder, owner) = (client(*holder), owner.map(client));
            Candidate { id, holder, owner, is_answered: *is_answered }
        });
        let clients = waiting.iter().map(|number| client(*number)).collect();
        choose(candidates.collect(), Holdings::new(holders.iter()), clients, wanted)
    }

    #[test]
    fn fetches_are_cancelled_in_the_order_of_their_worth() {
        for (running, waiting, wanted, expected) in [
            // Without a request that waits, before any other.
            (vec![(1, Some(1), false), (1, None, false)], vec![2], 1, vec![1]),
            // Of a client with at least two permits more; without an answer first.
            (vec![(1, Some(1), true), (1, Some(1), false)], vec![2], 1, vec![1]),
            (vec![(1, Some(1), false)], vec![2], 1, vec![]),
            (vec![(1, Some(1), false), (1, Some(1), false)], vec![2], 2, vec![0]),
            // Its own, unless that has an answer.
            (vec![(2, Some(2), false)], vec![2], 1, vec![0]),
            (vec![(2, Some(2), true)], vec![2], 1, vec![]),
            // Each client in its turn, and no more than are wanted.
            (vec![(1, Some(1), false); 4], vec![2, 3], 4, vec![0, 1]),
            (vec![(1, None, false); 4], vec![2, 3], 3, vec![0, 1, 2]),
            (vec![(1, None, false); 4], vec![], 3, vec![]),
        ] {
            let cancelled = chosen(&running, &waiting, wanted);
            assert_eq!(cancelled, expected, "{running:?} for {waiting:?}");
        }
    }
}
