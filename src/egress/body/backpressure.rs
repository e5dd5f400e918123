//! Limits how much of a request body waits for an origin that does not read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::io_state::IoState;
use crate::clients::{BodyMemory, MemoryPermit};
use crate::egress::limits::{
    ORIGIN_READ_SMALL_BYTES, ORIGIN_WAITING_BYTES_MAX, ORIGIN_WAITING_SMALL_BYTES,
};
use crate::types::client_key::ClientKey;

/// Bytes that a body holds at most when it is read in larger pieces: what waits for the origin, and
/// three pieces.
const LARGE_CONTENT_BYTES: usize = ORIGIN_WAITING_BYTES_MAX + 3 * (64 << 10);

/// How much of one request body waits for its HTTP/1.1 connection to take it.
#[derive(Debug)]
pub struct Backpressure {
    io: Arc<IoState>,
    /// [`IoState::written`] when it was last read.
    written: usize,
    /// With so many bytes waiting, no more are asked for.
    waiting_max: usize,
    /// Bytes of the body that wait. Framing counts as written content, so they may be a few more.
    waiting: usize,
}

impl Backpressure {
    /// For a body that is sent over the connection of `io`.
    pub fn new(io: &Arc<IoState>) -> Self {
        let written = io.written.load(Ordering::Relaxed);
        io.is_uploading.store(true, Ordering::Relaxed);
        let waiting_max = ORIGIN_WAITING_SMALL_BYTES;
        Self { io: Arc::clone(io), written, waiting_max, waiting: 0 }
    }

    /// Updates the count of waiting bytes. Returns whether the connection has taken any since the
    /// last call.
    pub fn update(&mut self) -> bool {
        let written = self.io.written.load(Ordering::Relaxed);
        let taken = written.wrapping_sub(std::mem::replace(&mut self.written, written));
        self.waiting = self.waiting.saturating_sub(taken);
        taken > 0
    }

    /// Whether the body must wait. If so, it is polled again when the connection takes bytes.
    pub fn wait_if_full(&self) -> bool {
        let is_full = self.waiting >= self.waiting_max;
        if is_full {
            self.io.is_awaited.store(true, Ordering::Relaxed);
        }
        is_full
    }

    /// Counts bytes that have been handed to hyper.
    pub const fn add(&mut self, bytes: usize) {
        self.waiting += bytes;
    }

    /// Lets more bytes wait: there is memory for them.
    pub const fn allow_more(&mut self) {
        self.waiting_max = ORIGIN_WAITING_BYTES_MAX;
    }

    /// Notes that the whole body has been handed over.
    pub fn note_complete(&self) {
        self.io.is_uploading.store(false, Ordering::Relaxed);
    }

    /// Whether more bytes may wait.
    #[cfg(test)]
    pub const fn is_large(&self) -> bool {
        self.waiting_max == ORIGIN_WAITING_BYTES_MAX
    }
}

/// The memory that one body takes beyond the least.
#[derive(Debug)]
pub struct MemoryCharge {
    client: ClientKey,
    memory: Arc<BodyMemory>,
    held: Option<MemoryPermit>,
    /// Bytes that the origin has been given.
    given: usize,
    /// At so many bytes given, memory is asked for.
    asks_at: usize,
}

impl MemoryCharge {
    /// Charges `client`, from the budget `memory`.
    pub fn new(client: &ClientKey, memory: &Arc<BodyMemory>) -> Self {
        Self {
            client: client.clone(),
            memory: Arc::clone(memory),
            held: None,
            given: 0,
            asks_at: ORIGIN_READ_SMALL_BYTES,
        }
    }

    /// Counts `bytes` given to the origin and asks for memory when the origin has taken as much as
    /// the systems on either side hold for one that reads nothing, and once more after as much
    /// again. Returns whether memory was granted now.
    pub fn add(&mut self, bytes: usize) -> bool {
        self.given = self.given.saturating_add(bytes);
        if self.held.is_some() || self.given < self.asks_at {
            return false;
        }
        self.asks_at = self.given.saturating_add(ORIGIN_READ_SMALL_BYTES);
        self.held = self.memory.reserve_extra(&self.client, LARGE_CONTENT_BYTES);
        self.held.is_some()
    }
}
