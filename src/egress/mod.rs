//! Sends requests to origins: resolves a name, keeps only permitted addresses, connects to exactly
//! those, and speaks the version of HTTP that the origin prefers.
//!
//! Guarantees: no connection to an address that the policy refuses, whatever name leads to it;
//! limits on connections in use and idle; a request is sent a second time only when that is safe
//! (RFC 9110 §9.2.2). Egress follows no redirect and does not decide what may be fetched.

mod body;
pub mod boxed_request;
mod checkout;
mod config;
mod connection;
mod dial;
mod dial_parent;
mod dns;
mod error;
mod exchange;
mod happy_eyeballs;
mod http1;
mod http2;
mod hyper_error;
pub mod limits;
mod origin_socket;
mod os_error;
mod parent;
mod permission;
mod policy;
mod pool;
mod requester;
mod retry;
mod route;
mod start;
mod state;
mod stats;
mod tls;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use http::Response;
use tokio_util::sync::CancellationToken;

use crate::pace::{Lanes, Turn};
use crate::runtime::box_future::box_future;
use crate::types::origin::Origin;
pub use body::{
    InformationalListener, ReadAllowance, RequestBody, RequestProgress, ResponseBody, TimeoutBody,
    Via,
};
use boxed_request::BoxedRequest;
use checkout::DialOptions;
pub use config::{Config, ConfigSnapshot};
use dial::Dialer;
pub use error::{Error, Failure};
use exchange::{ExchangeKind, exchange};
pub use origin_socket::OriginSocket;
pub use parent::{
    ParentAddress, ParentCredentials, ParentCredentialsError, ParentFailure, ParentHttp,
    ParentResolve, ParentRule, ParentStats, Parents,
};
pub use permission::{AlwaysPermitted, PERMISSION_AGE_MAX, Permission, RecheckFuture};
pub use policy::{
    AddressBlock, AddressPolicy, HostRules, METADATA_BLOCKS, PRIVATE_BLOCKS, Prohibition,
};
use pool::Pool;
pub use requester::{QueueWait, Requester};
use retry::{Retry, RetryCopy};
pub use state::EgressState;
pub use stats::Stats;
use tls::Versions;
pub use tls::{
    PlaintextStream, PollReadable, Roots, RootsError, Tls, connector as tls_connector, is_tls_name,
};

/// One worker's access to origins, with its own pool of idle connections.
#[derive(Debug)]
pub struct Egress {
    state: Arc<EgressState>,
    pool: Arc<Pool>,
}

thread_local! {
    /// The egress of the worker that runs on this thread.
    static OF_THREAD: RefCell<Weak<Egress>> = const { RefCell::new(Weak::new()) };
}

impl Egress {
    /// With a pool whose idle connections the other workers may borrow.
    pub fn new(state: Arc<EgressState>) -> Self {
        Self { pool: state.add_pool(), state }
    }

    /// Without a pool: each connection ends with its exchange. For tasks that run on several
    /// runtimes.
    pub fn without_pool(state: Arc<EgressState>) -> Self {
        Self { pool: state.no_pool(), state }
    }

    /// Makes this the egress of this thread ([`Self::of_thread`]). The thread must run the runtime
    /// that this egress opens its connections on, and no other.
    pub fn set_for_thread(self: &Arc<Self>) {
        OF_THREAD.set(Arc::downgrade(self));
    }

    /// The egress of the worker that runs on this thread. A robots.txt fetched with it leaves a
    /// connection in the pool that the page takes: a new origin costs one handshake, not two.
    pub fn of_thread() -> Option<Arc<Self>> {
        OF_THREAD.with_borrow(Weak::upgrade)
    }

    /// The lanes, which give turns.
    pub fn lanes(&self) -> &Arc<Lanes> {
        self.state.lanes()
    }

