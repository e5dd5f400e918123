//! The lane of an origin or of an address, with the requests that wait in it.

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::config::WAITING_MAX;
use super::context::PaceContext;
use super::exchange_limit::{Exchanges, NewExchanges, NoExchange};
use super::hold::{BACKOFF_MAX, Cause, Hold, Outcome, first_backoff};
use super::lane::{Arrival, Awaited, Enqueued, Lane, LaneLimit, TurnId, WaiterId};
use super::lane_waits::{LaneHold, LaneWait, LongestWait, millis};
use super::no_turn::{NoTurn, Waited};
use super::tick::Tick;
use super::timer::TimerTask;
use crate::clients::ClientWaits;
use crate::engine::{self, HoldCause, HoldLength, HoldRequest};
use crate::policy::pace::SitePace;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::{Host, Origin};

/// What has a lane: an origin, or an address.
pub(super) trait Key: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The memory that it takes beside itself.
    fn heap_bytes(&self) -> usize;
}

impl Key for Origin {
    fn heap_bytes(&self) -> usize {
        match self.host() {
            Host::Name(name) => name.len(),
            Host::V4(_) | Host::V6(_) => 0,
        }
    }
}

impl Key for IpAddr {
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// One lane under its lock.
#[derive(Debug)]
pub(super) struct LaneCell<K: Key = Origin> {
    pub key: K,
    /// Its number among the cells that are due at the same time.
    number: u64,
    pub context: Arc<PaceContext>,
    /// Where the memory of all lanes of its shard is counted.
    shard_bytes: Arc<AtomicUsize>,
    pub state: Lock<State<K>>,
}

#[derive(Debug)]
pub(super) struct State<K: Key = Origin> {
    pub lane: Lane,
    pub exchanges: Exchanges,
    pub waiters: HashMap<WaiterId, Waiter<K>>,
    /// When the timer is to look at the lane.
    wake: Option<Tick>,
    /// When this proxy was last announced at the origin, for the others.
    announced: Option<Tick>,
    /// Whether a request has had a turn since then.
    had_turn_since_announced: bool,
    /// The client that its memory is counted for: the first one.
    pub owner: ClientKey,
    /// Its memory, as it is counted.
    pub counted: usize,
    /// It has been removed: a request that found it before looks again.
    pub is_removed: bool,
}

/// A waiting request.
#[derive(Debug)]
pub(super) struct Waiter<K: Key = Origin> {
    pub client: ClientKey,
    pub grant: oneshot::Sender<TurnGuard<K>>,
    /// When its longest wait ends.
    pub deadline: Tick,
    /// Since when it waits.
    since: Tick,
    /// What the site asks of it.
    site: Option<SitePace>,
}

/// A turn that was granted, and an exchange with the origin; they end when this is dropped.
#[derive(Debug)]
pub(super) struct TurnGuard<K: Key = Origin> {
    pub cell: Arc<LaneCell<K>>,
    pub client: ClientKey,
    /// `None`: the pace is off.
    pub id: Option<TurnId>,
    /// Whether it has one of the origin's exchanges; it may start without one, and wait later.
    pub has_exchange: bool,
}

/// Turns that were granted, to be sent when the lock is free: a turn that no request receives is
/// dropped, and its drop takes the lock.
pub(super) type Grants<K = Origin> = Vec<(oneshot::Sender<TurnGuard<K>>, TurnGuard<K>)>;

impl<K: Key> LaneCell<K> {
    /// With at most `max_exchanges` under way at a time.
    pub(super) fn new(
        key: K,
        (owner, lane): (ClientKey, Lane),
        max_exchanges: usize,
        shard_bytes: &Arc<AtomicUsize>,
        context: &Arc<PaceContext>,
    ) -> Arc<Self> {
        let exchanges = Exchanges::new(max_exchanges);
        let number = context.cells.fetch_add(1, Ordering::Relaxed);
        let waiters = HashMap::default();
        let state = State {
            lane,
            exchanges,
            waiters,
            wake: None,
            announced: None,
            had_turn_since_announced: false,
            owner,
            counted: 0,
            is_removed: false,
        };
        let (context, shard_bytes) = (Arc::clone(context), Arc::clone(shard_bytes));
        let cell = Self { key, number, context, shard_bytes, state: Lock::new(state) };
        cell.count_bytes(&mut cell.state.lock());
        Arc::new(cell)
    }

