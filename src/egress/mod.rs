//! Sends requests to origins: resolves a name, keeps only permitted addresses, connects to exactly
//! those, and speaks the version of HTTP that the origin prefers.
//!
//! Guarantees: no connection to an address that the policy refuses, whatever name leads to it;
//! limits on connections in use and idle; a request is sent a second time only when that is safe
//! (RFC 9110 §9.2.2). Egress follows no redirect and does not decide what may be fetched.

mod body;
mod client_share;
pub mod config;
mod connection;
mod dial;
mod dns;
mod error;
mod exchange;
mod happy_eyeballs;
mod http1;
mod http2;
mod hyper_error;
mod origin_socket;
mod parent;
mod policy;
mod pool;
mod route;
mod state;
mod tls;

use std::cell::RefCell;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::Response;
use tokio_util::sync::CancellationToken;

use crate::pace::{Lanes, Turn};
use crate::runtime::box_future;
use crate::types::origin::Origin;
pub use body::{
    InformationalListener, ReadAllowance, RequestBody, RequestProgress, ResponseBody, TimeoutBody,
    Via,
};
pub use client_share::{QueueWait, Requester};
pub use config::{Config, ConfigSnapshot, Stats};
pub use connection::BoxedRequest;
use connection::Connection;
use dial::{DialOptions, Dialer};
pub use error::{Error, Failure};
use exchange::{ExchangeKind, Retry, RetryCopy, exchange};
pub use origin_socket::OriginSocket;
pub use parent::{
    ParentAddress, ParentCredentials, ParentCredentialsError, ParentFailure, ParentHttp,
    ParentResolve, ParentRule, ParentStats, Parents,
};
pub use policy::{
    AddressBlock, AddressPolicy, HostRules, METADATA_BLOCKS, PRIVATE_BLOCKS, Prohibition,
};
use pool::Pool;
pub use state::EgressState;
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
    /// With a pool of its own.
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
        let versions = Versions::for_request(&request.head);
        let client_reads = request.body.client_reads();
        let options = DialOptions { versions, requester, client_reads };
        let connection = match self.dialer().take_idle(origin) {
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

impl Egress {
    /// Checks out a connection to `origin`, and starts the request of `turn` over it, at once or after
    /// a wait. `idle` is a connection that has been taken from the pool for it already.
    ///
    /// A connection that waits with its request is idle: the origin may close it meanwhile, and then
    /// another takes its place.
    ///
    /// # Errors
    ///
    /// No connection could be made; or the request would wait for longer than it may, or is not
    /// permitted any more.
    async fn connect_and_start<P: Permission>(
        &self,
        idle: Option<Connection>,
        (origin, options): (&Origin, DialOptions<'_>),
        turn: &mut Turn,
        permission: &P,
    ) -> Result<Connection, P::Error> {
        let connection = match idle {
            Some(idle) => idle,
            None => self.checkout(origin, options, turn).await?,
        };
        let was_queued = turn.is_queued();
        if was_queued {
            permission.look_at_client().await;
        }
        if self.try_start(turn, &connection) {
            if was_queued {
                permission.set_waiting(false);
            }
            return Ok(connection);
        }
        box_future(|| self.wait_and_start(connection, (origin, options), turn, permission)).await
    }

    /// A connection to `origin`, idle, shared or new.
    async fn checkout(
        &self,
        origin: &Origin,
        options: DialOptions<'_>,
        turn: &Turn,
    ) -> Result<Connection, Error> {
        let connected = self.dialer().checkout(origin, options).await;
        connected.inspect_err(|error| turn.note_failure(error.failure.of_pace()))
    }

    /// Starts the request of `turn` over `connection` if it need not wait; whether it has started.
    fn try_start(&self, turn: &mut Turn, connection: &Connection) -> bool {
        self.lanes().try_start(turn, self.limited_address(connection))
    }

    /// Waits until the request of `turn` has started; returns the connection that it has started
    /// over.
    ///
    /// # Errors
    ///
    /// It would wait for longer than it may, or is not permitted any more.
    async fn wait_and_start<P: Permission>(
        &self,
        mut connection: Connection,
        (origin, options): (&Origin, DialOptions<'_>),
        turn: &mut Turn,
        permission: &P,
    ) -> Result<Connection, P::Error> {
        let mut permission_age = Duration::ZERO;
        permission.set_waiting(true);
        loop {
            let address = self.limited_address(&connection);
            let waited = self.wait_until_ready(address, turn, &mut permission_age, permission);
            if let Err(error) = waited.await {
                connection.give_back(origin);
                return Err(error);
            }
            if !connection.transport.is_open() {
                connection = self.checkout(origin, options, turn).await?;
            }
            permission.look_at_client().await;
            if self.try_start(turn, &connection) {
                permission.set_waiting(false);
                return Ok(connection);
            }
        }
    }

    /// Waits until the request is likely to start over a connection to `address`, and checks its
    /// permission again if that has become too old. `permission_age` is the time that the request
    /// has waited since it was permitted.
    async fn wait_until_ready<P: Permission>(
        &self,
        address: Option<IpAddr>,
        turn: &mut Turn,
        permission_age: &mut Duration,
        permission: &P,
    ) -> Result<(), P::Error> {
        let ready = self.lanes().wait_for_start_time(turn, address, permission.shutdown());
        *permission_age += ready.await.map_err(Error::no_turn)?;
        if *permission_age <= PERMISSION_AGE_MAX {
            return Ok(());
        }
        recheck(permission, turn).await?;
        *permission_age = Duration::ZERO;
        Ok(())
    }

    /// The address that `connection` leads to, where addresses have limits.
    fn limited_address(&self, connection: &Connection) -> Option<IpAddr> {
        if self.lanes().has_address_limits() { connection.transport.peer() } else { None }
    }
}

/// Checks the permission of a request again. If that takes time, the request gives its turn
/// at the address back: a fetch of its robots.txt may be under way, and must not make the other
/// origins of the address wait.
async fn recheck<P: Permission>(permission: &P, turn: &mut Turn) -> Result<(), P::Error> {
    let mut recheck = permission.recheck();
    tokio::select! {
        biased;
        rechecked = &mut recheck => rechecked,
        () = std::future::ready(()) => {
            turn.leave_address();
            recheck.await
        }
    }
}

/// How old a permission may be when its request starts; an older one is checked again.
pub const PERMISSION_AGE_MAX: Duration = Duration::from_secs(1);

/// The result of [`Permission::recheck`].
pub type RecheckFuture<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'a>>;

/// The permission of a request: by it egress, after a long wait, asks its caller whether the request
/// is still permitted.
pub trait Permission: Sync {
    /// Why a request has no response: a failure of egress, or no permission any more.
    type Error: From<Error>;

    /// Decides on the request again. Called when it has waited for more than
    /// [`PERMISSION_AGE_MAX`].
    ///
    /// # Errors
    ///
    /// The request is not permitted any more.
    fn recheck(&self) -> RecheckFuture<'_, Self::Error>;

    /// Looks whether the client is still there, immediately before a start that others wait for.
    /// If it has left, the request ends, and this never returns.
    fn look_at_client(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Learns that the request has to wait, or starts now after a wait.
    fn set_waiting(&self, _is_waiting: bool) {}

    /// Triggered when the proxy stops.
    fn shutdown(&self) -> &CancellationToken;
}

/// The permission of a request of the proxy itself, which needs no check.
#[derive(Debug, Default)]
pub struct AlwaysPermitted(CancellationToken);

impl Permission for AlwaysPermitted {
    type Error = Error;

    fn recheck(&self) -> RecheckFuture<'_, Error> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn look_at_client(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    fn shutdown(&self) -> &CancellationToken {
        &self.0
    }
}
