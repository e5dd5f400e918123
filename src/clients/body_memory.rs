//! The budget of memory that requests in flight may reserve (`limits.body_memory`), shared fairly
//! between clients. A request reserves its minimum before it begins, or is rejected. What makes it
//! faster (larger reads, larger HTTP/2 windows) is reserved separately and only while there is
//! room, so no request ever waits for memory of a stalled one.
//!
//! The limit of a client is a dynamic threshold: a multiple of the free memory. It needs no count
//! of the clients, shrinks as more of them come, and always leaves memory for a client that has
//! none yet.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use foldhash::HashMap;
use tracing::warn;

use super::RejectReason;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// The budget in bytes where no setting applies, as in commands that fetch.
const DEFAULT_BYTES: usize = 256 << 20;

/// The minima of one client's requests may add up to this many times the free memory: seven eighths
/// of the budget where it is the only client.
const MINIMUM_SHARE: usize = 7;

/// With additional reservations, up to the free memory itself: half of the budget where it is the
/// only client.
const EXTRA_SHARE: usize = 1;

/// A shortage ends when no more than one in this many parts of the budget is reserved.
const SHORTAGE_OVER: usize = 2;

/// The reservations of all clients.
#[derive(Debug)]
pub struct BodyMemory {
    state: Lock<State>,
    refusals: AtomicU64,
    is_short: AtomicBool,
}

#[derive(Debug)]
struct State {
    limit: usize,
    reserved: usize,
    /// A client without a reservation has no entry.
    clients: HashMap<ClientKey, Share>,
}

/// The reservations of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: usize,
    requests: usize,
}

/// The limit that was reached.
enum LimitReached {
    Memory,
    Requests,
}

/// Bytes reserved for a client; released when dropped.
#[derive(Debug)]
pub struct MemoryPermit {
    key: ClientKey,
    bytes: usize,
    /// Whether it is the minimum of a request.
    is_request: bool,
    memory: Arc<BodyMemory>,
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES)
    }
}

impl BodyMemory {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let state = State { limit, reserved: 0, clients: HashMap::default() };
        Self {
            state: Lock::new(state),
            refusals: AtomicU64::new(0),
            is_short: AtomicBool::new(false),
        }
    }

    /// Replaces the budget. Existing reservations stay.
    pub fn change(&self, limit: usize) {
        self.state().limit = limit;
    }

    /// Reserves the minimum of one more request of `key`, which may have `requests_max` in flight.
    ///
    /// # Errors
    ///
    /// [`RejectReason::TooManyRequests`] if `key` has as many in flight; without room,
    /// [`RejectReason::ClientMemory`] for a client that has more than half of what is reserved, and
    /// [`RejectReason::Memory`] for any other.
    pub fn reserve_request(
        self: &Arc<Self>,
        key: ClientKey,
        bytes: usize,
        requests_max: usize,
    ) -> Result<MemoryPermit, RejectReason> {
        let taken = self.state().take(&key, bytes, MINIMUM_SHARE, Some(requests_max));
        match taken {
            Ok(()) => Ok(MemoryPermit { key, bytes, is_request: true, memory: Arc::clone(self) }),
            Err(LimitReached::Requests) => Err(RejectReason::TooManyRequests(requests_max)),
            Err(LimitReached::Memory) => Err(self.refusal(&key)),
        }
    }

    /// Reserves memory for `key` beside its requests, for the lifetime of a connection.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve_request`].
    pub fn reserve(
        self: &Arc<Self>,
        key: &ClientKey,
        bytes: usize,
    ) -> Result<MemoryPermit, RejectReason> {
        self.try_reserve(key, bytes, MINIMUM_SHARE).ok_or_else(|| self.refusal(key))
    }

    /// Reserves more than the minimum for a request of `key`, if there is room; the request
    /// continues without it otherwise.
    pub fn reserve_extra(self: &Arc<Self>, key: &ClientKey, bytes: usize) -> Option<MemoryPermit> {
        let permit = self.try_reserve(key, bytes, EXTRA_SHARE);
        if permit.is_none() {
            self.note_shortage();
        }
        permit
    }

    fn try_reserve(
        self: &Arc<Self>,
        key: &ClientKey,
        bytes: usize,
        times: usize,
    ) -> Option<MemoryPermit> {
        self.state().take(key, bytes, times, None).ok()?;
        Some(MemoryPermit { key: key.clone(), bytes, is_request: false, memory: Arc::clone(self) })
    }

    /// The reason for which there is no room for `key`.
    fn refusal(&self, key: &ClientKey) -> RejectReason {
        self.note_shortage();
        let state = self.state();
        let of_client = state.clients.get(key).map_or(0, |share| share.bytes);
        if of_client > state.reserved / 2 {
            RejectReason::ClientMemory(state.limit)
        } else {
            RejectReason::Memory(state.limit)
        }
    }

    /// Whether less than half of the budget is reserved.
    pub fn is_ample(&self) -> bool {
        let state = self.state();
        state.reserved < state.limit / 2
    }

    /// Bytes reserved, and the budget.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.reserved, state.limit)
    }

    /// How many reservations were refused for lack of room.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    fn note_shortage(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        if !self.is_short.swap(true, Ordering::Relaxed) {
            let bytes = self.counts().1;
            warn!(
                bytes,
                "memory for bodies is short: reads stay small, requests may be refused (limits.body_memory)"
            );
        }
    }

    fn release(&self, permit: &MemoryPermit) {
        let mut state = self.state();
        state.release(&permit.key, permit.bytes, usize::from(permit.is_request));
        if self.is_short.load(Ordering::Relaxed) && state.reserved <= state.limit / SHORTAGE_OVER {
            self.is_short.store(false, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Also locked while dropping, where a panic would be a second one.
        self.state.lock()
    }
}

impl State {
    /// Reserves `bytes` for `key` if its total stays within `times` the memory that is then free.
    /// With `requests_max`, counts one more request, if fewer are in flight.
    fn take(
        &mut self,
        key: &ClientKey,
        bytes: usize,
        times: usize,
        requests_max: Option<usize>,
    ) -> Result<(), LimitReached> {
        let known = self.clients.get_mut(key);
        let mut share = known.as_deref().copied().unwrap_or_default();
        if requests_max.is_some_and(|max| share.requests >= max) {
            return Err(LimitReached::Requests);
        }
        share.bytes += bytes;
        share.requests += usize::from(requests_max.is_some());
        let free = self.limit.checked_sub(self.reserved + bytes).ok_or(LimitReached::Memory)?;
        // The proxy fetches on behalf of all clients.
        if share.bytes > free.saturating_mul(times) && *key != ClientKey::Proxy {
            return Err(LimitReached::Memory);
        }
        self.reserved += bytes;
        match known {
            Some(known) => *known = share,
            None => _ = self.clients.insert(key.clone(), share),
        }
        Ok(())
    }

    fn release(&mut self, key: &ClientKey, bytes: usize, requests: usize) {
        self.reserved -= bytes;
        if let Some(share) = self.clients.get_mut(key) {
            share.bytes -= bytes;
            share.requests -= requests;
            if share.bytes == 0 && share.requests == 0 {
                self.clients.remove(key);
            }
        }
    }
}

impl MemoryPermit {
    /// Releases what exceeds this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        if surplus > 0 {
            self.memory.state().release(&self.key, surplus, 0);
            self.bytes -= surplus;
        }
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.memory.release(self);
    }
}