    /// The memory that it takes with this lane and its place in a table; that of its requests is
    /// counted with them.
    pub(super) fn bytes(&self, lane: &Lane) -> usize {
        2 * size_of::<(K, Arc<Self>)>()
            + self.key.heap_bytes()
            + size_of::<Self>()
            + lane.heap_bytes()
    }

    /// Counts the memory that it takes now; to be called when it may have become more.
    pub(super) fn count_bytes(&self, state: &mut State<K>) {
        let former = std::mem::replace(&mut state.counted, self.bytes(&state.lane));
        self.shard_bytes.fetch_add(state.counted, Ordering::Relaxed);
        self.shard_bytes.fetch_sub(former, Ordering::Relaxed);
    }

    /// Grants what may be granted at `now`, and sets the timer for the next grant.
    pub(super) fn grant_and_set_timer(
        self: &Arc<Self>,
        state: &mut State<K>,
        now: Tick,
    ) -> Grants<K> {
        let mut granted = Grants::new();
        if state.waiters.is_empty() {
            return granted;
        }
        while let Some(grant) = state.lane.grant(now) {
            match state.waiters.remove(&grant.waiter) {
                Some(Waiter { client, grant: sender, .. }) => {
                    granted.push((sender, self.issue_guard(state, Some(grant.turn), client)));
                }
                None => state.lane.end(grant.turn),
            }
        }
        let wake = state.lane.wakes_at(now);
        let is_earlier = |at: &Tick| state.wake.is_none_or(|wake| *at < wake || wake <= now);
        if let Some(at) = wake.filter(is_earlier) {
            state.wake = Some(at);
            let cell = Arc::downgrade(self) as Weak<dyn TimerTask>;
            self.context.timer.wake_at(at, self.number, cell);
        }
        granted
    }

    /// Removes the waiters that a hold that has begun lets wait too long: they learn that their
    /// turn will not come.
    pub(super) fn drop_late_waiters(state: &mut State<K>, now: Tick) {
        let State { lane, waiters, .. } = state;
        let is_late = |waiter: &Waiter<K>| {
            let hold = lane.hold_for(&waiter.client, now);
            hold.is_some_and(|hold| waiter.deadline < hold.until)
        };
        let late: Vec<_> = waiters.extract_if(|_, waiter| is_late(waiter)).collect();
        for (id, waiter) in late {
            lane.leave(&waiter.client, id);
        }
    }

    /// Runs `change`, then grants what may be granted.
    pub(super) fn update<T>(
        self: &Arc<Self>,
        now: Tick,
        change: impl FnOnce(&mut State<K>) -> T,
    ) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        let granted = self.grant_and_set_timer(&mut state, now);
        drop(state);
        send_grants(granted);
        changed
    }

    /// The guard of `client` with the turn `id`, and with an exchange if one is free.
    pub(super) fn issue_guard(
        self: &Arc<Self>,
        state: &mut State<K>,
        id: Option<TurnId>,
        client: ClientKey,
    ) -> TurnGuard<K> {
        state.had_turn_since_announced = true;
        let has_exchange = state.exchanges.take(&client);
        TurnGuard { cell: Arc::clone(self), client, id, has_exchange }
    }

    /// Tells requests that they have an exchange. Must be called without the lock: one whose
    /// request has left goes to the next.
    pub(super) fn send_exchanges(&self, mut granted: NewExchanges) {
        while let Some((client, waiter)) = granted.pop() {
            if waiter.send(()).is_err() {
                let mut state = self.state.lock();
                state.exchanges.release(&client);
                granted.extend(state.exchanges.grant());
            }
        }
    }
}

impl<K: Key> TimerTask for LaneCell<K> {
    fn wake(self: Arc<Self>, now: Tick) {
        self.update(now, |state| state.wake = None);
    }
}

impl<K: Key> State<K> {
    /// Removes it: a request that has found it before looks again.
    pub(super) fn remove(&mut self, cell: &LaneCell<K>) {
        self.is_removed = true;
        cell.shard_bytes.fetch_sub(std::mem::take(&mut self.counted), Ordering::Relaxed);
    }

    /// Counts a lane that the proxy has made for `client`, too, as that client's.
    pub(super) fn own(&mut self, client: &ClientKey) {
        if self.owner == ClientKey::Proxy {
            self.owner = client.clone();
        }
    }