    /// Checks that `origin` may be contacted.
    ///
    /// # Errors
    ///
    /// [`Failure::HostProhibited`], [`Failure::AddressProhibited`] or [`Failure::Loop`] when it may
    /// not; another failure when its name cannot be resolved.
    pub async fn check_permitted<'a>(
        &self,
        origin: &Origin,
        requester: impl Into<Requester<'a>>,
    ) -> Result<(), Error> {
        self.dialer().find_route(origin, requester.into()).await.map(drop)
    }

    /// Connects to a permitted address of `origin` in its `turn` and sends nothing: for a tunnel.
    /// The turn at the address follows. Before the connection is made `look` ends this, if the
    /// client has left.
    ///
    /// # Errors
    ///
    /// As [`Self::check_permitted`], and the failure of the connection attempts, or of the wait.
    pub async fn connect_plain<'a>(
        &self,
        origin: &Origin,
        requester: impl Into<Requester<'a>>,
        turn: &mut Turn,
        shutdown: &CancellationToken,
        look: impl AsyncFnOnce(),
    ) -> Result<OriginSocket, Error> {
        let (dialer, lanes) = (self.dialer(), self.lanes());
        let route = dialer.find_route(origin, requester.into()).await?;
        lanes.wait_for_start_time(turn, None, shutdown).await.map_err(Error::no_turn)?;
        if turn.is_queued() {
            look().await;
        }
        let connected = dialer.connect_socket(origin, &route).await;
        let stream = connected.inspect_err(|error| turn.note_failure(error.failure.of_pace()))?;
        let address = route.peer(&stream);
        lanes.start(turn, address, shutdown).await.map_err(Error::no_turn)?;
        turn.note_request_written();
        self.state.note_exchange(turn);
        Ok(stream)
    }

    /// Sends one request to `origin` and returns the response as soon as its head has arrived. The
    /// request is in origin-form, with the `Host` that the caller derived from `origin`. The
    /// request takes one of the exchanges of the origin and starts in its `turn`. It is sent at
    /// most twice, the second time only when that is safe. After a wait its `permission` is checked
    /// again.
    ///
    /// # Errors
    ///
    /// Why no response came; see [`Failure`].
    pub async fn send<'a, P: Permission>(
        &self,
        origin: &Origin,
        mut request: BoxedRequest<RequestBody>,
        requester: impl Into<Requester<'a>>,
        mut turn: Turn,
        permission: &P,
    ) -> Result<Response<Box<ResponseBody>>, P::Error> {
        let requester = requester.into();
        self.state.load().parents.check_method(origin, &request.head.method)?;
        let has_exchange = turn.has_exchange();
        if !has_exchange {
            box_future(|| self.wait_for_exchange(origin, requester, &mut turn)).await?;
        }
        request.body.charge_to(turn.client(), &self.state.memory);
        // Loop tokens identify the proxies that this request has passed, to find loops over parent
        // proxies.
        if !requester.loop_tokens().is_empty() {
            request.head.extensions.insert(requester.loop_tokens().clone());
        }
        let versions = Versions::for_request(&request.head);
        let client_reads = request.body.client_reads();
        let options = DialOptions { versions, requester, client_reads };
        let connection = match self.dialer().take_idle(origin, requester.loop_tokens()) {
            Some(idle) if has_exchange && self.lanes().try_start_immediately(&mut turn) => idle,
            idle => self.connect_and_start(idle, (origin, options), &mut turn, permission).await?,
        };
        let may_need_retry = connection.may_need_retry();
        let copy = if may_need_retry { RetryCopy::of(&request, versions) } else { None };
        let kind = ExchangeKind { versions, may_repeat: copy.is_some() };
        let exchanged = exchange(&self.state, connection, origin, request, turn, kind).await;
        let failed = match exchanged {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        let retry = failed.into_retry(copy, versions)?;
        box_future(|| self.send_again(origin, retry, options, permission)).await
    }

    /// Waits until the request may be one of the exchanges under way at `origin`.
    async fn wait_for_exchange(
        &self,
        origin: &Origin,
        requester: Requester<'_>,
        turn: &mut Turn,
    ) -> Result<(), Error> {
        requester.note_queued();
        let limit = self.state.load().config.connect_timeout;
        let granted = turn.wait_for_exchange(limit).await;
        granted.map_err(|none| Error::no_exchange(origin, none, limit))
    }

    /// Sends a request the second and last time, over a connection that was not idle.
    async fn send_again<P: Permission>(
        &self,
        origin: &Origin,
        Retry { request, versions, mut turn }: Retry,
        options: DialOptions<'_>,
        permission: &P,
    ) -> Result<Response<Box<ResponseBody>>, P::Error> {
        let options = DialOptions { versions, ..options };
        let connected = self.dialer().shared_or_new(origin, options).await;
        let mut connection =
            connected.inspect_err(|error| turn.note_failure(error.failure.of_pace()))?;
        // The origin may have seen the first one: the second takes a start of its own.
        turn.rearm();
        // Its client was there just now.
        if !self.try_start(&mut turn, &connection) {
            let to = (origin, options);
            connection = self.wait_and_start(connection, to, &mut turn, permission).await?;
        }
        let kind = ExchangeKind { versions, may_repeat: false };
        let second = exchange(&self.state, connection, origin, request, turn, kind).await;
        second.map_err(|failed| failed.error.into())
    }

    /// Closes connections that have idled too long or that their origin has closed.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    fn dialer(&self) -> Dialer<'_> {
        Dialer { state: &self.state, pool: &self.pool }
    }
}
