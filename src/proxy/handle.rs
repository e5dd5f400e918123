//! The path of a request: [`Proxy::handle`] checks it, decides on it, takes its turn and forwards
//! it, or responds to it here. Every request takes this path, whatever connection it is sent on,
//! and without a `Permit` nothing of it is sent.
//!
//! Two methods of [`Proxy`] have files of their own: what becomes of a CONNECT (`connect/handler.rs`),
//! and the CONNECT that is made for a client of SOCKS or of a transparent listener
//! (`connect/transparent.rs`).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{EXPECT, MAX_FORWARDS, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Response, Version, request};
use hyper::body::{Body as _, Incoming};
use tokio_util::sync::CancellationToken;

use super::connect::Https;
use super::connection::body::{self, ActiveRequest, Body};
use super::connection::connection_state::{ConnectionContext, TargetForm};
use super::connection::{Limits, Service};
use super::decision::decision_context::{RequestInfo, Subject};
use super::decision::gate::{Gate, Grant, Permit};
use super::destination::{Destination, Scope, Target, destination};
use super::forward::{ClientSide, ForwardError, Forwarding};
use super::framing::foreign_protocol::ForeignProtocol;
use super::framing::head;
use super::hop_by_hop::HeaderSet;
use super::listener_tls::ListenerTls;
use super::observe::access_log::AccessEntry;
use super::observe::request_metrics::{RequestMetrics, RequestOutcome};
use super::rejection::{Refusal, Rejection};
use super::response::{self, ErrorFormat};
use super::upgrade::PendingSocket;
use crate::ca::Leaves;
use crate::clients::{BodyMemory, Client, ClientAdmission, RejectReason};
use crate::egress::BoxedRequest;
use crate::egress::PERMISSION_AGE_MAX;
use crate::pace::{PendingTurn, TryAcquire, Turn, TurnRequest};
use crate::runtime::{box_future, clock};
use crate::types::origin::Scheme;

impl Service for CurrentProxy {
    fn limits(&self) -> Limits {
        self.load().limits
    }

    fn memory(&self) -> Arc<BodyMemory> {
        Arc::clone(self.load().admission.memory())
    }

    async fn handle(
        &self,
        request: BoxedRequest<Incoming>,
        context: &ConnectionContext,
    ) -> Response<Body> {
        self.load_full().handle(request, context, self).await
    }

    fn log_foreign_protocol(&self, client: &Client, protocol: ForeignProtocol) {
        self.load().metrics.foreign_protocols.log(client, protocol);
    }
}