    /// Whether no request waits here or is under way.
    pub(super) fn has_no_requests(&self) -> bool {
        self.waiters.is_empty() && self.exchanges.counts() == (0, 0)
    }

    /// What waits here and why; `None`: nothing waits, and there is no hold. `lane` is its name.
    pub(super) fn wait(&self, lane: &impl ToString, now: Tick) -> Option<LaneWait> {
        let hold = self.lane.hold_at(now).map(|hold| LaneHold::of(hold, now));
        let (_, for_exchange) = self.exchanges.counts();
        let queued = self.waiters.values().map(|waiter| (&waiter.client, 1));
        let ahead = self.lane.ahead(now).map(|(_, client, _)| (client, 1));
        let clients = ClientWaits::of(queued.chain(ahead));
        if hold.is_none() && for_exchange + clients.waiting == 0 {
            return None;
        }
        let (lane, longest) = (lane.to_string(), self.longest_wait(now));
        let under_way = self.lane.under_way();
        Some(LaneWait { lane, clients, under_way, for_exchange, longest, hold })
    }

    /// The request of the queue that has waited longest; without a queue, the one that has a turn.
    fn longest_wait(&self, now: Tick) -> Option<LongestWait> {
        let oldest = self.waiters.iter().min_by_key(|(_, waiter)| waiter.since);
        let (since, site, awaited) = match oldest {
            Some((id, Waiter { client, since, site, .. })) => {
                (*since, *site, self.lane.awaited(client, *id, now)?)
            }
            None => {
                let (turn, _, since) = self.lane.ahead(now).min_by_key(|(_, _, since)| *since)?;
                (since, None, self.lane.awaited_start(turn, now)?)
            }
        };
        let Awaited { limit, delay, group, next } = awaited;
        let Waited { by, line, .. } = Waited::of(limit, site, delay, Duration::ZERO);
        Some(LongestWait {
            waited_ms: millis(now.since(since)),
            by,
            delay_ms: millis(delay),
            group: group.map(str::to_owned),
            line,
            next_ms: (next > now).then(|| millis(next.since(now))),
        })
    }

    /// Whether this proxy is to be announced at the origin now: it is in use, and it was last
    /// announced an `interval` ago.
    pub(super) fn begin_announcement(&mut self, now: Tick, interval: Duration) -> bool {
        let is_due = self.announced.is_none_or(|announced| announced + interval <= now);
        if !is_due || !self.had_turn_since_announced && self.has_no_requests() {
            return false;
        }
        (self.announced, self.had_turn_since_announced) = (Some(now), false);
        true
    }

    /// Ends what a guard has.
    fn end(&mut self, guard: &TurnGuard<K>) {
        if let Some(id) = guard.id {
            self.lane.end(id);
        }
        if guard.has_exchange {
            self.exchanges.release(&guard.client);
        }
    }
}

impl<K: Key> Drop for TurnGuard<K> {
    fn drop(&mut self) {
        let cell = &self.cell;
        let mut state = cell.state.lock();
        state.end(self);
        // The common case: no request waits for what has ended.
        if state.waiters.is_empty() && !state.exchanges.is_contended() {
            return;
        }
        let exchanges = state.exchanges.grant();
        let turns = cell.grant_and_set_timer(&mut state, cell.context.clock.now());
        drop(state);
        send_grants(turns);
        cell.send_exchanges(exchanges);
    }
}

/// Sends turns to their requests. Must be called without the lock.
pub(super) fn send_grants<K: Key>(granted: Grants<K>) {
    for (sender, guard) in granted {
        let _ = sender.send(guard);
    }
}

/// A request that waits for an exchange.
struct ExchangeWait<'a> {
    guard: &'a mut TurnGuard,
    granted: oneshot::Receiver<()>,
}

