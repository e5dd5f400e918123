//! The life of a request: its target, the decision on it, and the origin's response or the proxy's.
//!
//! [`Proxy::handle`] is the whole path. Every request takes it, whatever connection it came on, and
//! without a `Permit` nothing of it is sent.

mod client_protocol;

mod connect;
mod connection;
mod decision;
mod forward;
mod framing;
mod instance;
pub mod limits;
mod listener_tls;
mod observe;
mod outcome;
mod request;
mod response;
mod socks;
#[doc(hidden)]
pub mod test_hooks;

use std::sync::Arc;

use http::header::USER_AGENT;
use http::{Method, Response, Version, request as http_request};
use hyper::body::{Body as _, Incoming};

pub use client_protocol::serve_client;
pub use connect::original_destination::OriginalDestination;
pub use connect::transparent;
pub use connect::tunnel::Pipes;
pub use connect::{Https, HttpsMode, TunnelEnds};
pub use connection::client_io::Timeouts;
use connection::state::body::ActiveRequest;
pub use connection::state::body::Body;
pub use connection::state::connection_context::ConnectionContext;
use connection::state::footprint;
use connection::state::target_form::TargetForm;
use connection::upgraded::PendingSocket;
pub use connection::{Limits, Service};
pub use decision::gate::Gate;
use decision::gate::{Grant, Permit};
use decision::request_info::{RequestInfo, Subject};
pub use decision::robots_summary_cache::RobotsSummaryCache;
pub use decision::rules::{AgentRule, MixedHosts, Mode, OriginRule, Rules};
use forward::ClientSide;
use forward::ForwardError;
pub use forward::Forwarding;
use framing::foreign_protocol::ForeignProtocol;
use framing::head;
pub use instance::{CurrentProxy, Proxy};
pub use listener_tls::{ListenerTls, ListenerTlsError};
pub use observe::access_log::ACCESS;
use observe::access_log::AccessEntry;
pub use observe::decision_log::EACH_DECISION;
pub use observe::decision_metrics::{DecisionCounts, DecisionMetrics};
use observe::request_metrics::RequestOutcome;
pub use observe::request_metrics::{RequestCounts, RequestMetrics};
use outcome::refusal::Refusal;
pub use outcome::rejection::Rejection;
use request::destination::{Destination, destination};
use request::expect::check_expectation;
use request::header_set::HeaderSet;
use request::max_forwards::{self, LastForward};
use request::negotiate::ErrorFormat;
pub use request::target::Scope;
use request::target::Target;
pub use request::upgrade_protocol::Protocol;
pub use request::via::Via;
use response::respond;

use crate::clients::{BodyMemory, Client, RejectReason};
use crate::egress::PERMISSION_AGE_MAX;
use crate::egress::boxed_request::BoxedRequest;
use crate::pace::{PendingTurn, TryAcquire, Turn, TurnRequest};
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::Scheme;
pub use crate::types::problem::{OWN_NAME, Problem};

/// A client's request.
type Received = BoxedRequest<Incoming>;

impl Service for CurrentProxy {
    fn limits(&self) -> Limits {
        self.load().limits
    }

    fn memory(&self) -> Arc<BodyMemory> {
        Arc::clone(self.load().admission.memory())
    }

    async fn handle(&self, request: Received, context: &ConnectionContext) -> Response<Body> {
        self.load_full().handle(request, context, self).await
    }

    fn log_foreign_protocol(&self, client: &Client, protocol: ForeignProtocol) {
        self.load().metrics.foreign_protocols.log(client, protocol);
    }
}

impl Proxy {
    /// Responds to one request that came on the connection of `context`. What follows a CONNECT is
    /// served by `current`.
    pub async fn handle(
        &self,
        request: Received,
        context: &ConnectionContext,
        current: &CurrentProxy,
    ) -> Response<Body> {
        let mut active = ActiveRequest::begin(&context.state);
        let format = ErrorFormat::of(&request.head);
        let entry = AccessEntry::of(&request.head, context);
        self.note_trust(context);
        // The response may come before the request is read: denied uploads are common. And what
        // follows a refused CONNECT was meant for a tunnel.
        let may_be_unread = request.head.method == Method::CONNECT || !request.body.is_end_stream();
        if may_be_unread {
            context.state.note_unread_content();
        }
        let closes = may_be_unread && request.head.version < Version::HTTP_2;
        let answered = self.dispatch(request, context, current, &mut active, &entry).await;
        let mut response = match answered {
            Ok(response) => {
                entry.emit(context, response.status(), None);
                response
            }
            Err(refusal) => {
                let response = respond::refused(&refusal, format, context.client.address);
                entry.emit(context, response.status(), Some(&refusal));
                // RFC 9112 §9.6: the client might send the next request on it, and lose it.
                if closes { respond::with_close(response) } else { response }
            }
        };
        if let Some(waited) = entry.waited() {
            respond::note_waited(response.headers_mut(), &waited);
        }
        context.state.start_response();
        response.map(|body| body.of_request(active))
    }

