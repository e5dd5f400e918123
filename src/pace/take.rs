//! A request takes its turn: at once, after a wait, or not at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::cell::{Cell, Seat, State, Waiter, hand_over};
use super::config::{PaceMode, Subresources};
use super::hold::Hold;
use super::lane::{Admission, Arrival, Kind, WaiterId, WaitsBy};
use super::lanes::Lanes;
use super::refused::{Refused, WaitReason};
use super::tick::Tick;
use super::turn::{Role, Turn};
use super::visits::Visit;
use super::waited::Waited;
use crate::policy::pace::AskedPace;
use crate::runtime::box_future::box_future;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// What a turn is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub origin: &'a Origin,
    pub client: &'a ClientKey,
    /// The agent's; `None`: the origin's or the default.
    pub mode: Option<PaceMode>,
    /// The group of the robots.txt that applies, and what that asks.
    pub group: &'a str,
    pub asked: Option<AskedPace>,
    /// So long until the hours of Visit-time begin, and the line that says so.
    pub closed: Option<(Duration, u32)>,
    pub visit: Visit,
    pub is_robots_txt: bool,
    /// The longest that the request may wait, if that is less than `pace.max_wait`.
    pub max_wait: Option<Duration>,
    /// Triggered when the proxy stops.
    pub shutdown: &'a CancellationToken,
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Entry<'a> {
    Turn(Turn),
    Wait(Wait<'a>),
}

/// A request that has to wait.
#[derive(Debug)]
pub struct Wait<'a> {
    cell: Arc<Cell>,
    arrival: Arrival<'a>,
    /// The client whose visit begins with the start.
    visitor: Option<ClientKey>,
}

/// A request in a queue; it leaves when dropped.
struct Waiting<'a> {
    lanes: &'a Lanes,
    cell: &'a Arc<Cell>,
    client: &'a ClientKey,
    waiter: WaiterId,
    seat: oneshot::Receiver<Seat>,
    /// The reason for the wait, and the time at which it is likely to end.
    waits_by: WaitsBy,
    expected: Tick,
    /// The delay of the lane itself.
    own_delay: Duration,
}

impl Lanes {
    /// Waits for a turn of the request, as long as it may wait.
    ///
    /// # Errors
    ///
    /// Why there will be none in time.
    pub async fn take(&self, call: &Call<'_>) -> Result<Turn, Refused> {
        match self.enter(call)? {
            Entry::Turn(turn) => Ok(turn),
            Entry::Wait(wait) => box_future(|| self.wait(call, wait)).await,
        }
    }