impl TurnGuard {
    /// Waits for an exchange, at most for `limit`.
    ///
    /// # Errors
    ///
    /// There was none in time.
    pub(super) async fn wait_for_exchange(&mut self, limit: Duration) -> Result<(), NoExchange> {
        let since = clock::monotonic();
        let (sender, granted) = oneshot::channel();
        let new = {
            let mut state = self.cell.state.lock();
            state.exchanges.enqueue(&self.client, sender);
            state.exchanges.grant()
        };
        self.cell.send_exchanges(new);
        let mut waiting = ExchangeWait { guard: self, granted };
        let in_time = timeout(limit, &mut waiting.granted).await;
        waiting.guard.has_exchange = matches!(in_time, Ok(Ok(())));
        drop(waiting);
        let stats = &self.cell.context.stats;
        stats.exchange_waits.note(clock::monotonic() - since);
        if self.has_exchange {
            return Ok(());
        }
        stats.exchanges_rejected.fetch_add(1, Ordering::Relaxed);
        Err(NoExchange { max: self.cell.state.lock().exchanges.max() })
    }
}

impl Drop for ExchangeWait<'_> {
    /// An exchange that has been granted and not noticed is the guard's, and ends with it.
    fn drop(&mut self) {
        self.granted.close();
        self.guard.has_exchange |= self.granted.try_recv().is_ok();
    }
}

/// Holds the origin as the engine has said, some time between the two ticks, if that is longer than
/// what is known here. Late rather than early: the time that is left counts from `received`.
pub(super) fn apply_engine_hold(
    cell: &Arc<LaneCell>,
    hold: Option<engine::Hold>,
    (sent, received): (Tick, Tick),
) {
    let Some(engine::Hold { left, status, cause }) = hold else { return };
    let hold = Hold { until: received + left, status, cause: cause.into() };
    let now = cell.context.clock.now();
    let is_longer = cell.update(now, |state| {
        let own = state.lane.hold_for_all(now).map_or(now, |own| own.until);
        let is_longer = own < sent + left;
        if is_longer {
            state.lane.set_hold(hold, now);
            LaneCell::drop_late_waiters(state, now);
        }
        is_longer
    });
    cell.context.tell_hold(&cell.key, Some(hold).filter(|_| is_longer), now);
}

/// Reports the cause of a hold of all clients to the engine, and takes up the hold that applies to
/// all, in a task of its own: no request waits for it.
pub(super) fn report_hold(cell: &Arc<LaneCell>, outcome: Outcome, jitter: f64) {
    let Some(engine) = cell.context.peers.engine() else { return };
    let backoff_min = cell.context.config.load().lane.backoff_min;
    let back_off = |first: Duration| HoldLength::BackOff {
        first,
        max: BACKOFF_MAX,
        jitter: (jitter * 1000.0) as u16,
    };
    let (length, status, cause) = match outcome {
        Outcome::RetryLater { status, cause, after } => (HoldLength::For(after), status, cause),
        Outcome::Overload { status } | Outcome::Failure { status } => {
            (back_off(first_backoff(status, backoff_min)), status, Cause::BackOff)
        }
        Outcome::ConnectionLost => (back_off(first_backoff(503, backoff_min)), 503, Cause::BackOff),
        Outcome::Good | Outcome::Ignored => return,
    };
    // Submitted here, not in the task: the engine counts the hold from now.
    let sent = cell.context.clock.now();
    let request = HoldRequest { origin: &cell.key, length, status, cause: cause.into() };
    let call = engine.set_hold(request);
    let cell = Arc::clone(cell);
    spawn(async move {
        if let Ok(hold) = call.await {
            apply_engine_hold(&cell, Some(hold), (sent, cell.context.clock.now()));
        }
    });
}

/// Reports to the engine that the origin responds again.
pub(super) fn report_recovery(cell: &Arc<LaneCell>) {
    let Some(engine) = cell.context.peers.engine() else { return };
    let reset = engine.reset_backoff(&cell.key);
    spawn(async move {
        let _ = reset.await;
    });
}

/// Ends the hold for all.
pub(super) fn end_hold(cell: &Arc<LaneCell>) {
    let Some(engine) = cell.context.peers.engine() else { return };
    let end = engine.end_hold(&cell.key);
    spawn(async move {
        let _ = end.await;
    });
}

/// Outside of a runtime nothing is reported: the proxy ends.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(task);
    }
}

impl From<Cause> for HoldCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::RetryAfter => Self::RetryAfter,
            Cause::RateLimit => Self::RateLimit,
            Cause::BackOff => Self::BackOff,
        }
    }
}

impl From<HoldCause> for Cause {
    fn from(cause: HoldCause) -> Self {
        match cause {
            HoldCause::RetryAfter => Self::RetryAfter,
            HoldCause::RateLimit => Self::RateLimit,
            HoldCause::BackOff => Self::BackOff,
        }
    }
}

