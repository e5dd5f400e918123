//! What the handler of a connection's requests and the connection itself tell each other.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::BytesMut;

use crate::egress::ReadAllowance;
use crate::proxy::outcome::refusal::Refusal;

/// What the request handler tells its connection.
#[derive(Default)]
pub struct Control {
    under_way: AtomicUsize,
    exchanges: AtomicUsize,
    interim: Mutex<BytesMut>,
    has_interim: AtomicBool,
    answered: AtomicBool,
    refused: AtomicBool,
    refusal: Mutex<Option<Refusal>>,
    pathless: AtomicBool,
    received: Mutex<Option<Box<str>>>,
    is_encoded: AtomicBool,
    ended_by_client: AtomicBool,
    blocked: AtomicBool,
    unread: AtomicBool,
    released: AtomicBool,
    sequel: Mutex<Option<Sequel>>,
    taken: AtomicUsize,
    content: Arc<ReadAllowance>,
}

/// Bytes of answers that a client has to take before it is known for one that reads.
const TAKEN_BYTES_MIN: usize = 256 << 10;

/// What goes on with a connection when it has left HTTP.
pub type Sequel = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Control {
    /// Between `begin_exchange` and `end_exchange` a request is being answered.
    pub fn begin_exchange(&self) {
        self.answered.store(false, Ordering::Release);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.exchanges.fetch_add(1, Ordering::AcqRel);
    }

    pub fn end_exchange(&self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// No request is being answered.
    pub fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// How many requests have come so far.
    pub fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::Acquire)
    }

    /// What is to follow when the connection has left HTTP, after a 101 or a CONNECT. It runs where
    /// the connection ran, and is counted and ended with it.
    pub fn follow_with(&self, sequel: impl Future<Output = ()> + Send + 'static) {
        *self.sequel.lock().expect("no panic while locked") = Some(Box::pin(sequel));
        self.released.store(true, Ordering::Release);
    }

    pub fn take_sequel(&self) -> Option<Sequel> {
        self.sequel.lock().expect("no panic while locked").take()
    }

    /// The connection leaves HTTP: deadlines for requests no longer apply.
    pub fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Sends the head of an interim response before anything else (RFC 9110 §15.2).
    pub fn send_interim(&self, head: &[u8]) {
        self.interim().extend_from_slice(head);
        self.has_interim.store(true, Ordering::Release);
    }

    pub fn has_interim(&self) -> bool {
        self.has_interim.load(Ordering::Acquire)
    }

    /// What of interim responses has not been written yet.
    pub fn interim(&self) -> MutexGuard<'_, BytesMut> {
        self.interim.lock().expect("no panic while locked")
    }

    /// Whether something of them is left after a write.
    pub fn note_interim_left(&self, left: bool) {
        self.has_interim.store(left, Ordering::Release);
    }

    /// The engine has been given the response to the request under way.
    pub fn note_answer(&self) {
        self.answered.store(true, Ordering::Release);
    }

    pub fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Nothing more is read of this client, and this is why.
    pub fn refuse(&self, refusal: Refusal) {
        *self.refusal.lock().expect("no panic while locked") = Some(refusal);
        self.refused.store(true, Ordering::Release);
    }

    pub fn has_refusal(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    pub fn take_refusal(&self) -> Option<Refusal> {
        self.refusal.lock().expect("no panic while locked").take()
    }

    /// Whether the target of the request under way has neither path nor query.
    pub fn note_pathless(&self, pathless: bool) {
        self.pathless.store(pathless, Ordering::Release);
    }

    pub fn is_pathless(&self) -> bool {
        self.pathless.load(Ordering::Acquire)
    }

    /// The path and query of the request that comes next, as they came: they had to be percent-encoded.
    pub fn note_received(&self, path: Box<str>) {
        *self.received.lock().expect("no panic while locked") = Some(path);
        self.is_encoded.store(true, Ordering::Release);
    }

    /// Those of the request that has come, if they had to be.
    pub fn take_received(&self) -> Option<Box<str>> {
        let is_encoded = self.is_encoded.load(Ordering::Acquire);
        is_encoded.then(|| self.is_encoded.store(false, Ordering::Release))?;
        self.received.lock().expect("no panic while locked").take()
    }

    /// The client has ended its side, or the connection, where nothing of a request was there.
    pub fn note_ended_by_client(&self) {
        self.ended_by_client.store(true, Ordering::Release);
    }

    pub fn has_ended_by_client(&self) -> bool {
        self.ended_by_client.load(Ordering::Acquire)
    }

    /// The client did not take at once all that it was sent.
    pub fn note_blocked(&self) {
        self.blocked.store(true, Ordering::Release);
    }

    /// Whether it has yet to. Who looks is woken when it has.
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// It has taken everything now; whether that was noted as wanting.
    pub fn take_blocked(&self) -> bool {
        self.blocked.swap(false, Ordering::AcqRel)
    }

    /// The client has taken so many bytes more of its answers.
    pub fn note_taken(&self, bytes: usize) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Whether it has taken enough of them to be known for one that reads.
    pub fn is_known_to_read(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= TAKEN_BYTES_MIN
    }

    /// How much of a request's content may be read at once.
    pub const fn content_reads(&self) -> &Arc<ReadAllowance> {
        &self.content
    }

    /// A request with a body has come, which may be answered before it is read.
    pub fn may_leave_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    pub fn may_have_left_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}