impl Proxy {
    /// Responds to one request on the connection of `context`. What follows a CONNECT is served by
    /// `current`.
    pub async fn handle(
        &self,
        request: BoxedRequest<Incoming>,
        context: &ConnectionContext,
        current: &CurrentProxy,
    ) -> Response<Body> {
        let mut active = ActiveRequest::begin(&context.state);
        let format = ErrorFormat::of(&request.head);
        let mut entry = AccessEntry::of(&request.head, context);
        self.note_trust(context);
        // The response may be sent before the request is read: denied uploads are common. And what
        // follows a refused CONNECT was meant for a tunnel.
        let may_be_unread = request.head.method == Method::CONNECT || !request.body.is_end_stream();
        if may_be_unread {
            context.state.note_unread_content();
        }
        let closes = may_be_unread && request.head.version < Version::HTTP_2;
        let result = self.dispatch(request, context, current, &mut active, &entry).await;
        let mut response = match result {
            Ok(mut response) => {
                entry.emit_at_end(context, &mut response, None);
                response
            }
            Err(refusal) => {
                let mut response = response::refused(&refusal, format, context.client.address);
                entry.emit_at_end(context, &mut response, Some(&refusal));
                // RFC 9112 §9.6: the client might send the next request on it, and lose it.
                if closes { response::with_close(response) } else { response }
            }
        };
        if let Some(waited) = entry.waited() {
            response::note_waited(response.headers_mut(), &waited);
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

    /// Checks the request, and responds to it here, connects its client, or forwards it.
    async fn dispatch(
        &self,
        mut request: BoxedRequest<Incoming>,
        context: &ConnectionContext,
        current: &CurrentProxy,
        active: &mut ActiveRequest,
        entry: &AccessEntry,
    ) -> Result<Response<Body>, Refusal> {
        let destination = self.destination(&mut request.head, context)?;
        let client = self.identify(&request.head, context).await?;
        entry.note_user(&client);
        let scheme = destination.scheme();
        let bytes = body::footprint_of(&request.head, !request.body.is_end_stream(), scheme);
        match self.admission.admit_request(&client, bytes) {
            Ok(permit) => active.attach_permit(permit),
            Err(reason) => {
                let rejection = Rejection::from(reason);
                if let Destination::Resource(target) = &destination {
                    self.metrics.note_rejected(target, &rejection);
                }
                return Err(rejection.into());
            }
        }
        let target = match destination {
            Destination::Resource(target) => target,
            Destination::Connect => {
                self.check_loop(&request.head, HeaderSet::of(&request.head.headers))?;
                let mut request = request.whole();
                let upgrade = hyper::upgrade::on(&mut request);
                let socket = PendingSocket::of(request.version(), upgrade);
                let (head, _) = request.into_parts();
                let connect =
                    box_future(|| self.connect(&head, socket, &client, context, current, entry));
                return connect.await;
            }
            Destination::OwnPage(path) => {
                return Ok(response::own_page(path.path(), &self.leaves.authority()));
            }
            Destination::ProxyItself => return Ok(response::options()),
        };
        let header_set = HeaderSet::of(&request.head.headers);
        if let Some(response) = self.respond_in_place(&mut request.head, header_set)? {
            return Ok(response);
        }
        let pending = self.metrics.begin(Subject::Resource(&target), entry);
        pending.finish(
            self.decide_and_forward(request, header_set, target, &client, context, entry).await,
        )
    }

    /// Decides on a resource, waits for its turn, and forwards the request.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async fn keeps its arguments twice: the future of every request would have more \
                  than the 4 KiB up to which the allocator is fast"
    )]
    fn decide_and_forward<'a>(
        &'a self,
        request: BoxedRequest<Incoming>,
        header_set: HeaderSet,
        target: Target,
        client: &'a Client,
        context: &'a ConnectionContext,
        entry: &'a AccessEntry,
    ) -> impl Future<Output = Result<(RequestOutcome, Response<Body>), Refusal>> + use<'a> {
        async move {
            let head = &request.head;
            let method = head.method.clone();
            let user_agent = head.headers.get(USER_AGENT).cloned();
            let info =
                RequestInfo { client, method: &method, user_agent: user_agent.as_ref(), entry };
            let permit = match self.gate.decide(target, info).await? {
                Grant::Permit(permit) => permit,
                Grant::RobotsTxt { snapshot, age } => {
                    return Ok((RequestOutcome::RobotsCopy, response::robots_txt(&snapshot, age)));
                }
            };
            let headers = header_set.has(HeaderSet::PACE).then_some(&head.headers);
            let turn = self.acquire_turn(&permit, headers, info, &context.shutdown).await?;
            let ConnectionContext { state, shutdown, .. } = context;
            let client_side =
                ClientSide { info, gate: &self.gate, state, shutdown, admission: &self.admission };
            let forwarded =
                self.forwarding.forward(&permit, turn, request, header_set, client_side).await;
            if let Some(waited) = entry.waited() {
                permit.site().add_wait(waited.time);
            }
            match forwarded {
                Ok(response) => {
                    self.gate.note_response(&permit, Ok(response.status()));
                    permit.site().add_response(response.status());
                    Ok((RequestOutcome::Forwarded, response))
                }
                Err(error) => Err(box_future(|| self.on_forward_error(&permit, info, error)).await),
            }
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
            return permit.pace().rejection(no_turn, permit.site()).into();
        }
        permit.site().add_failed();
        self.gate.note_response(permit, Err(error.failure));
        let subject = Subject::Resource(permit.target());
        self.gate.on_egress_error(subject, info, error).await.into()
    }
}

/// A worker's proxy as it is now. Each request is handled by the one that is there when it comes:
/// new settings apply from the next request on, and one under way ends under those it began with.
pub type CurrentProxy = Arc<ArcSwap<Proxy>>;

/// One worker's proxy.
#[derive(Debug)]
pub struct Proxy {
    pub gate: Arc<Gate>,
    pub forwarding: Forwarding,
    pub metrics: Arc<RequestMetrics>,
    pub limits: Limits,
    pub https: Https,
    /// For the first bytes inside a CONNECT, and for the TLS handshake.
    pub handshake_timeout: Duration,
    /// TLS between clients and the proxy itself.
    pub listener_tls: ListenerTls,
    pub leaves: Arc<Leaves>,
    pub admission: Arc<ClientAdmission>,
}

// What is checked of a request before it is decided on: its head and its destination, the client
// that sends it, and whether it has been through this proxy before.

impl Proxy {
    /// Where a request leads. Its head is checked first.
    pub(super) fn destination(
        &self,
        head: &mut request::Parts,
        context: &ConnectionContext,
    ) -> Result<Destination, Refusal> {
        let (is_pathless, path_as_received) = if head.version == Version::HTTP_2 {
            (false, head::check_http2(head, head::FIELDS_MAX)?)
        } else {
            match context.state.target_form().take() {
                TargetForm::Plain => (false, None),
                TargetForm::Pathless => (true, None),
                TargetForm::Encoded(target) => (false, Some(target)),
            }
        };
        Ok(destination(head, &context.scope, is_pathless)?.with_path_as_received(path_as_received))
    }

