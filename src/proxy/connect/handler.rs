//! Responds to a CONNECT, and begins what follows it: an interception or a tunnel.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, Response, request};
use tokio::io::{AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use super::Connect;
use super::intercept::Interception;
use super::preread::{Preread, mismatch};
use super::sni::{Mismatch, UNRECOGNIZED_NAME};
use super::tunnel::{self, IdleTimer, Pipes, copy_one_way, write_all};
use crate::audit::Reason;
use crate::clients::Client;
use crate::egress::{OriginSocket, PERMISSION_AGE_MAX, Requester};
use crate::pace::NoTurn;
use crate::proxy::connection::body::{self, Body};
use crate::proxy::connection::client_socket::ClientSocket;
use crate::proxy::connection::connection_state::ConnectionContext;
use crate::proxy::decision::decision_context::{RequestInfo, Subject};
use crate::proxy::decision::gate::HostPermit;
use crate::proxy::decision::revocation::Revocation;
use crate::proxy::decision::rules::MixedHosts;
use crate::proxy::handle::{CurrentProxy, Proxy};
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::observe::request_metrics::RequestOutcome;
use crate::proxy::rejection::{Refusal, Rejection};
use crate::proxy::upgrade::PendingSocket;
use crate::proxy::{LINGER, response};
use crate::runtime::{box_future, clock};
use crate::types::origin::Origin;

impl Proxy {
    /// Responds to the CONNECT of `head`, whose client has `socket`. What follows a 200 begins when
    /// the client has received it; requests inside are served by `current`.
    pub(in crate::proxy) async fn connect(
        &self,
        head: &request::Parts,
        socket: PendingSocket,
        client: &Client,
        context: &ConnectionContext,
        current: &CurrentProxy,
        entry: &AccessEntry,
    ) -> Result<Response<Body>, Refusal> {
        let user_agent = head.headers.get(USER_AGENT);
        let info = RequestInfo { client, method: &head.method, user_agent, entry };
        match self.https.connect(head, &context.scope)? {
            Connect::Intercept(origin) => {
                self.intercept(socket, origin, info, context, current).await
            }
            Connect::PortNotAllowed(origin) => {
                let error = self.gate.deny_port(&origin, info).await;
                let subject = Subject::Host(&origin);
                self.metrics.begin(subject, entry).finish(Err(error.into()))
            }
            Connect::Classify(origin, mixed) => {
                let pending = self.metrics.begin(Subject::Host(&origin), entry);
                let tunnelled =
                    self.tunnel(socket, origin, mixed, (info, &head.headers), context).await;
                pending
                    .finish(tunnelled.map(|()| (RequestOutcome::Forwarded, response::connected())))
            }
        }
    }

    /// Checks that requests to `origin` can be served, and intercepts the connection. An
    /// intercepted CONNECT is not counted as a request, unless it is refused: the requests inside
    /// are.
    async fn intercept(
        &self,
        socket: PendingSocket,
        origin: Origin,
        info: RequestInfo<'_>,
        context: &ConnectionContext,
        current: &CurrentProxy,
    ) -> Result<Response<Body>, Refusal> {
        // Port 80 is for plain HTTP, as of WebSockets, which needs no certificate.
        if origin.port() != 80
            && let Some(invalidity) = self.leaves.refusal()
        {
            let rejection = Rejection::ca_not_valid(&invalidity);
            let pending = self.metrics.begin(Subject::Host(&origin), info.entry);
            return pending.finish(Err(rejection.into()));
        }
        let since = clock::monotonic();
        let egress = &self.forwarding.egress;
        if let Err(error) = self.gate.check_address(&origin, info, egress).await {
            let pending = self.metrics.begin(Subject::Host(&origin), info.entry);
            return pending.since(since).finish(Err(error.into()));
        }
        let permit = self.admission.reserve_memory(info.client, body::MULTIPLEXED_BYTES)?;
        let inside = context.after_connect(info.client);
        let interception = Interception { origin, info: info.into(), current: Arc::clone(current) };
        let is_stream = socket.is_stream();
        begin(context, is_stream, interception.run(socket, inside, permit));
        Ok(response::connected())
    }

    /// Decides on a host as a whole, and connects the client with it.
    async fn tunnel(
        &self,
        socket: PendingSocket,
        origin: Origin,
        mixed: MixedHosts,
        (info, headers): (RequestInfo<'_>, &HeaderMap),
        context: &ConnectionContext,
    ) -> Result<(), Refusal> {
        let permit = self.gate.decide_host(origin, info, mixed).await?;
        let without_turn = |no_turn: &NoTurn| permit.pace().rejection(no_turn, permit.site());
        if let Some(no_turn) = permit.pace().rest() {
            return Err(without_turn(no_turn).into());
        }
        let key = info.client.key();
        let turn_request =
            permit.pace().turn_request(permit.origin(), &key, Some(headers), &context.shutdown);
        // Until its connection is there it has not started.
        info.entry.set_waiting(true);
        let turn = self.forwarding.egress.lanes().acquire(&turn_request).await;
        let mut turn = turn.map_err(|no_turn| without_turn(&no_turn))?;
        let waited = turn.waited();
        waited.iter().for_each(|waited| info.entry.note_waited(waited));
        if waited.is_some_and(|waited| waited.time > PERMISSION_AGE_MAX) {
            self.gate.recheck_host(&permit, info, mixed).await?;
        }
        let memory = self.admission.reserve_memory(info.client, body::TUNNEL_BYTES)?;
        let egress = &self.forwarding.egress;
        let shutdown = &context.shutdown;
        let requester = Requester::client(&key);
        let look = || context.state.look_at_client();
        let connected =
            egress.connect_plain(permit.origin(), requester, &mut turn, shutdown, look).await;
        info.entry.set_waiting(false);
        turn.waited().iter().for_each(|waited| info.entry.note_waited(waited));
        if let Some(waited) = info.entry.waited() {
            permit.site().add_wait(waited.time);
        }
        // What runs inside takes no place.
        drop(turn);
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(no_turn) = &error.no_turn {
                    return Err(without_turn(no_turn).into());
                }
                permit.site().add_failed();
                let subject = Subject::Host(permit.origin());
                return Err(self.gate.on_egress_error(subject, info, error).await.into());
            }
        };
        let tunnel = Tunnel {
            revocation: Revocation::host(&self.gate, info, permit.origin().clone(), mixed),
            permit,
            idle: IdleTimer::new(self.forwarding.tunnel_idle_timeout, context.shutdown.clone()),
            pipes: Arc::clone(&self.forwarding.pipes),
            handshake_timeout: self.handshake_timeout,
        };
        let kept = (memory, self.forwarding.tunnel_ends.note(&stream));
        let is_stream = socket.is_stream();
        begin(context, is_stream, keeping(kept, tunnel.run(socket, stream)));
        Ok(())
    }
}