    /// The first request inside a TLS connection shows that the client trusts the certificate.
    fn note_trust(&self, context: &ConnectionContext) {
        if let Scope::Origin(origin) = &context.scope
            && origin.scheme() == Scheme::Https
            && context.state.requests() == 1
        {
            self.metrics.tls.distrust.note_request(&context.client, origin, clock::monotonic());
        }
    }

    /// Responds to the request itself, connects, or forwards it.
    async fn dispatch(
        &self,
        mut request: Received,
        context: &ConnectionContext,
        current: &CurrentProxy,
        active: &mut ActiveRequest,
        entry: &AccessEntry,
    ) -> Result<Response<Body>, Refusal> {
        let destination = self.destination(&mut request.head, context)?;
        let client = self.identify(&request.head, context).await?;
        let scheme = destination.scheme();
        let bytes = footprint::of(&request.head, !request.body.is_end_stream(), scheme);
        active.attach_permit(self.admission.admit_request(&client, bytes)?);
        let target = match destination {
            Destination::Resource(target) => target,
            Destination::Connect => {
                self.check_loop(&request.head, HeaderSet::of(&request.head.headers), &client)?;
                let mut request = request.whole();
                let upgrade = hyper::upgrade::on(&mut request);
                let socket = PendingSocket::of(request.version(), upgrade);
                let (head, _) = request.into_parts();
                let connect =
                    box_future(|| self.connect(&head, socket, &client, context, current, entry));
                return connect.await;
            }
            Destination::OwnPage(path) => {
                return Ok(respond::own_page(path.path(), &self.leaves.authority()));
            }
            Destination::Proxy => return Ok(respond::options()),
        };
        let present = HeaderSet::of(&request.head.headers);
        if let Some(response) = self.respond_in_place(&mut request.head, present, &client)? {
            return Ok(response);
        }
        let pending = self.metrics.begin(&target.origin);
        pending.finish(
            self.decide_and_forward((request, present), target, &client, context, entry).await,
        )
    }

    /// Where a request leads. Its head is checked first.
    fn destination(
        &self,
        head: &mut http_request::Parts,
        context: &ConnectionContext,
    ) -> Result<Destination, Refusal> {
        let (is_pathless, received) = if head.version == Version::HTTP_2 {
            let Limits { headers_max, strict_target, .. } = self.limits;
            (false, head::http2::check(head, headers_max, strict_target)?)
        } else {
            match context.state.target_form().take() {
                TargetForm::Plain => (false, None),
                TargetForm::Pathless => (true, None),
                TargetForm::Encoded(target) => (false, Some(target)),
            }
        };
        Ok(destination(head, &context.scope, is_pathless)?.with_path_as_received(received))
    }

    /// The response to a request that goes no further (RFC 9110 §7.6.2), if it is one.
    fn respond_in_place(
        &self,
        head: &mut http_request::Parts,
        present: HeaderSet,
        client: &Client,
    ) -> Result<Option<Response<Body>>, Refusal> {
        if present.has(HeaderSet::EXPECT) {
            check_expectation(&head.headers, head.version)?;
        }
        self.check_loop(head, present, client)?;
        Ok(match max_forwards::count_down(head) {
            Some(LastForward::Options) => Some(respond::options()),
            Some(LastForward::Trace) => Some(respond::trace_ends_here()),
            None => None,
        })
    }

    /// Refuses what this process has sent itself and another proxy has sent back.
    fn check_loop(
        &self,
        head: &http_request::Parts,
        present: HeaderSet,
        client: &Client,
    ) -> Result<(), Refusal> {
        let Forwarding { via, loop_token, .. } = &self.forwarding;
        let is_in_via = present.has(HeaderSet::VIA) && via.is_looping(&head.headers);
        if is_in_via || loop_token.as_ref().is_some_and(|own| client.loop_tokens.has(own)) {
            let detail = "the request has been through this proxy before";
            return Err(Rejection::looping(detail).into());
        }
        Ok(())
    }