    /// The response to a request that goes no further (RFC 9110 §7.6.2), if it is one.
    pub(super) fn respond_in_place(
        &self,
        head: &mut request::Parts,
        header_set: HeaderSet,
    ) -> Result<Option<Response<Body>>, Refusal> {
        if header_set.has(HeaderSet::EXPECT) {
            check_expectation(&head.headers, head.version)?;
        }
        self.check_loop(head, header_set)?;
        Ok(match count_down(head) {
            Some(LastForward::Options) => Some(response::options()),
            Some(LastForward::Trace) => Some(response::trace_ends_here()),
            None => None,
        })
    }

    /// Refuses what this process has sent itself and another proxy has sent back.
    pub(super) fn check_loop(
        &self,
        head: &request::Parts,
        header_set: HeaderSet,
    ) -> Result<(), Refusal> {
        let Forwarding { via, loop_token, .. } = &self.forwarding;
        let is_in_via = header_set.has(HeaderSet::VIA) && via.is_looping(&head.headers);
        if is_in_via || loop_token.as_ref().is_some_and(|own| own.is_in(&head.headers)) {
            let detail = "the request has been through this proxy before";
            return Err(Rejection::looping(detail).into());
        }
        Ok(())
    }

    /// The client of a request. Credentials are required of requests to the proxy as a proxy: not
    /// for its own page, which a person may open in a browser, and not again inside a CONNECT. The
    /// proxies before this one are named by the request to the proxy, too.
    pub(super) async fn identify(
        &self,
        head: &request::Parts,
        context: &ConnectionContext,
    ) -> Result<Client, RejectReason> {
        if context.is_transparent {
            return self.admission.renew_address(&context.client);
        }
        if context.scope != Scope::AnyOrigin {
            return self.admission.renew(&context.client);
        }
        let address = context.client.address;
        if head.uri.authority().is_none() {
            return Ok(Client::at(address));
        }
        let client = self.admission.authenticate(address, &head.headers).await?;
        if let Some(user) = &client.user {
            self.admission.permit_user(user, &context.user_permit)?;
        }
        Ok(client)
    }
}

impl Proxy {
    /// Acquires the turn of a permitted request, at once or after a wait; `headers`: what they say
    /// of its pace, if they say anything.
    pub(super) async fn acquire_turn(
        &self,
        permit: &Permit,
        headers: Option<&HeaderMap>,
        info: RequestInfo<'_>,
        shutdown: &CancellationToken,
    ) -> Result<Turn, Refusal> {
        if let Some(no_turn) = permit.pace().rest() {
            return Err(permit.pace().rejection(no_turn, permit.site()).into());
        }
        let key = info.client.key();
        let origin = &permit.target().origin;
        let turn_request = permit.pace().turn_request(origin, &key, headers, shutdown);
        match self.forwarding.egress.lanes().try_acquire(&turn_request) {
            TryAcquire::Turn(turn) => Ok(turn),
            TryAcquire::Wait(wait) => {
                box_future(|| self.wait_for_turn(permit, info, (&turn_request, wait))).await
            }
        }
    }

    /// Waits for the turn of a permitted request. After a wait of more than [`PERMISSION_AGE_MAX`]
    /// the request is decided on again.
    async fn wait_for_turn(
        &self,
        permit: &Permit,
        info: RequestInfo<'_>,
        (request, wait): (&TurnRequest<'_>, PendingTurn<'_>),
    ) -> Result<Turn, Refusal> {
        info.entry.set_waiting(true);
        let turn = self.forwarding.egress.lanes().wait_for_turn(request, wait).await;
        let turn = turn.map_err(|no_turn| permit.pace().rejection(&no_turn, permit.site()))?;
        let waited = turn.waited();
        waited.iter().for_each(|waited| info.entry.note_waited(waited));
        if waited.is_some_and(|waited| waited.time > PERMISSION_AGE_MAX) {
            self.gate.recheck(permit, info).await?;
        }
        Ok(turn)
    }
}

/// Refuses an expectation other than `100-continue`. One in HTTP/1.0 is ignored.
pub fn check_expectation(headers: &HeaderMap, version: Version) -> Result<(), Rejection> {
    let mut expectations = headers.get_all(EXPECT).iter();
    let is_met = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if version < Version::HTTP_11 || expectations.all(is_met) {
        Ok(())
    } else {
        Err(Rejection::expectation_failed())
    }
}

/// The proxy is the last recipient of a request, and answers it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastForward {
    Options,
    Trace,
}

/// Counts the header down. At zero the request ends here; in other methods the header has no
/// meaning, and stays as it is.
pub fn count_down(head: &mut request::Parts) -> Option<LastForward> {
    let last = match head.method {
        Method::OPTIONS => LastForward::Options,
        Method::TRACE => LastForward::Trace,
        _ => return None,
    };
    let count: u64 = head.headers.get(MAX_FORWARDS)?.to_str().ok()?.trim().parse().ok()?;
    let Some(left) = count.checked_sub(1) else { return Some(last) };
    head.headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    None
}
