//! Responds to a CONNECT, and begins what follows it: an interception or a tunnel.

use std::sync::Arc;

use http::header::USER_AGENT;
use http::{HeaderMap, Response, request};

use super::Connect;
use super::granted_tunnel::Tunnel;
use super::intercept::Interception;
use super::tunnel::IdleTimer;
use crate::clients::Client;
use crate::egress::{PERMISSION_AGE_MAX, Requester};
use crate::proxy::connection::state::body::Body;
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::connection::state::footprint;
use crate::proxy::connection::upgraded::PendingSocket;
use crate::proxy::decision::request_info::{RequestInfo, Subject};
use crate::proxy::decision::revocation::Revocation;
use crate::proxy::decision::rules::MixedHosts;
use crate::proxy::instance::{CurrentProxy, Proxy};
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::observe::request_metrics::RequestOutcome;
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::outcome::rejection::Rejection;
use crate::proxy::response::respond;
use crate::runtime::clock;
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
                self.metrics.begin(&origin).finish(Err(error.into()))
            }
            Connect::Classify(origin, mixed) => {
                let pending = self.metrics.begin(&origin);
                let tunnelled =
                    self.tunnel(socket, origin, mixed, (info, &head.headers), context).await;
                pending
                    .finish(tunnelled.map(|()| (RequestOutcome::Forwarded, respond::connected())))
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
            return self.metrics.begin(&origin).finish(Err(rejection.into()));
        }
        let since = clock::monotonic();
        let egress = &self.forwarding.egress;
        if let Err(error) = self.gate.check_address(&origin, info, egress).await {
            return self.metrics.begin(&origin).since(since).finish(Err(error.into()));
        }
        let permit = self.admission.reserve_memory(info.client, footprint::MULTIPLEXED_BYTES)?;
        let inside = context.after_connect(info.client);
        let interception = Interception { origin, info: info.into(), current: Arc::clone(current) };
        let is_stream = socket.is_stream();
        begin(context, is_stream, interception.run(socket, inside, permit));
        Ok(respond::connected())
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
        if let Some(no_turn) = permit.pace().rest() {
            return Err(permit.pace().rejection(no_turn).into());
        }
        let key = info.client.key();
        let call =
            permit.pace().turn_request(permit.origin(), &key, Some(headers), &context.shutdown);
        let turn = self.forwarding.egress.lanes().acquire(&call).await;
        let mut turn = turn.map_err(|no_turn| permit.pace().rejection(&no_turn))?;
        let waited = turn.waited();
        waited.iter().for_each(|waited| info.entry.note_waited(waited));
        if waited.is_some_and(|waited| waited.time > PERMISSION_AGE_MAX) {
            self.gate.recheck_host(&permit, info, mixed).await?;
        }
        let memory = self.admission.reserve_memory(info.client, footprint::TUNNEL_BYTES)?;
        let egress = &self.forwarding.egress;
        let shutdown = &context.shutdown;
        let requester = Requester::client(&key).with_loop_tokens(&info.client.loop_tokens);
        let look = || context.state.look_at_client();
        let connected =
            egress.connect_plain(permit.origin(), requester, &mut turn, shutdown, look).await;
        turn.waited().iter().for_each(|waited| info.entry.note_waited(waited));
        // What runs inside takes no place.
        drop(turn);
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(no_turn) = &error.no_turn {
                    return Err(permit.pace().rejection(no_turn).into());
                }
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