/// Begins `after`, which follows the response: on a stream of the connection, or on all of it.
fn begin(
    context: &ConnectionContext,
    is_stream: bool,
    after: impl Future<Output = ()> + Send + 'static,
) {
    if is_stream {
        context.state.upgrade_stream(after);
    } else {
        context.state.upgrade(after);
    }
}

/// Runs `next`, and keeps `kept` until it ends.
async fn keeping<T>(kept: T, next: impl Future<Output = ()>) {
    next.await;
    drop(kept);
}

/// A tunnel that a CONNECT has been granted.
#[derive(Debug)]
pub struct Tunnel {
    pub permit: HostPermit,
    pub revocation: Revocation,
    pub idle: IdleTimer,
    pub pipes: Arc<Pipes>,
    /// For the first bytes inside the tunnel.
    pub handshake_timeout: Duration,
}

impl Tunnel {
    /// Moves bytes between a client that has received its 200 and `origin`, which is connected.
    pub async fn run(self, client: PendingSocket, origin: OriginSocket) {
        let Some((first, client)) = client.socket().await else { return };
        match (client, origin) {
            (ClientSocket::Tcp(client), OriginSocket::Tcp(origin)) => {
                self.relay(first, client, origin).await;
            }
            (client, origin) => self.copy(first, client, origin).await,
        }
    }

    /// Between two sockets.
    async fn relay(self, first: Vec<u8>, client: TcpStream, origin: TcpStream) {
        let preread = self.preread();
        let first = box_future(|| preread.read(&client, first));
        let relaying = tunnel::relay(&client, first, &origin, &self.idle, &self.pipes);
        let Some(ended) = self.revocation.while_permitted(relaying).await else { return };
        if let Some(mismatch) = self.mismatch(ended) {
            drop(origin);
            self.record(&mismatch).await;
            let alert = write_all(&client, &UNRECOGNIZED_NAME, &self.idle);
            let _ = timeout(LINGER, alert).await;
        }
    }

    /// Between two streams of which one is no socket.
    async fn copy(self, first: Vec<u8>, client: ClientSocket, origin: OriginSocket) {
        let (mut from_client, mut to_client) = split(client);
        let ended = {
            let (from_origin, mut to_origin) = split(origin);
            let to_origin = async {
                let first = self.preread().read(&mut from_client, first).await?;
                to_origin.write_all(&first).await?;
                to_origin.flush().await?;
                drop(first);
                copy_one_way(&mut from_client, to_origin, &self.idle).await
            };
            let to_client = copy_one_way(from_origin, &mut to_client, &self.idle);
            let copying = self.idle.run(to_origin, to_client);
            let Some(ended) = self.revocation.while_permitted(copying).await else { return };
            ended
        };
        if let Some(mismatch) = self.mismatch(ended) {
            self.record(&mismatch).await;
            let _ = timeout(LINGER, to_client.write_all(&UNRECOGNIZED_NAME)).await;
            let _ = timeout(LINGER, to_client.shutdown()).await;
        }
    }

    fn preread(&self) -> Preread<'_> {
        let host = self.permit.origin().host();
        Preread { host, handshake_timeout: self.handshake_timeout }
    }

    /// The mismatch by which the tunnel has ended, if it was one.
    fn mismatch(&self, ended: io::Result<()>) -> Option<Mismatch> {
        match mismatch(ended.err()?) {
            Ok(mismatch) => Some(mismatch),
            Err(error) => {
                debug!(origin = %self.permit.origin(), "a tunnel ended: {error}");
                None
            }
        }
    }

    async fn record(&self, mismatch: &Mismatch) {
        let (gate, info) = (self.revocation.gate(), self.revocation.info());
        let origin = self.permit.origin();
        gate.record_inside(origin, info, Reason::SniMismatch, mismatch.name()).await;
    }
}