    /// A turn of the request, if it need not wait: the common case, without a future.
    ///
    /// # Errors
    ///
    /// [`Refused::Full`]: the pace of no more origins can be remembered.
    pub fn enter<'a>(&self, call: &Call<'a>) -> Result<Entry<'a>, Refused> {
        let now = self.now();
        let (arrival, mode, begins_visit) = self.arrival(call, now);
        let begins_visit = begins_visit && mode != PaceMode::Off;
        let (deadline, visitor) =
            (now + arrival.patience, begins_visit.then(|| call.client.clone()));
        // Without a delay the next starts do not depend on this one.
        let role = if call.is_robots_txt { Role::RobotsTxt } else { Role::Undelayed };
        self.with_lane(call.origin, |cell, state| {
            let id = match mode {
                PaceMode::Enforce => match state.lane.enter(&arrival, now) {
                    Some(id) => Some(id),
                    None => return Entry::Wait(Wait { cell: Arc::clone(cell), arrival, visitor }),
                },
                PaceMode::Observe => {
                    let wait = state.lane.estimate(&arrival, now);
                    if !wait.is_zero() {
                        self.shared.stats.note_would_wait(wait);
                    }
                    Some(state.lane.observe(&arrival, now))
                }
                PaceMode::Off => None,
            };
            let seat = cell.seat(state, id, call.client.clone());
            Entry::Turn(Turn::granted(seat, role, deadline, visitor, None))
        })
    }

    /// Waits for the turn of a request that could not enter.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub async fn wait(&self, call: &Call<'_>, wait: Wait<'_>) -> Result<Turn, Refused> {
        let Wait { cell, arrival, visitor } = wait;
        let deadline = self.now() + arrival.patience;
        let role = match arrival.kind {
            Kind::Page { .. } => Role::Delayed,
            Kind::Subresource => Role::Undelayed,
            Kind::RobotsTxt => Role::RobotsTxt,
        };
        let granted = self.wait_in(&cell, call, &arrival).await;
        let (seat, waited) =
            granted.inspect_err(|refused| self.shared.stats.note_refused(refused))?;
        let mut turn = Turn::granted(seat, role, deadline, visitor, Some(waited));
        if role == Role::Delayed && self.shared.cluster.engine().is_some() {
            self.reserve(&mut turn, call, deadline).await?;
        }
        Ok(turn)
    }

    /// Reserves a slot for the turn, where several proxies share the pace.
    async fn reserve(
        &self,
        turn: &mut Turn,
        call: &Call<'_>,
        deadline: Tick,
    ) -> Result<(), Refused> {
        let reserved = if self.shared.cluster.is_stopped(self.config().away) {
            Err(Refused::EngineAway)
        } else {
            tokio::select! {
                biased;
                reserved = turn.reserve() => reserved,
                () = self.stopped_before(call.shutdown, deadline) => Err(Refused::Stopping),
            }
        };
        reserved.inspect_err(|refused| self.shared.stats.note_refused(refused))
    }

    /// Waits for the turn of a robots.txt, for at most `max_wait`: no delay and no place bounds it,
    /// but a hold does.
    ///
    /// # Errors
    ///
    /// The hold lasts longer.
    pub async fn take_for_robots_txt(
        &self,
        origin: &Origin,
        max_wait: Duration,
    ) -> Result<Turn, Refused> {
        let call = Call {
            origin,
            client: &ClientKey::Proxy,
            mode: None,
            group: "",
            asked: None,
            closed: None,
            visit: Visit::None,
            is_robots_txt: true,
            max_wait: Some(max_wait),
            shutdown: &CancellationToken::new(),
        };
        self.take(&call).await
    }

    /// The arrival of a request, the mode that applies, and whether its start begins a visit.
    fn arrival<'a>(&self, call: &Call<'a>, now: Tick) -> (Arrival<'a>, PaceMode, bool) {
        let config = self.shared.config.load();
        let mode = call.mode.unwrap_or_else(|| config.mode(call.origin));
        let has_visits = config.subresources == Subresources::Visit;
        let is_of_visit = has_visits
            && call.visit == Visit::Subresource
            && self.shared.visits.count(call.client, now);
        if call.asked.is_some_and(|asked| asked.clamped) {
            self.shared.stats.note_clamped();
        }
        let delay = call.asked.map_or(Duration::ZERO, |asked| asked.delay);
        let opens = call.closed.map(|(wait, _)| now + wait);
        // Without a delay of their own all groups are one.
        let group = if delay.is_zero() && opens.is_none() { "" } else { call.group };
        let kind = if call.is_robots_txt {
            Kind::RobotsTxt
        } else if is_of_visit {
            Kind::Subresource
        } else {
            Kind::Page { group, delay, opens }
        };
        let patience = call.max_wait.unwrap_or(config.max_wait).min(config.max_wait);
        let arrival = Arrival { client: call.client, kind, patience };
        (arrival, mode, has_visits && call.visit == Visit::Document)
    }

    async fn wait_in(
        &self,
        cell: &Arc<Cell>,
        call: &Call<'_>,
        arrival: &Arrival<'_>,
    ) -> Result<(Seat, Waited), Refused> {
        let now = self.now();
        let deadline = self.shared.ticks.instant(now + arrival.patience);
        let mut waiting = self.queue(cell, call, arrival, now)?;
        let (waits_by, own_delay) = (waiting.waits_by, waiting.own_delay);
        if let Ok(seat) = waiting.seat.try_recv() {
            // What the queue itself takes is no wait.
            return Ok((seat, waited(call, waits_by, own_delay, Duration::ZERO)));
        }
        let granted = tokio::select! {
            biased;
            granted = &mut waiting.seat => granted.ok(),
            () = sleep_until(deadline) => None,
            () = self.stopped_before(call.shutdown, waiting.expected) => {
                return Err(Refused::Stopping);
            }
        };
        // Without a turn the patience is over, or a hold has begun that is longer.
        let end = now + arrival.patience;
        let Some(seat) = granted else { return Err(self.too_late(cell, call, arrival, end)) };
        Ok((seat, waited(call, waits_by, own_delay, self.now().since(now))))
    }

    /// Queues a request that has to wait.
    fn queue<'a>(
        &'a self,
        cell: &'a Arc<Cell>,
        call: &Call<'a>,
        arrival: &Arrival<'_>,
        now: Tick,
    ) -> Result<Waiting<'a>, Refused> {
        if let Some((wait, line)) = call.closed.filter(|(wait, _)| *wait > arrival.patience) {
            return Err(Refused::Closed { wait, line });
        }
        let config = self.shared.config.load();
        let (sender, seat) = oneshot::channel();
        let mut state = cell.state.lock();
        let waits_by = state.lane.waits_by(arrival, now);
        let expected = now + state.lane.estimate(arrival, now);
        let own_delay = state.lane.own_delay(now);
        if !has_room(&state, call.client, config.max_waiting_per_origin) {
            return Err(Refused::Full);
        }
        let waiter = match state.lane.arrive(arrival, now) {
            Admission::TooLong { wait, hold } => {
                return Err(too_long(call, waits_by, wait, hold, (now, arrival.patience)));
            }
            Admission::Waits(waiter) => waiter,
        };
        if self.shared.waiting.fetch_add(1, Ordering::Relaxed) >= config.max_waiting {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            state.lane.leave(call.client, waiter);
            return Err(Refused::Full);
        }
        let entry =
            Waiter { client: call.client.clone(), seat: sender, deadline: now + arrival.patience };
        state.waiters.insert(waiter, entry);
        let granted = cell.grant(&mut state, now);
        drop(state);
        hand_over(granted);
        let client = call.client;
        Ok(Waiting { lanes: self, cell, client, waiter, seat, waits_by, expected, own_delay })
    }

    /// Why a request that has waited has no turn; its patience is over at `end`.
    fn too_late(
        &self,
        cell: &Arc<Cell>,
        call: &Call<'_>,
        arrival: &Arrival<'_>,
        end: Tick,
    ) -> Refused {
        let now = self.now();
        let state = cell.state.lock();
        let wait = state.lane.estimate(arrival, now).max(Duration::from_secs(1));
        let waits_by = state.lane.waits_by(arrival, now);
        let hold = state.lane.hold_for(call.client, now);
        too_long(call, waits_by, wait, hold, (now, end.since(now)))
    }

    /// Returns when the proxy stops, if that is too early for a start at `expected`.
    async fn stopped_before(&self, shutdown: &CancellationToken, expected: Tick) {
        shutdown.cancelled().await;
        let end = self.now() + self.shared.config.load().drain_timeout;
        if expected <= end {
            sleep_until(self.shared.ticks.instant(end)).await;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.lanes.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.cell.state.lock();
        // One that has its turn has left the queue.
        if state.waiters.remove(&self.waiter).is_some() {
            state.lane.leave(self.client, self.waiter);
            let granted = self.cell.grant(&mut state, self.lanes.now());
            drop(state);
            hand_over(granted);
        }
    }
}

