//! A connection of HTTP/1.1, which one exchange at a time uses. The engine at its end does something only
//! while it is driven: the exchange drives it in its own task, and no other task has to be woken for it.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use super::bell::Bell;
use super::bulk::{Bulk, Room};
use super::dial::Io;
use super::error::Error;
use super::exchange::connection_error;
use super::outgoing::Outgoing;
use super::pool::Pool;
use super::portions::{Portions, Signs};
use super::terms::{Standing, Terms};
use crate::clients::Held;
use crate::egress::limits::{ENGINES_FIELDS_MAX, ORIGIN_READ_BULK_BYTES, ORIGIN_READ_LARGE_BYTES};
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// Pieces of an answer that are held at most: one on its way out, one that follows and one being read.
const PIECES_HELD: usize = 3;

/// What reads and writes the messages of one connection. It ends with the connection; its errors reach
/// the exchange in use.
type Engine = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection that one exchange at a time uses.
pub struct Alone {
    sender: http1::SendRequest<Outgoing>,
    /// None when the connection has ended, and when the engine has a task of its own.
    engine: Option<Engine>,
    /// By which the engine wakes whoever drives it.
    bell: Arc<Bell>,
    standing: Standing,
    /// Where it is kept: with the worker whose runtime has its socket.
    home: Weak<Pool>,
    signs: Arc<Signs>,
    /// The engine gives none of it back.
    room: Option<Room>,
    /// What its larger pieces may take and, while it idles, what the engine keeps of that.
    memory: Option<Held>,
}

impl Alone {
    /// Begins to speak HTTP/1.1 over a stream.
    pub async fn open(
        origin: &Origin,
        stream: impl Io,
        standing: Standing,
        home: Weak<Pool>,
    ) -> Result<Box<Self>, Error> {
        let (config, signs) = (standing.config(), Arc::<Signs>::default());
        let mut builder = http1::Builder::new();
        if config.max_headers != ENGINES_FIELDS_MAX {
            builder.max_headers(config.max_headers);
        }
        let (sender, connection) = builder
            .preserve_header_case(true)
            // Of names whose case was not kept: because it is this, or because there was none in HTTP/2.
            .title_case_headers(true)
            .max_header_size(config.max_header_bytes)
            .max_buf_size(config.max_header_bytes.max(ORIGIN_READ_BULK_BYTES))
            .handshake(TokioIo::new(Portions::new(stream, Arc::clone(&signs))))
            .await
            .map_err(|error| connection_error(origin, &error))?;
        let engine: Engine = Box::pin(connection.with_upgrades());
        Ok(Box::new(Self {
            sender,
            engine: Some(engine),
            bell: Bell::new(),
            standing,
            home,
            signs,
            room: None,
            memory: None,
        }))
    }

    /// The address that it leads to.
    pub fn peer(&self) -> Option<IpAddr> {
        self.standing.peer()
    }

    /// Whether it may be used on these terms.
    pub fn holds(&mut self, origin: &Origin, terms: &Arc<Terms>) -> bool {
        self.standing.holds(origin, terms)
    }

    /// Where it is kept between two exchanges, while that is there.
    pub fn home(&self) -> Option<Arc<Pool>> {
        self.home.upgrade()
    }

    /// For an answer that comes over it, of so many bytes: to be read in the largest pieces, if there is room.
    pub fn bulk(&mut self, rights: &Arc<Semaphore>, to_come: u64) -> Option<Bulk> {
        self.room = Some(Room::take(rights, to_come)?);
        Bulk::begin(&self.signs, to_come)
    }

    /// Has the rest of the answer read in larger pieces, in the largest with `in_bulk`, where there is memory for them;
    /// whether there is.
    pub fn grow(&mut self, asker: &ClientKey, in_bulk: bool) -> bool {
        let pieces =
            PIECES_HELD * if in_bulk { ORIGIN_READ_BULK_BYTES } else { ORIGIN_READ_LARGE_BYTES };
        let memory = self.home().and_then(|home| home.memory().more(asker, pieces));
        let may_grow = memory.is_some();
        if may_grow {
            self.memory = memory;
            self.signs.may_grow.store(true, Ordering::Relaxed);
        }
        may_grow
    }