/// A request in a queue; it leaves when dropped.
#[derive(Debug)]
pub(super) struct QueuedRequest<'a, K: Key = Origin> {
    pub cell: Arc<LaneCell<K>>,
    client: &'a ClientKey,
    waiter: WaiterId,
    grant: oneshot::Receiver<TurnGuard<K>>,
    /// When its longest wait ends.
    deadline: Tick,
    /// The reason for the wait, and the time at which it is likely to end.
    pub limit: LaneLimit,
    pub expected: Tick,
    /// The delay of the lane itself.
    pub lane_delay: Duration,
}

/// Why a request is not queued.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotQueued {
    /// It would wait for so long, which is longer than it may wait.
    TooLong { wait: Duration, hold: Option<Hold>, limit: LaneLimit },
    /// Too many requests wait.
    Full,
}

impl<K: Key> LaneCell<K> {
    /// Queues a request that has to wait, of which the site asks that. What is granted is to be handed over without the lock.
    pub(super) fn queue<'a>(
        self: &Arc<Self>,
        state: &mut State<K>,
        (arrival, site): (&Arrival<'a>, Option<SitePace>),
        now: Tick,
    ) -> Result<(QueuedRequest<'a, K>, Grants<K>), NotQueued> {
        let Arrival { client, max_wait, .. } = *arrival;
        let max_per_lane = self.context.config.load().max_waiting_per_origin;
        let limit = state.lane.limit(arrival, now);
        let expected = now + state.lane.estimate(arrival, now);
        let lane_delay = state.lane.lane_delay(now);
        if !has_room(state, client, max_per_lane) {
            return Err(NotQueued::Full);
        }
        let waiter = match state.lane.enqueue(arrival, now) {
            Enqueued::TooLong { wait, hold } => {
                return Err(NotQueued::TooLong { wait, hold, limit });
            }
            Enqueued::Waits(waiter) => waiter,
        };
        self.count_bytes(state);
        if self.context.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.context.waiting.fetch_sub(1, Ordering::Relaxed);
            state.lane.leave(client, waiter);
            return Err(NotQueued::Full);
        }
        let (sender, grant) = oneshot::channel();
        let deadline = now + max_wait;
        let own = Waiter { client: client.clone(), grant: sender, deadline, since: now, site };
        state.waiters.insert(waiter, own);
        let granted = self.grant_and_set_timer(state, now);
        let cell = Arc::clone(self);
        Ok((
            QueuedRequest { cell, client, waiter, grant, deadline, limit, expected, lane_delay },
            granted,
        ))
    }
}

/// Whether one more request of `client` may wait among at most `max`; an eighth is kept from each
/// client.
fn has_room<K: Key>(state: &State<K>, client: &ClientKey, max: usize) -> bool {
    state.waiters.len() < max && state.lane.waiting_of(client) < max - max / 8
}

impl<K: Key> QueuedRequest<'_, K> {
    /// The turn, if it has been granted.
    pub(super) fn try_grant(&mut self) -> Option<TurnGuard<K>> {
        self.grant.try_recv().ok()
    }

    /// Waits for the turn. `None`: the request has waited for as long as it may, or it was removed
    /// from the queue.
    ///
    /// # Errors
    ///
    /// The proxy stops before the turn would come.
    pub(super) async fn wait_for_grant(
        &mut self,
        shutdown: &CancellationToken,
    ) -> Result<Option<TurnGuard<K>>, NoTurn> {
        let context = &self.cell.context;
        tokio::select! {
            biased;
            granted = &mut self.grant => Ok(granted.ok()),
            () = sleep_until(context.clock.instant(self.deadline)) => Ok(None),
            () = context.stopped_before(shutdown, || self.expected) => Err(NoTurn::Stopping),
        }
    }
}

impl<K: Key> Drop for QueuedRequest<'_, K> {
    fn drop(&mut self) {
        let context = &self.cell.context;
        context.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.cell.state.lock();
        // One that has its turn has left the queue.
        if state.waiters.remove(&self.waiter).is_some() {
            state.lane.leave(self.client, self.waiter);
            let granted = self.cell.grant_and_set_timer(&mut state, context.clock.now());
            drop(state);
            send_grants(granted);
        }
    }
}
