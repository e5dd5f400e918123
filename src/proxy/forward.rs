//! A permitted request to its origin, and the answer back. The request line and `Host` are built
//! from the permit, never from what came in; bodies are streamed; fields are treated as RFC 9110
//! §7.6 asks of an intermediary.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, EXPECT, HOST, HeaderMap, HeaderValue, TE, UPGRADE};
use http::{Response, StatusCode, Uri, Version, request};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use tokio::sync::oneshot;

use super::body::Body;
use super::connect::tunnel::Pipes;
use super::control::Control;
use super::fields;
use super::footprint;
use super::gate::{Ask, Gate, Permit};
use super::interim::Interim;
use super::lasting::Lasting;
use super::names::Names;
use super::refusal::Refusal;
use super::upgrades::{self, Protocol};
use super::via::Via;
use super::{Received, closing, upgrade};
use crate::clients::ClientAdmission;
use crate::egress::boxed_request::BoxedRequest;
use crate::egress::{self, Egress, Error, Failure, RequestBody, ResponseBody, TimeoutBody};
use crate::runtime::shutdown::Shutdown;

/// How long an origin may take to say 100 (Continue) before the body is sent all the same.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// What forwarding needs besides the permit.
#[derive(Debug)]
pub struct Forwarding {
    pub egress: Arc<Egress>,
    /// For tunnels.
    pub pipes: Arc<Pipes>,
    pub via: Via,
    /// What a request may upgrade to.
    pub upgrades: Arc<[Protocol]>,
    /// Between two pieces of a client's body.
    pub body_idle_timeout: Duration,
    /// Without data in either direction of an upgraded connection.
    pub tunnel_idle_timeout: Duration,
}

/// The client's end of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    pub ask: Ask<'a>,
    /// For what outlives the answer.
    pub gate: &'a Arc<Gate>,
    pub control: &'a Arc<Control>,
    /// Said when the proxy stops.
    pub stop: &'a Shutdown,
    /// Who grants it memory.
    pub door: &'a Arc<ClientAdmission>,
}

