//! The life of one request: where it is for, whether it may go, there and back.
//!
//! [`Proxy::handle`] is the whole path. Whatever the channel a request came by, it takes this path
//! and no other, and without a `Permit` nothing of it leaves.

mod body;
mod channel;
mod chunks;
mod connect;
mod connection;
mod control;
mod decisions;
mod denial;
mod engine;
mod fields;
mod form;
mod forward;
mod framing;
mod gate;
mod head;
mod intercept;
mod interim;
mod multiplexed;
mod page;
mod pipes;
#[doc(hidden)]
pub mod probe;
mod problem;
mod recorded;
mod refusal;
#[cfg(test)]
mod replayed;
mod respond;
mod rewind;
mod rules;
mod stop;
mod tally;
mod target;
mod tunnel;
mod upgrade;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, MAX_FORWARDS, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, Version, request};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;

pub use body::Body;
use body::Exchange;
pub use channel::{Channel, Current, Scope};
use connect::Connect;
pub use connect::{Https, HttpsMode, Mixed};
pub use connection::{Limits, serve};
pub use decisions::{DecisionCounts, Decisions};
pub use fields::Via;
use form::Asked;
use forward::Client;
pub use forward::Forwarding;
pub use gate::Gate;
use gate::{Admission, Ask, Subject};
pub use pipes::Pipes;
pub use problem::{OWN_NAME, Problem};
pub use refusal::Refusal;
pub use rules::{AgentRule, Mode, OriginRule, Rules};
use stop::Stop;
use tally::{Asked as Counted, End};
pub use tally::{Counts, Tally};
use target::{Destination, Target, destination};
use tunnel::Silence;
pub use wire::Deadlines;

use crate::ca::Leaves;
use crate::clients::{self, Door, TurnedAway};
use crate::origin::Origin;

/// One worker's proxy.
#[derive(Debug)]
pub struct Proxy {
    pub gate: Arc<Gate>,
    pub forwarding: Forwarding,
    pub tally: Arc<Tally>,
    pub limits: Limits,
    pub https: Https,
    /// For the first octets inside a CONNECT, and for the TLS handshake.
    pub handshake_timeout: Duration,
    pub leaves: Arc<Leaves>,
    pub door: Arc<Door>,
}

/// The answer to a client that is not served at all.
pub fn turn_away<B>(refusal: &Refusal, request: &Request<B>) -> Response<Body> {
    closing(respond::refused(refusal, &Asked::by(request)))
}

