//! A request's body on its way out to an origin.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::portions::Signs;
use super::progress::Progress;
use super::unstalled::Unstalled;
use crate::clients::{BodyMemory, Held};
use crate::egress::limits::ORIGIN_READ_SMALL_BYTES;
use crate::types::client_key::ClientKey;

/// Bytes of a request's content that wait for the origin to take them: with as many, no more are taken from the
/// client. There is one piece more at most, of what its connection may read at once.
const ORIGIN_WAITING_SMALL_BYTES: usize = 16 << 10;

/// The same where the origin has taken some (`ORIGIN_READ_SMALL_BYTES`) and there is memory for it.
const ORIGIN_WAITING_BYTES_MAX: usize = 128 << 10;

/// Bytes that a body holds at most where it is read in larger pieces: what waits for the origin, and three pieces.
const LARGE_CONTENT_BYTES: usize = ORIGIN_WAITING_BYTES_MAX + 3 * (64 << 10);

/// Waits until the origin wants the body, or has answered without it.
type Hold = Pin<Box<dyn Future<Output = Wanted> + Send>>;

/// What a held body is to do.
enum Wanted {
    Body,
    /// The origin has given its final answer: the body is never asked for.
    Nothing,
}

/// Held by whoever has the answer; its drop tells a body that was not wanted that all is over.
pub type Answered = oneshot::Sender<Infallible>;

/// Hears the interim responses to a request (RFC 9110 §15.2), where these are read: over HTTP/1.1.
pub trait Listener: Send + Sync {
    fn hear(&self, status: StatusCode, fields: &HeaderMap);
}

/// A request body on its way out, and who is to know how its exchange goes. Most requests have none.
pub struct Outgoing {
    streamed: Option<Box<Streamed>>,
    progress: Arc<Progress>,
    listener: Option<Arc<dyn Listener>>,
}

/// How much of a request's content may be read at once from its client: little, until the origin has shown that it
/// takes it and there is memory for more.
#[derive(Debug, Default)]
pub struct ContentReads(AtomicBool);