    /// Whether a large answer has come by it: the engine has made room for its pieces, and gives none of it back.
    pub fn has_grown(&self) -> bool {
        self.signs.has_grown.load(Ordering::Relaxed)
    }

    /// Whether it is to be closed after the exchange: its buffer has room for the largest pieces.
    pub const fn closes_when_idle(&self) -> bool {
        self.room.is_some()
    }

    /// Whether it is there for another exchange: both messages of the last one have been read and written
    /// whole, and nothing has come behind them.
    pub fn is_idle(&self) -> bool {
        self.sender.is_ready()
    }

    /// Nobody is woken for what happens to it until it is used again, but by the deadline of its last answer, once.
    pub fn rest(&mut self) {
        if let Some(memory) = &mut self.memory {
            let has_grown = self.signs.has_grown.load(Ordering::Relaxed);
            memory.shrink_to(if has_grown { 2 * ORIGIN_READ_LARGE_BYTES } else { 0 });
        }
        self.bell.ring_for(Waker::noop());
        self.bell.silence();
    }

    /// Whether it is still idle: where anything has happened to it, the engine looks what that was.
    pub fn is_still_idle(&mut self) -> bool {
        if self.bell.silence() {
            self.drive(Waker::noop());
        }
        self.is_idle()
    }

    /// Gives the engine a request. The answer is to be polled by [`Self::poll_driven`]; the request comes back
    /// when nothing of it was sent.
    pub fn begin(
        &mut self,
        mut request: Request<Outgoing>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>> + use<>
    {
        request.body_mut().goes_by(&self.signs);
        self.signs.may_grow.store(false, Ordering::Relaxed);
        self.bell.silence();
        // With a budget, it might wait for more of that, and not be woken by the bell.
        let answer = unconstrained(self.sender.try_send_request(request));
        self.bell.end_silence();
        answer
    }

    /// What `poll` gives, which the engine brings about.
    pub fn poll_driven<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if self.engine.is_none() {
            return poll(cx);
        }
        // What the engine brings about here, and what is done to it, is seen without being woken for it.
        let mut asleep = Context::from_waker(Waker::noop());
        self.bell.silence();
        let there = poll(&mut asleep);
        self.bell.end_silence();
        if there.is_ready() {
            return there;
        }
        self.drive(cx.waker());
        self.bell.silence();
        let polled = poll(&mut asleep);
        if self.bell.end_silence() && polled.is_pending() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn drive(&mut self, driver: &Waker) {
        let Some(engine) = &mut self.engine else { return };
        self.bell.ring_for(driver);
        let waker = Waker::from(Arc::clone(&self.bell));
        if engine.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.engine = None;
        }
    }

    /// Gives the engine a task of its own, where it has something to do that the answer does not wait for.
    pub fn detach(&mut self) {
        if let Some(engine) = self.engine.take() {
            tokio::spawn(engine);
        }
    }
}

/// The engine ends by itself when nobody can ask it for anything: what is left of a whole upload goes out, and
/// TLS is closed as it should be (RFC 9112 §9.8). It may take as long as an origin may be silent. Of an upload that never
/// becomes whole, because its client has left or its time was over, nothing is held any longer.
impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take()
            && !self.signs.is_uploading.load(Ordering::Relaxed)
            && let Ok(runtime) = Handle::try_current()
        {
            let limit = self.standing.config().body_idle_timeout;
            let kept = (self.room.take(), self.memory.take());
            runtime.spawn(async move {
                let _ = timeout(limit, engine).await;
                drop(kept);
            });
        }
    }
}

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alone").field("standing", &self.standing).finish_non_exhaustive()
    }
}
