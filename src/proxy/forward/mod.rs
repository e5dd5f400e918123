//! Forwards a permitted request to its origin. The request line and `Host` are made from the
//! permit, never from what was received; bodies are streamed.

mod client_side;
pub(super) mod permission;
mod rewrite;
mod upgrade;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use tokio::sync::oneshot;

use crate::egress::boxed_request::BoxedRequest;
use crate::egress::{
    self, Egress, Error, Failure, RequestBody, RequestProgress, Requester, ResponseBody,
    TimeoutBody,
};
use crate::pace::Turn;
use crate::proxy::connect::TunnelEnds;
use crate::proxy::connect::tunnel::Pipes;
use crate::proxy::connection::state::body::Body;
use crate::proxy::connection::state::footprint;
use crate::proxy::connection::state::interim::Interim;
use crate::proxy::decision::gate::Permit;
use crate::proxy::decision::revocation::Revocation;
use crate::proxy::request::header_set::HeaderSet;
use crate::proxy::request::upgrade_protocol::Protocol;
use crate::proxy::request::via::Via;
use crate::proxy::response::respond;
use crate::types::loop_token::LoopToken;
pub use client_side::ClientSide;
pub use permission::ForwardError;
use permission::{ForwardPermission, breach};
use upgrade::RequestedUpgrade;

/// How long an origin may take to send 100 (Continue) before the body is sent without it.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// What forwarding needs besides the permit.
#[derive(Debug)]
pub struct Forwarding {
    pub egress: Arc<Egress>,
    /// For tunnels.
    pub pipes: Arc<Pipes>,
    pub tunnel_ends: Arc<TunnelEnds>,
    pub via: Via,
    /// By which this process recognises what a parent proxy sends back. `None`: there is no parent,
    /// so that nothing has the token, and none has to be passed on.
    pub loop_token: Option<LoopToken>,
    /// Protocols that a request may upgrade to.
    pub upgrades: Arc<[Protocol]>,
    /// Between two pieces of a client's body.
    pub body_idle_timeout: Duration,
    /// Without data in either direction of an upgraded connection.
    pub tunnel_idle_timeout: Duration,
}

/// A request as it is sent to the origin, and what is learnt of it meanwhile.
struct Outgoing {
    request: BoxedRequest<RequestBody>,
    upgrade: RequestedUpgrade,
    interim: Arc<Interim>,
    progress: Arc<RequestProgress>,
}

