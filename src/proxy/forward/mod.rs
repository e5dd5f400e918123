//! Forwards a permitted request to its origin. The request line and `Host` are made from the
//! permit, never from what was received; bodies are streamed.

mod client_side;
mod permission;
mod rewrite;
mod upgrade;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use tokio::sync::oneshot;

use crate::egress::boxed_request::BoxedRequest;
use crate::egress::{
    self, Egress, Error, Failure, RequestBody, Requester, ResponseBody, TimeoutBody,
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
use crate::proxy::request::upgrade_protocol::{self, Protocol};
use crate::proxy::request::via::Via;
use crate::proxy::response::respond;
use crate::types::loop_token::LoopToken;
pub use client_side::ClientSide;
pub use permission::ForwardError;
use permission::ForwardPermission;

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

impl Forwarding {
    /// Sends the permitted request, with the headers that are `present`, in its turn, and returns
    /// the origin's response, still streaming.
    ///
    /// # Errors
    /// If the origin cannot be reached, or breaks the protocol before its response has begun; or if
    /// the request is not permitted any more when its turn comes.
    pub async fn forward(
        &self,
        permit: &Permit,
        turn: Turn,
        (request, present): (BoxedRequest<Incoming>, HeaderSet),
        client: ClientSide<'_>,
    ) -> Result<Response<Body>, ForwardError> {
        let BoxedRequest { mut head, body } = request;
        let version = head.version;
        let protocol = if present.has(HeaderSet::UPGRADE) && version == Version::HTTP_11 {
            upgrade_protocol::wanted(&head.headers, &self.upgrades)
        } else {
            None
        };
        let on_upgrade = protocol.as_ref().and_then(|_| head.extensions.remove::<OnUpgrade>());
        let is_expected = present.has(HeaderSet::EXPECT) && version == Version::HTTP_11;
        let (body, continue_sender) = self.body(body, is_expected);
        let mut body = body.with_client_reads(client.state.is_known_to_read());
        if version < Version::HTTP_2 {
            // In HTTP/2 the window bounds what the client sends.
            body = body.with_read_allowance(client.state.content_reads());
        }
        let progress = body.progress();
        rewrite::request(&mut head, present, permit.target(), protocol.clone(), &self.via);
        let interim = Interim::pass_on(version, client.state, continue_sender);
        let outgoing = BoxedRequest {
            head,
            body: body.with_informational_listener(Arc::clone(&interim) as Arc<_>),
        };

        let response = self.send(permit, turn, outgoing, client, &interim).await?;
        // It may have waited once more, on its connection.
        response.body().waited().iter().for_each(|waited| client.info.entry.note_waited(waited));
        let is_complete = progress.is_complete();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let on_upgrade = requested_upgrade(&response, protocol, on_upgrade, is_complete)?;
            return Ok(self.switch(permit, response, on_upgrade, client)?);
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

    /// Sends the request, and returns the final response to it.
    async fn send(
        &self,
        permit: &Permit,
        turn: Turn,
        outgoing: BoxedRequest<RequestBody>,
        client: ClientSide<'_>,
        interim: &Interim,
    ) -> Result<Response<Box<ResponseBody>>, ForwardError> {
        let (key, origin) = (client.info.client.key(), &permit.target().origin);
        let requester = Requester::client(&key).with_loop_tokens(&client.info.client.loop_tokens);
        let permission = ForwardPermission { permit, client };
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
        client: ClientSide<'_>,
    ) -> Result<Response<Body>, egress::Error> {
        let memory = client.admission.reserve_memory(client.info.client, footprint::UPGRADED_BYTES);
        let memory =
            memory.map_err(|refused| Error::new(Failure::ConnectionLimit, refused.to_string()))?;
        let revocation = Revocation::resource(client.gate, client.info, permit.target().clone());
        let idle = self.tunnel_idle_timeout;
        let ClientSide { state, shutdown, .. } = client;
        let kept = (revocation, memory);
        Ok(upgrade::switch(response, on_upgrade, idle, &self.via, (state, shutdown), kept))
    }

    /// The client's body as it is sent. With `Expect: 100-continue` it is not read before the
    /// origin has sent its 100, which the sender reports (RFC 9110 §10.1.1).
    fn body(
        &self,
        body: Incoming,
        is_expected: bool,
    ) -> (RequestBody, Option<oneshot::Sender<()>>) {
        let waits = is_expected && !body.is_end_stream();
        let body = RequestBody::streamed(TimeoutBody::new(body, self.body_idle_timeout));
        if !waits {
            return (body, None);
        }
        let (sender, receiver) = oneshot::channel();
        (body.hold_until(receiver, CONTINUE_WAIT), Some(sender))
    }
}

fn breach(detail: &str) -> egress::Error {
    egress::Error::new(egress::Failure::Protocol, detail)
}

/// The client's connection, for the protocol that the origin switches to. A 101 switches only to
/// what was requested (RFC 9110 §7.8).
fn requested_upgrade<B>(
    response: &Response<B>,
    protocol: Option<HeaderValue>,
    on_upgrade: Option<OnUpgrade>,
    is_complete: bool,
) -> Result<OnUpgrade, egress::Error> {
    let is_requested = protocol.is_some_and(|requested| {
        upgrade_protocol::switches_to_one_of(&requested, response.headers())
    });
    let Some(on_upgrade) = on_upgrade.filter(|_| is_requested) else {
        return Err(breach("the origin switched to a protocol that was not requested"));
    };
    if !is_complete {
        // The rest of the content would be taken for the new protocol.
        return Err(breach(
            "the origin switched to another protocol before it had the whole request",
        ));
    }
    Ok(on_upgrade)
}