    /// The client of a request. Credentials are required of requests to the proxy as a proxy: not
    /// for its own page, which a person may open in a browser, and not again inside a CONNECT. The
    /// proxies before this one are named by the request to the proxy, too.
    pub(in crate::proxy) async fn identify(
        &self,
        request: &http_request::Parts,
        context: &ConnectionContext,
    ) -> Result<Client, RejectReason> {
        if context.is_transparent {
            return self.admission.renew_address(&context.client);
        }
        if context.scope != Scope::AnyOrigin {
            return self.admission.renew(&context.client);
        }
        let address = context.client.address;
        if request.uri.authority().is_none() {
            return Ok(Client::at(address));
        }
        let client = self.admission.authenticate(address, &request.headers).await?;
        let client = match self.forwarding.loop_token {
            Some(_) => Client { loop_tokens: LoopTokens::of(&request.headers), ..client },
            None => client,
        };
        if let Some(user) = &client.user {
            self.admission.permit_user(user, &context.user_permit)?;
        }
        Ok(client)
    }

    /// Decides on a resource, waits for its turn, and forwards the request.
    async fn decide_and_forward(
        &self,
        (request, present): (Received, HeaderSet),
        target: Target,
        client: &Client,
        context: &ConnectionContext,
        entry: &AccessEntry,
    ) -> Result<(RequestOutcome, Response<Body>), Refusal> {
        let head = &request.head;
        let method = head.method.clone();
        let user_agent = head.headers.get(USER_AGENT).cloned();
        let info = RequestInfo { client, method: &method, user_agent: user_agent.as_ref(), entry };
        let permit = match self.gate.admit(target, info).await? {
            Grant::Permit(permit) => permit,
            Grant::RobotsTxt { snapshot, age } => {
                return Ok((RequestOutcome::RobotsCopy, respond::robots_txt(&snapshot, age)));
            }
        };
        let headers = present.has(HeaderSet::PACE).then_some(&head.headers);
        let (key, lanes) = (client.key(), self.forwarding.egress.lanes());
        let origin = &permit.target().origin;
        let turn_request = permit.pace().turn_request(origin, &key, headers, &context.shutdown);
        let turn = match lanes.try_acquire(&turn_request) {
            Ok(TryAcquire::Turn(turn)) => turn,
            Ok(TryAcquire::Wait(wait)) => {
                box_future(|| self.wait_for_turn(&permit, info, (&turn_request, wait))).await?
            }
            Err(no_turn) => return Err(Rejection::no_turn(&no_turn, permit.pace().status()).into()),
        };
        let ConnectionContext { state, shutdown, .. } = context;
        let client_side =
            ClientSide { info, gate: &self.gate, state, shutdown, admission: &self.admission };
        match self.forwarding.forward(&permit, turn, (request, present), client_side).await {
            Ok(response) => {
                self.gate.note_response(&permit, Ok(response.status()));
                Ok((RequestOutcome::Forwarded, response))
            }
            Err(error) => Err(box_future(|| self.on_forward_error(&permit, info, error)).await),
        }
    }

    /// Notes why a permitted request has no response from its origin, and makes that its refusal.
    async fn on_forward_error(
        &self,
        permit: &Permit,
        info: RequestInfo<'_>,
        error: ForwardError,
    ) -> Refusal {
        let error = match error {
            ForwardError::Gate(error) => return error.into(),
            ForwardError::Egress(error) => error,
        };
        if let Some(no_turn) = &error.no_turn {
            return Rejection::no_turn(no_turn, permit.pace().status()).into();
        }
        self.gate.note_response(permit, Err(error.failure));
        let subject = Subject::Resource(permit.target());
        self.gate.on_egress_error(subject, info, error).await.into()
    }

    /// Waits for the turn of a permitted request. After a wait of more than [`PERMISSION_AGE_MAX`]
    /// the request is decided on again.
    async fn wait_for_turn(
        &self,
        permit: &Permit,
        info: RequestInfo<'_>,
        (request, wait): (&TurnRequest<'_>, PendingTurn<'_>),
    ) -> Result<Turn, Refusal> {
        let turn = self.forwarding.egress.lanes().wait_for_turn(request, wait).await;
        let turn = turn.map_err(|no_turn| Rejection::no_turn(&no_turn, permit.pace().status()))?;
        let waited = turn.waited();
        waited.iter().for_each(|waited| info.entry.note_waited(waited));
        if waited.is_some_and(|waited| waited.time > PERMISSION_AGE_MAX) {
            self.gate.recheck(permit, info).await?;
        }
        Ok(turn)
    }
}