impl Forwarding {
    /// Sends the permitted request, whose headers are `header_set`, in its turn, and returns
    /// the origin's response, still streaming.
    ///
    /// # Errors
    /// If the origin cannot be reached, or breaks the protocol before its response has begun; or if
    /// the request is not permitted any more when its turn comes.
    #[expect(clippy::manual_async_fn, reason = "as of `Proxy::decide_and_forward`")]
    pub fn forward<'a>(
        &'a self,
        permit: &'a Permit,
        turn: Turn,
        request: BoxedRequest<Incoming>,
        header_set: HeaderSet,
        side: ClientSide<'a>,
    ) -> impl Future<Output = Result<Response<Body>, ForwardError>> + use<'a> {
        async move {
            let version = request.head.version;
            let outgoing = self.outgoing(permit, (request, header_set), side);
            let Outgoing { request, upgrade, interim, progress } = outgoing;
            let response = self.send(permit, turn, request, side, &interim).await?;
            // It may have waited once more, on its connection.
            response.body().waited().iter().for_each(|waited| side.info.entry.note_waited(waited));
            let is_complete = progress.is_complete();
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                let on_upgrade = upgrade.accept(&response, is_complete)?;
                return Ok(self.switch(permit, response, on_upgrade, side)?);
            }
            let (mut head, body) = response.into_parts();
            rewrite::response(&mut head, &self.via);
            let response = Response::from_parts(head, Body::origin(body));
            if is_complete || version >= Version::HTTP_2 {
                Ok(response)
            } else {
                // The rest of the content may never be read (RFC 9112 §9.6).
                Ok(respond::with_close(response))
            }
        }
    }

    /// Makes of the request as received the one that is sent to the origin.
    fn outgoing(
        &self,
        permit: &Permit,
        (request, header_set): (BoxedRequest<Incoming>, HeaderSet),
        side: ClientSide<'_>,
    ) -> Outgoing {
        let BoxedRequest { mut head, body } = request;
        let version = head.version;
        let upgrade = RequestedUpgrade::take(&mut head, header_set, &self.upgrades);
        let expects_continue = header_set.has(HeaderSet::EXPECT) && version == Version::HTTP_11;
        let (body, continue_sender) = self.body(body, version, expects_continue);
        let mut body = body.with_client_reads(side.state.is_known_to_read());
        if version < Version::HTTP_2 {
            // In HTTP/2 the window bounds what the client sends.
            body = body.with_read_allowance(side.state.content_reads());
        }
        let progress = body.progress();
        let protocol = upgrade.protocol.clone();
        rewrite::request(&mut head, header_set, permit.target(), protocol, &self.via);
        let interim = Interim::new(version, side.state, continue_sender);
        let body = body.with_informational_listener(Arc::clone(&interim) as Arc<_>);
        Outgoing { request: BoxedRequest { head, body }, upgrade, interim, progress }
    }

    /// Sends the request, and returns the final response to it.
    async fn send(
        &self,
        permit: &Permit,
        turn: Turn,
        outgoing: BoxedRequest<RequestBody>,
        side: ClientSide<'_>,
        interim: &Interim,
    ) -> Result<Response<Box<ResponseBody>>, ForwardError> {
        let (key, origin) = (side.info.client.key(), &permit.target().origin);
        let requester = Requester::client(&key).with_loop_tokens(&side.info.client.loop_tokens);
        let permission = ForwardPermission { permit, side };
        let mut sending = pin!(self.egress.send(origin, outgoing, requester, turn, &permission));
        poll_fn(|cx| {
            let sent = sending.as_mut().poll(cx);
            // Interim responses are read in this poll. Too many are an error, whatever follows
            // them.
            if interim.is_flood() {
                let detail = "the origin sent too many interim responses";
                return Poll::Ready(Err(breach(detail).into()));
            }
            sent
        })
        .await
    }

    /// Hands both connections over to what follows a 101.
    fn switch(
        &self,
        permit: &Permit,
        response: Response<Box<ResponseBody>>,
        on_upgrade: OnUpgrade,
        side: ClientSide<'_>,
    ) -> Result<Response<Body>, egress::Error> {
        let memory = side.admission.reserve_memory(side.info.client, footprint::UPGRADED_BYTES);
        let memory =
            memory.map_err(|refused| Error::new(Failure::ConnectionLimit, refused.to_string()))?;
        let revocation = Revocation::resource(side.gate, side.info, permit.target().clone());
        let idle = self.tunnel_idle_timeout;
        let ClientSide { state, shutdown, .. } = side;
        let kept = (revocation, memory);
        Ok(upgrade::switch(response, on_upgrade, idle, &self.via, (state, shutdown), kept))
    }

    /// The client's body as it is sent. With `Expect: 100-continue` it is not read before the
    /// origin has sent its 100, which the sender reports (RFC 9110 §10.1.1).
    fn body(
        &self,
        body: Incoming,
        version: Version,
        expects_continue: bool,
    ) -> (RequestBody, Option<oneshot::Sender<()>>) {
        let waits = expects_continue && !body.is_end_stream();
        let body = TimeoutBody::of_request(body, version, self.body_idle_timeout);
        let body = RequestBody::streamed(body);
        if !waits {
            return (body, None);
        }
        let (sender, receiver) = oneshot::channel();
        (body.hold_until(receiver, CONTINUE_WAIT), Some(sender))
    }
}