impl Proxy {
    /// Answers one request of `channel`.
    pub async fn handle(&self, request: Request<Incoming>, channel: &Channel) -> Response<Body> {
        let mut exchange = Exchange::begin(&channel.control);
        let asked = Asked::by(&request);
        // It may be answered before it is read: a denied upload is an everyday case. And what follows a
        // refused CONNECT was meant for a tunnel, not for us.
        let may_be_unread = *request.method() == Method::CONNECT || !request.body().is_end_stream();
        if may_be_unread {
            channel.control.may_leave_unread();
        }
        let closes = may_be_unread && request.version() < Version::HTTP_2;
        let response = match self.answer(request, channel, &mut exchange).await {
            Ok(response) => response,
            Err(stop) => {
                let response = stop.answer(&asked, channel);
                // RFC 9112 §9.6: else the next request might be sent, and lost.
                if closes { closing(response) } else { response }
            }
        };
        channel.control.note_answer();
        response.map(|body| body.within(exchange))
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        channel: &Channel,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Stop> {
        let (parts, body) = request.into_parts();
        let destination = destination(&parts, &channel.scope, channel.control.is_pathless())?;
        let client = self.identify(&parts, channel).await?;
        exchange.occupies(self.door.request(&client)?);
        request = Request::from_parts(parts, body);
        let target = match destination {
            Destination::Resource(target) => target,
            Destination::Connect => return Box::pin(self.connect(request, &client, channel)).await,
            Destination::OwnPage(path) => {
                return Ok(respond::own_page(path.path(), &self.leaves.authority()));
            }
            Destination::Proxy => return Ok(respond::options()),
        };
        forward::check_expectation(request.headers(), request.version())?;
        if self.forwarding.via.is_looping(request.headers()) {
            return Err(Refusal::looping("the request has been through this proxy before (Via)").into());
        }
        if let Some(answer) = last_forward(&mut request) {
            return Ok(answer);
        }
        let counted = self.tally.asked(&target.origin);
        count(counted, self.fetch(request, target, &client, channel).await)
    }

    /// Who asks. Credentials are asked for what is asked of us as a proxy: not for the page that a
    /// person finds at our address, and not again inside a CONNECT.
    async fn identify(
        &self,
        request: &request::Parts,
        channel: &Channel,
    ) -> Result<clients::Client, TurnedAway> {
        if channel.scope != Scope::Proxy {
            return self.door.renew(&channel.client);
        }
        let address = channel.client.address;
        if request.uri.authority().is_none() {
            return Ok(clients::Client::at(address));
        }
        let client = self.door.authenticate(address, &request.headers).await?;
        if let Some(user) = &client.user {
            self.door.seat(user, &channel.seat)?;
        }
        Ok(client)
    }

    /// Decides on a resource, and has it fetched.
    async fn fetch(
        &self,
        request: Request<Incoming>,
        target: Target,
        client: &clients::Client,
        channel: &Channel,
    ) -> Result<(End, Response<Body>), Stop> {
        let (method, user_agent) = (request.method().clone(), request.headers().get(USER_AGENT).cloned());
        let ask = Ask { client, method: &method, user_agent: user_agent.as_ref() };
        let permit = match self.gate.admit(target, ask).await? {
            Admission::Permit(permit) => permit,
            Admission::RobotsTxt { snapshot, age } => {
                return Ok((End::Copy, respond::robots_txt(&snapshot, age)));
            }
        };
        let client = Client { who: client, control: &channel.control, stop: &channel.stop };
        let forwarded = self.forwarding.forward(&permit, request, client).await;
        if !matches!(&forwarded, Err(error) if error.failure.is_clients()) {
            self.gate.note_answer(&permit, forwarded.as_ref().ok().map(Response::status));
        }
        match forwarded {
            Ok(response) => Ok((End::Forwarded, response)),
            Err(error) => {
                let subject = Subject::Resource(permit.target());
                Err(Box::pin(self.gate.no_way_out(subject, ask, error)).await.into())
            }
        }
    }

    /// Answers a CONNECT, and says what follows it.
    async fn connect(
        &self,
        mut request: Request<Incoming>,
        client: &clients::Client,
        channel: &Channel,
    ) -> Result<Response<Body>, Stop> {
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, _) = request.into_parts();
        let ask = Ask { client, method: &parts.method, user_agent: parts.headers.get(USER_AGENT) };
        match self.https.connect(&parts, &channel.scope)? {
            Connect::Intercept(origin) => {
                if let Err(no) = self.gate.admit_address(&origin, ask, &self.forwarding.egress).await {
                    // What is asked inside counts for itself; without an inside, this was the request.
                    return count(self.tally.asked(&origin), Err(no.into()));
                }
                let inside = intercept::sequel(upgrade, origin, channel.of(client));
                channel.control.follow_with(inside);
                Ok(respond::connected())
            }
            Connect::PortNotAllowed(origin) => {
                let no = self.gate.refuse_port(&origin, ask).await;
                count(self.tally.asked(&origin), Err(no.into()))
            }
            Connect::Classify(origin, mixed) => {
                let counted = self.tally.asked(&origin);
                let tunnelled = self.tunnel(upgrade, origin, mixed, ask, channel).await;
                count(counted, tunnelled.map(|()| (End::Forwarded, respond::connected())))
            }
        }
    }

    /// Decides on a host as a whole, and connects the client with it.
    async fn tunnel(
        &self,
        upgrade: OnUpgrade,
        origin: Origin,
        mixed: Mixed,
        ask: Ask<'_>,
        channel: &Channel,
    ) -> Result<(), Stop> {
        let permit = self.gate.admit_host(origin, ask, mixed).await?;
        let stream = match self.forwarding.egress.connect_plain(permit.origin()).await {
            Ok(stream) => stream,
            Err(error) => {
                let subject = Subject::Host(permit.origin());
                return Err(self.gate.no_way_out(subject, ask, error).await.into());
            }
        };
        let silence = Silence::new(self.forwarding.tunnel_idle_timeout, channel.stop.clone());
        let pipes = Arc::clone(&self.forwarding.pipes);
        channel.control.follow_with(upgrade::blind(upgrade, stream, silence, pipes));
        Ok(())
    }
}

/// Counts a request by how it ended; one that was refused has failed.
fn count(counted: Counted<'_>, ended: Result<(End, Response<Body>), Stop>) -> Result<Response<Body>, Stop> {
    match &ended {
        Ok((end, _)) => counted.ended(*end),
        Err(Stop::Denial(denial)) => counted.ended(End::Denied(denial.record.reason)),
        Err(Stop::Refusal(_)) => drop(counted),
    }
    ended.map(|(_, response)| response)
}

fn closing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// `Max-Forwards` of TRACE and OPTIONS (RFC 9110 §7.6.2): at zero the request ends here, else it
/// goes on with one less. In other methods the field means nothing, and is left alone.
fn last_forward(request: &mut Request<Incoming>) -> Option<Response<Body>> {
    let is_trace = *request.method() == Method::TRACE;
    if !is_trace && *request.method() != Method::OPTIONS {
        return None;
    }
    let count: u64 = request.headers().get(MAX_FORWARDS)?.to_str().ok()?.trim().parse().ok()?;
    match count.checked_sub(1) {
        None if is_trace => Some(respond::trace_ends_here()),
        None => Some(respond::options()),
        Some(left) => {
            request.headers_mut().insert(MAX_FORWARDS, HeaderValue::from(left));
            None
        }
    }
}