/// Whether one more request of `client` may wait among at most `max`; an eighth is kept from each
/// client.
fn has_room(state: &State, client: &ClientKey, max: usize) -> bool {
    state.waiters.len() < max && state.lane.waiting_of(client) < max - max / 8
}

fn waited(call: &Call<'_>, waits_by: WaitsBy, own_delay: Duration, time: Duration) -> Waited {
    let by = WaitReason::of(waits_by, call.asked.map(|asked| asked.record));
    let is_asked = matches!(by, WaitReason::CrawlDelay | WaitReason::RequestRate);
    let asked = call.asked.filter(|_| is_asked);
    let own_delay = if by == WaitReason::Delay { own_delay } else { Duration::ZERO };
    Waited {
        time,
        by,
        line: asked.map(|asked| asked.line),
        delay: asked.map_or(own_delay, |asked| asked.delay),
    }
}

/// At `now` the request may wait for another `patience`. If the hold is shorter than that, what is
/// too long is the queue.
fn too_long(
    call: &Call<'_>,
    waits_by: WaitsBy,
    wait: Duration,
    hold: Option<Hold>,
    (now, patience): (Tick, Duration),
) -> Refused {
    let hold = hold.filter(|hold| hold.until.since(now) > patience);
    if let Some(Hold { until, status, cause }) = hold {
        return Refused::Resting { wait: until.since(now), status, cause };
    }
    let Waited { by, line, delay, .. } = waited(call, waits_by, Duration::ZERO, Duration::ZERO);
    Refused::TooLong { wait, by, line, delay }
}