impl Forwarding {
    /// Sends the permitted request, and answers with the origin's response, still streaming.
    pub async fn forward(
        &self,
        permit: &Permit,
        request: Received,
        client: Client<'_>,
    ) -> Result<Response<Body>, egress::Error> {
        let Received { mut head, body } = request;
        let received = head.version;
        let names = Names::of(&head.headers);
        let may_upgrade = names.have(Names::UPGRADE) && received == Version::HTTP_11;
        let protocol =
            may_upgrade.then(|| upgrades::wanted(&head.headers, &self.upgrades)).flatten();
        let client_side = protocol.as_ref().and_then(|_| head.extensions.remove::<OnUpgrade>());
        let is_expected = names.have(Names::EXPECT) && received == Version::HTTP_11;
        let (body, hold) = self.body(body, is_expected);
        let body = body.with_client_reads(client.control.is_known_to_read());
        // Of HTTP/2 the window says how much may come.
        let body = if received < Version::HTTP_2 {
            body.with_read_allowance(client.control.content_reads())
        } else {
            body
        };
        let progress = body.progress();
        self.rewrite(permit, &mut head, names, protocol.clone());
        let interim = Interim::pass_on(received, client.control, hold);
        let outgoing = BoxedRequest {
            head,
            body: body.with_informational_listener(Arc::clone(&interim) as Arc<_>),
        };

        let (origin, asker) = (&permit.target().origin, client.ask.client.key());
        let mut sending = pin!(self.egress.send(origin, outgoing, &asker));
        let response = poll_fn(|cx| {
            let sent = sending.as_mut().poll(cx);
            // Interim responses are read while this is polled. A flood of them is one, whatever stands behind it.
            if interim.is_flood() {
                Poll::Ready(Err(breach("the origin sent interim responses without end")))
            } else {
                sent
            }
        })
        .await?;
        let is_complete = progress.is_complete();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // Only a 101 that was asked for switches, and only to what was asked for (RFC 9110 §7.8).
            let is_asked_for = protocol
                .is_some_and(|asked| upgrades::switches_to_one_of(&asked, response.headers()));
            let Some(client_side) = client_side.filter(|_| is_asked_for) else {
                return Err(breach("the origin switched to a protocol that nobody asked for"));
            };
            if !is_complete {
                // What is left of the content would be taken for the new protocol.
                return Err(breach(
                    "the origin switched to another protocol before it had the whole request",
                ));
            }
            let held = client.door.keep(client.ask.client, footprint::UPGRADED_BYTES);
            let held =
                held.map_err(|refused| Error::new(Failure::ConnectionLimit, refused.to_string()))?;
            let lasting = Lasting::resource(client.gate, client.ask, permit.target().clone());
            let idle = self.tunnel_idle_timeout;
            return Ok(upgrade::switch(
                response,
                client_side,
                idle,
                &self.via,
                client,
                (lasting, held),
            ));
        }
        let answer = self.answer(response);
        // The rest of the content may never be read (RFC 9112 §9.6).
        Ok(if is_complete || received >= Version::HTTP_2 { answer } else { closing(answer) })
    }

    /// The client's body as it goes out. With `Expect: 100-continue` it is not asked for before the
    /// origin has said what it thinks of the head (RFC 9110 §10.1.1).
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
        let (go, hold) = oneshot::channel();
        (body.hold_until(hold, CONTINUE_WAIT), Some(go))
    }

    /// From the request received to the request sent.
    fn rewrite(
        &self,
        permit: &Permit,
        parts: &mut request::Parts,
        names: Names,
        protocol: Option<HeaderValue>,
    ) {
        let target = permit.target();
        let received = parts.version;
        let trailers = names.have(Names::TE) && fields::takes_trailers(&parts.headers);
        if received < Version::HTTP_11 {
            // RFC 9110 §10.1.1: an expectation in HTTP/1.0 is ignored.
            parts.headers.remove(EXPECT);
        }
        fields::remove_hop_by_hop(&mut parts.headers, names);
        if names.have(Names::COOKIE) {
            fields::join_cookies(&mut parts.headers);
        }
        parts.uri = Uri::from(target.path.clone());
        parts.version = Version::HTTP_11;
        let named = parts
            .headers
            .get(HOST)
            .is_some_and(|host| target.origin.has_authority(host.as_bytes()));
        if !named && let Ok(host) = HeaderValue::try_from(target.origin.authority()) {
            parts.headers.insert(HOST, host);
        }
        // RFC 9110 §10.1.4: TE goes with Connection, for this hop.
        let mut options = Vec::new();
        if trailers {
            parts.headers.insert(TE, HeaderValue::from_static("trailers"));
            options.push("TE");
        }
        if let Some(protocol) = protocol {
            parts.headers.insert(UPGRADE, protocol);
            options.push("upgrade");
        }
        if let Ok(options) = HeaderValue::try_from(options.join(", "))
            && !options.is_empty()
        {
            parts.headers.insert(CONNECTION, options);
        }
        self.via.append(&mut parts.headers, received);
    }

    fn answer(&self, response: Response<Box<ResponseBody>>) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        fields::pass_back(&mut parts.headers);
        self.via.append(&mut parts.headers, parts.version);
        parts.version = Version::HTTP_11;
        Response::from_parts(parts, Body::origin(body))
    }
}

fn breach(detail: &str) -> egress::Error {
    egress::Error::new(egress::Failure::Protocol, detail)
}

/// An expectation that we cannot meet is said so at once (RFC 9110 §10.1.1).
pub fn check_expectation(fields: &HeaderMap, received: Version) -> Result<(), Refusal> {
    let mut expectations = fields.get_all(EXPECT).iter();
    let met = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if received < Version::HTTP_11 || expectations.all(met) {
        Ok(())
    } else {
        Err(Refusal::expectation_failed())
    }
}