impl ContentReads {
    /// Whether more than the least.
    pub fn may_be_large(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A client's body.
struct Streamed {
    body: Unstalled,
    /// With `Expect: 100-continue`, the body is not asked for before the origin wants it.
    hold: Option<Hold>,
    /// Not wanted: the request stays incomplete while its answer is read, and ends with it.
    unwanted: bool,
    answered: Option<oneshot::Receiver<Infallible>>,
    way: Option<Way>,
    charge: Option<Charge>,
    reads: Option<Arc<ContentReads>>,
}

/// From whom the memory for larger pieces is, and what there is of it.
struct Charge {
    asker: ClientKey,
    memory: Arc<BodyMemory>,
    held: Option<Held>,
    /// Bytes that the origin has been given, and with how many memory is asked for.
    given: usize,
    grows_at: usize,
}

impl Charge {
    /// Whether there is memory for larger pieces now and was none before. It is asked for when the origin has been given as
    /// much as the systems on either side hold for one that takes nothing, and once more after as much again.
    fn grows(&mut self, bytes: usize) -> bool {
        self.given = self.given.saturating_add(bytes);
        if self.held.is_some() || self.given < self.grows_at {
            return false;
        }
        self.grows_at = self.given.saturating_add(ORIGIN_READ_SMALL_BYTES);
        self.held = self.memory.more(&self.asker, LARGE_CONTENT_BYTES);
        self.held.is_some()
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if let Some(reads) = &self.reads {
            reads.0.store(false, Ordering::Relaxed);
        }
    }
}

/// The connection of its own by which a body goes.
struct Way {
    signs: Arc<Signs>,
    /// What it had taken at the last look.
    written: usize,
    /// With so many bytes that wait for it, no more are asked for.
    waiting_max: usize,
    /// Bytes of the body that wait for it. What is not content is taken for such, so they may be a few more.
    waiting: usize,
}

impl Way {
    /// Whether it has taken any since the last look.
    fn has_taken(&mut self) -> bool {
        let before =
            std::mem::replace(&mut self.written, self.signs.written.load(Ordering::Relaxed));
        let taken = self.written.wrapping_sub(before);
        self.waiting = self.waiting.saturating_sub(taken);
        taken > 0
    }

    /// Whether as much waits for it as may. Then the body is asked for when it takes any.
    fn is_full(&self) -> bool {
        let is_full = self.waiting >= self.waiting_max;
        if is_full {
            self.signs.is_awaited.store(true, Ordering::Relaxed);
        }
        is_full
    }
}

impl Outgoing {
    /// No body.
    pub fn empty() -> Self {
        Self { streamed: None, progress: Arc::new(Progress::new(true)), listener: None }
    }

    /// That of a request which is sent once more: it had none.
    pub(super) fn again(&self) -> Self {
        let (progress, listener) = (Arc::clone(&self.progress), self.listener.clone());
        Self { streamed: None, progress, listener }
    }

    /// A client's body, streamed as it comes.
    pub fn streamed(body: Unstalled) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let streamed = Streamed {
            body,
            hold: None,
            unwanted: false,
            answered: None,
            way: None,
            charge: None,
            reads: None,
        };
        Self {
            streamed: Some(Box::new(streamed)),
            progress: Arc::new(Progress::new(false)),
            listener: None,
        }
    }

    /// Holds the body back until `go` is sent, at most for `patience`: an origin that does not know
    /// the expectation says nothing, and waits for the body. When `go` is dropped, a final answer
    /// came, and the body is not sent any more (RFC 9110 §10.1.1).
    pub fn held_until(mut self, go: oneshot::Receiver<()>, patience: Duration) -> Self {
        if let Some(streamed) = &mut self.streamed {
            streamed.hold = Some(Box::pin(async move {
                match timeout(patience, go).await {
                    Ok(Err(_)) => Wanted::Nothing,
                    Ok(Ok(())) | Err(_) => Wanted::Body,
                }
            }));
        }
        self
    }

    /// Little of it is taken from its client beyond what the connection to the origin takes: the engine alone
    /// would take as much as it may read of an answer at once.
    pub(super) fn goes_by(&mut self, signs: &Arc<Signs>) {
        if let Some(streamed) = &mut self.streamed {
            let written = signs.written.load(Ordering::Relaxed);
            let waiting_max = ORIGIN_WAITING_SMALL_BYTES;
            signs.is_uploading.store(true, Ordering::Relaxed);
            streamed.way = Some(Way { signs: Arc::clone(signs), written, waiting_max, waiting: 0 });
        }
    }

    /// Says whether the client has shown that it reads what it asks for.
    #[must_use]
    pub fn read_by(self, is_read: bool) -> Self {
        self.progress.set_read(is_read);
        self
    }

    /// Whether it has.
    pub(super) fn is_read(&self) -> bool {
        self.progress.is_read()
    }

    /// Lets `reads` know when more of the body may be read at once.
    #[must_use]
    pub fn reading(mut self, reads: &Arc<ContentReads>) -> Self {
        if let Some(streamed) = &mut self.streamed {
            streamed.reads = Some(Arc::clone(reads));
        }
        self
    }

    /// What the body takes beyond the least is `asker`'s, of `memory`.
    pub(super) fn charged_to(&mut self, asker: &ClientKey, memory: &Arc<BodyMemory>) {
        if let Some(streamed) = &mut self.streamed {
            let (asker, memory) = (asker.clone(), Arc::clone(memory));
            let grows_at = ORIGIN_READ_SMALL_BYTES;
            streamed.charge = Some(Charge { asker, memory, held: None, given: 0, grows_at });
        }
    }

    /// Has `listener` hear the interim responses.
    pub fn heard_by(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Who hears the interim responses, for whoever reads them.
    pub(super) fn take_listener(&mut self) -> Option<Arc<dyn Listener>> {
        self.listener.take()
    }

    /// For a body that is held, what is to be kept with the answer.
    pub(super) fn until_answered(&mut self) -> Option<Answered> {
        let streamed = self.streamed.as_mut().filter(|streamed| streamed.hold.is_some())?;
        let (answered, over) = oneshot::channel();
        streamed.answered = Some(over);
        Some(answered)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_end_stream()
    }

    /// Whether the origin is waited for, or the client, and whether the whole body has been taken.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.streamed.as_ref().map(|streamed| &streamed.body);
        f.debug_struct("Outgoing").field("body", &body).finish_non_exhaustive()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { streamed: Some(streamed), progress, .. } = &mut *self else {
            return Poll::Ready(None);
        };
        let Streamed { body, hold, unwanted, answered, way, charge, reads } = &mut **streamed;
        if let Some(go) = hold {
            *unwanted = matches!(ready!(go.as_mut().poll(cx)), Wanted::Nothing);
            *hold = None;
        }
        if *unwanted {
            if let Some(answered) = answered {
                let _ = ready!(Pin::new(answered).poll(cx));
            }
            return Poll::Ready(Some(Err(io::Error::other(
                "the origin answered without the body",
            ))));
        }
        if let Some(way) = way {
            if way.has_taken() {
                progress.is_origins();
            }
            if way.is_full() {
                return Poll::Pending;
            }
        }
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            progress.is_clients();
            return Poll::Pending;
        };
        progress.is_origins();
        let bytes =
            frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        let grows = charge.as_mut().is_some_and(|charge| charge.grows(bytes));
        if grows && let Some(reads) = reads {
            reads.0.store(true, Ordering::Relaxed);
        }
        if let Some(way) = way {
            way.waiting += bytes;
            if grows {
                way.waiting_max = ORIGIN_WAITING_BYTES_MAX;
            }
        }
        if frame.is_none() || body.is_end_stream() {
            progress.completed();
            if let Some(way) = way {
                way.signs.is_uploading.store(false, Ordering::Relaxed);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.streamed.as_ref().is_none_or(|streamed| streamed.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.streamed
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), |streamed| streamed.body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt;

    use super::*;

    const BYTES: usize = 8 * ORIGIN_WAITING_BYTES_MAX;

    /// Has `service` see to a request with so many bytes that have all come.
    async fn with_upload<F: Future<Output = ()>>(service: impl Fn(Outgoing, Arc<Signs>) -> F) {
        let (near, mut far) = tokio::io::duplex(BYTES + 1024);
        let head =
            format!("POST / HTTP/1.1\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n");
        far.write_all(head.as_bytes()).await.unwrap();
        far.write_all(&vec![b'x'; BYTES]).await.unwrap();
        let service = service_fn(|request: Request<Incoming>| {
            let body = Unstalled::new(request.into_body(), Duration::from_secs(60));
            let (mut outgoing, signs) = (Outgoing::streamed(body), Arc::<Signs>::default());
            signs.written.store(usize::MAX - 10, Ordering::Relaxed);
            outgoing.goes_by(&signs);
            let served = service(outgoing, signs);
            async move {
                served.await;
                Ok::<_, Infallible>(Response::new(String::new()))
            }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(near), service);
        timeout(Duration::from_secs(20), serving).await.expect("it goes on").unwrap();
    }

    /// What it gives, when its connection has had its turn to bring more.
    async fn asked(outgoing: &mut Outgoing) -> Option<usize> {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        match Pin::new(outgoing).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => Some(frame?.unwrap().into_data().unwrap().len()),
            Poll::Pending => None,
        }
    }

    fn take(signs: &Signs, bytes: usize) {
        signs
            .written
            .store(signs.written.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
    }

    #[tokio::test]
    async fn no_more_is_taken_of_a_body_than_may_wait_for_an_origin_that_takes_none() {
        with_upload(|mut outgoing, signs| async move {
            let (mut given, mut written) = (0, 0);
            while given < BYTES {
                while let Some(bytes) = asked(&mut outgoing).await {
                    assert!(given - written < ORIGIN_WAITING_SMALL_BYTES, "{given} {written}");
                    given += bytes;
                }
                let is_awaited = signs.is_awaited.swap(false, Ordering::Relaxed);
                assert!(is_awaited || given == BYTES, "{given}");
                let bytes =
                    if written == 0 { given - ORIGIN_WAITING_SMALL_BYTES + 1 } else { 5_000 };
                written += bytes;
                take(&signs, bytes);
            }
        })
        .await;
    }

    #[tokio::test]
    async fn more_may_wait_for_an_origin_that_has_taken_much_where_there_is_memory() {
        for (limit, may_grow) in [(16 << 20, true), (1 << 10, false)] {
            with_upload(|mut outgoing, signs| async move {
                let (memory, reads) =
                    (Arc::new(BodyMemory::new(limit)), Arc::<ContentReads>::default());
                outgoing = outgoing.reading(&reads);
                outgoing.charged_to(&ClientKey::Proxy, &memory);
                let mut given = 0;
                while given <= ORIGIN_READ_SMALL_BYTES {
                    take(&signs, ORIGIN_WAITING_BYTES_MAX);
                    given += asked(&mut outgoing).await.expect("the origin takes all");
                }
                assert_eq!(reads.may_be_large(), may_grow);
                assert_eq!(memory.counts().0 > 0, may_grow);
                let way =
                    outgoing.streamed.as_ref().and_then(|streamed| streamed.way.as_ref()).unwrap();
                assert_eq!(way.waiting_max == ORIGIN_WAITING_BYTES_MAX, may_grow);
                drop(outgoing);
                assert_eq!((memory.counts().0, reads.may_be_large()), (0, false));
            })
            .await;
        }
    }

    #[tokio::test]
    async fn an_origin_that_takes_a_little_is_not_waited_for_in_vain() {
        with_upload(|mut outgoing, signs| async move {
            let progress = outgoing.progress();
            while asked(&mut outgoing).await.is_some() {}
            let asked_at = progress.asked_at().expect("it is the origin's turn");
            assert_eq!(asked(&mut outgoing).await, None);
            assert_eq!(progress.asked_at(), Some(asked_at), "it has taken nothing");
            take(&signs, 1);
            assert_eq!(asked(&mut outgoing).await, None, "as much waits as may");
            assert!(progress.asked_at().unwrap() > asked_at);
            take(&signs, ORIGIN_WAITING_BYTES_MAX);
            assert!(asked(&mut outgoing).await.is_some(), "there is room");
        })
        .await;
    }
}
