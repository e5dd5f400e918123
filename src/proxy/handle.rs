//! The path of a request: [`Proxy::handle`] checks it, decides on it, takes its turn and forwards
//! it, or responds to it here. Every request takes this path, whatever connection it is sent on,
//! and without a `Permit` nothing of it is sent.
//!
//! [`Proxy`] is in `instance.rs`; the steps of the path that are its methods:
//!
//! | file | step |
//! | --- | --- |
//! | `before_decision.rs` | the destination, the client, loops; responses to what goes no further |
//! | `turn.rs` | the wait for the request's turn |
//! | `connect/handler.rs` | a CONNECT: tunnelled, or intercepted |
//! | `connect/synthetic.rs` | the CONNECT made for a client of SOCKS or of a transparent listener |

use std::sync::Arc;

use http::header::USER_AGENT;
use http::{Method, Response, Version};
use hyper::body::{Body as _, Incoming};

use super::connection::state::body::{ActiveRequest, Body};
use super::connection::state::connection_context::ConnectionContext;
use super::connection::state::footprint;
use super::connection::upgraded::PendingSocket;
use super::connection::{Limits, Service};
use super::decision::gate::{Grant, Permit};
use super::decision::request_info::{RequestInfo, Subject};
use super::forward::{ClientSide, ForwardError};
use super::framing::foreign_protocol::ForeignProtocol;
use super::instance::{CurrentProxy, Proxy};
use super::observe::access_log::AccessEntry;
use super::observe::request_metrics::RequestOutcome;
use super::outcome::refusal::Refusal;
use super::request::destination::Destination;
use super::request::header_set::HeaderSet;
use super::request::negotiate::ErrorFormat;
use super::request::target::{Scope, Target};
use super::response::respond;
use crate::clients::{BodyMemory, Client};
use crate::egress::boxed_request::BoxedRequest;
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
                let mut response = respond::refused(&refusal, format, context.client.address);
                entry.emit_at_end(context, &mut response, Some(&refusal));
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
            Destination::ProxyItself => return Ok(respond::options()),
        };
        let header_set = HeaderSet::of(&request.head.headers);
        if let Some(response) = self.respond_in_place(&mut request.head, header_set, &client)? {
            return Ok(response);
        }
        let pending = self.metrics.begin(&target.origin);
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
                    return Ok((RequestOutcome::RobotsCopy, respond::robots_txt(&snapshot, age)));
                }
            };
            let headers = header_set.has(HeaderSet::PACE).then_some(&head.headers);
            let turn = self.acquire_turn(&permit, headers, info, &context.shutdown).await?;
            let ConnectionContext { state, shutdown, .. } = context;
            let client_side =
                ClientSide { info, gate: &self.gate, state, shutdown, admission: &self.admission };
            match self.forwarding.forward(&permit, turn, request, header_set, client_side).await {
                Ok(response) => {
                    self.gate.note_response(&permit, Ok(response.status()));
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
            return permit.pace().rejection(no_turn).into();
        }
        self.gate.note_response(permit, Err(error.failure));
        let subject = Subject::Resource(permit.target());
        self.gate.on_egress_error(subject, info, error).await.into()
    }
}
