//! The life of one request: where it is for, whether it may go, there and back.
//!
//! [`Proxy::handle`] is the whole path. Whatever the channel a request came by, it takes this path
//! and no other, and without a `Permit` nothing of it leaves.

mod account;
mod asker;
mod char_class;
mod connect;
mod connection;
mod decision_log;
mod decisions;
mod denial;
mod distrust;
mod document;
mod draft;
mod excerpt;
mod exchange;
mod fields;
mod foreign;
mod form;
mod forward;
mod framing;
mod gate;
mod inside;
mod lasting;
pub mod limits;
mod names;
mod page;
#[doc(hidden)]
pub mod probe;
mod problem;
mod recorded;
mod refusal;
#[cfg(test)]
mod replayed;
mod respond;
mod rules;
mod statements;
mod stop;
mod tally;
mod target;
mod upgrades;
mod via;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, MAX_FORWARDS, USER_AGENT};
use http::{HeaderValue, Method, Response, Version, request};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;

pub use account::ACCESS;
use account::Account;
pub use body::Body;
use body::Exchange;
pub use channel::{Channel, Current, Scope};
use connect::Connect;
use connect::tunnel::IdleTimer;
pub use connect::tunnel::Pipes;
pub use connect::{Https, HttpsMode, Mixed};
pub use connection::{Limits, serve};
pub use decision_log::EACH_DECISION;
pub use decisions::{DecisionCounts, Decisions};
use form::Asked;
use forward::Client;
pub use forward::Forwarding;
pub use gate::Gate;
use gate::{Admission, Ask, Subject};
use lasting::Lasting;
use names::Names;
pub use problem::{OWN_NAME, Problem};
pub use refusal::Refusal;
pub use rules::{AgentRule, Mode, OriginRule, Rules};
pub use statements::Statements;
use stop::Stop;
use tally::{Asked as Counted, End};
pub use tally::{Counts, Tally};
use target::{Destination, Target, destination};
pub use upgrades::Protocol;
pub use via::Via;
pub use wire::Deadlines;

use connect::{intercept, upgrade};
use connection::client_io as wire;
use exchange::{
    body, connection_context as channel, connection_state as control, footprint, interim,
};
use framing::head;

use crate::ca::Leaves;
use crate::clients::{self, ClientAdmission, Held, RejectReason};
use crate::egress::boxed_request::BoxedRequest;
use crate::runtime::box_future::box_future;
use crate::runtime::clock;
use crate::types::origin::{Origin, Scheme};

/// A client's request.
type Received = BoxedRequest<Incoming>;

/// One worker's proxy.
#[derive(Debug)]
pub struct Proxy {
    pub gate: Arc<Gate>,
    pub forwarding: Forwarding,
    pub tally: Arc<Tally>,
    pub limits: Limits,
    pub https: Https,
    /// For the first bytes inside a CONNECT, and for the TLS handshake.
    pub handshake_timeout: Duration,
    pub leaves: Arc<Leaves>,
    pub door: Arc<ClientAdmission>,
}

/// The answer to a client that is not served at all.
pub fn turn_away(refusal: &Refusal, head: &request::Parts) -> Response<Body> {
    closing(respond::refused(refusal, &Asked::by(head)))
}

impl Proxy {
    /// Answers one request of `channel`.
    pub async fn handle(&self, request: Received, channel: &Channel) -> Response<Body> {
        let mut exchange = Exchange::begin(&channel.control);
        let (asked, account) = (Asked::by(&request.head), Account::of(&request.head, channel));
        self.note_trust(channel);
        // It may be answered before it is read: a denied upload is an everyday case. And what follows a
        // refused CONNECT was meant for a tunnel, not for us.
        let may_be_unread = request.head.method == Method::CONNECT || !request.body.is_end_stream();
        if may_be_unread {
            channel.control.may_leave_unread();
        }
        let closes = may_be_unread && request.head.version < Version::HTTP_2;
        let response = match self.answer(request, channel, &mut exchange, &account).await {
            Ok(response) => {
                account.tell(channel, response.status(), None);
                response
            }
            Err(stop) => {
                let response = stop.answer(&asked, channel);
                account.tell(channel, response.status(), Some(&stop));
                // RFC 9112 §9.6: else the next request might be sent, and lost.
                if closes { closing(response) } else { response }
            }
        };
        channel.control.note_answer();
        response.map(|body| body.within(exchange))
    }

    /// The first request inside a TLS connection shows that the client trusts the certificate.
    fn note_trust(&self, channel: &Channel) {
        if let Scope::Within(origin) = &channel.scope
            && origin.scheme() == Scheme::Https
            && channel.control.exchanges() == 1
        {
            self.tally.inside.distrust.trusts(&channel.client, origin, clock::monotonic());
        }
    }

    async fn answer(
        &self,
        mut request: Received,
        channel: &Channel,
        exchange: &mut Exchange,
        account: &Account,
    ) -> Result<Response<Body>, Stop> {
        let received = if request.head.version == Version::HTTP_2 {
            let Limits { fields_max, strict_target, .. } = self.limits;
            head::http2::check(&mut request.head, fields_max, strict_target)?
        } else {
            channel.control.take_received()
        };
        let destination =
            destination(&request.head, &channel.scope, channel.control.is_pathless())?;
        let destination = destination.received_as(received);
        let client = self.identify(&request.head, channel).await?;
        let scheme = destination.scheme();
        let bytes = footprint::of(&request.head, !request.body.is_end_stream(), scheme);
        exchange.holds(self.door.request(&client, bytes)?);
        let target = match destination {
            Destination::Resource(target) => target,
            Destination::Connect => {
                return box_future(|| self.connect(request, &client, channel, account)).await;
            }
            Destination::OwnPage(path) => {
                return Ok(respond::own_page(path.path(), &self.leaves.authority()));
            }
            Destination::Proxy => return Ok(respond::options()),
        };
        let names = Names::of(&request.head.headers);
        if names.have(Names::EXPECT) {
            forward::check_expectation(&request.head.headers, request.head.version)?;
        }
        if names.have(Names::VIA) && self.forwarding.via.is_looping(&request.head.headers) {
            return Err(
                Refusal::looping("the request has been through this proxy before (Via)").into()
            );
        }
        if let Some(answer) = last_forward(&mut request.head) {
            return Ok(answer);
        }
        let counted = self.tally.asked(&target.origin);
        count(counted, self.fetch(request, target, &client, channel, account).await)
    }

    /// Who asks. Credentials are asked for what is asked of us as a proxy: not for the page that a
    /// person finds at our address, and not again inside a CONNECT.
    async fn identify(
        &self,
        request: &request::Parts,
        channel: &Channel,
    ) -> Result<clients::Client, RejectReason> {
        if channel.scope != Scope::Proxy {
            return self.door.renew(&channel.client);
        }
        let address = channel.client.address;
        if request.uri.authority().is_none() {
            return Ok(clients::Client::at(address));
        }
        let client = self.door.authenticate(address, &request.headers).await?;
        if let Some(user) = &client.user {
            self.door.permit_user(user, &channel.seat)?;
        }
        Ok(client)
    }

    /// Decides on a resource, and has it fetched.
    async fn fetch(
        &self,
        request: Received,
        target: Target,
        client: &clients::Client,
        channel: &Channel,
        account: &Account,
    ) -> Result<(End, Response<Body>), Stop> {
        let head = &request.head;
        let (method, user_agent) = (head.method.clone(), head.headers.get(USER_AGENT).cloned());
        let ask = Ask { client, method: &method, user_agent: user_agent.as_ref(), account };
        let permit = match self.gate.admit(target, ask).await? {
            Admission::Permit(permit) => permit,
            Admission::RobotsTxt { snapshot, age } => {
                return Ok((End::Copy, respond::robots_txt(&snapshot, age)));
            }
        };
        let (control, stop) = (&channel.control, &channel.stop);
        let client = Client { ask, gate: &self.gate, control, stop, door: &self.door };
        let forwarded = self.forwarding.forward(&permit, request, client).await;
        let answer = forwarded.as_ref().map(Response::status).map_err(|error| error.failure);
        self.gate.note_answer(&permit, answer);
        match forwarded {
            Ok(response) => Ok((End::Forwarded, response)),
            Err(error) => {
                let subject = Subject::Resource(permit.target());
                Err(box_future(|| self.gate.no_way_out(subject, ask, error)).await.into())
            }
        }
    }

    /// Answers a CONNECT, and says what follows it.
    async fn connect(
        &self,
        request: Received,
        client: &clients::Client,
        channel: &Channel,
        account: &Account,
    ) -> Result<Response<Body>, Stop> {
        let mut request = request.whole();
        let upgrade = hyper::upgrade::on(&mut request);
        let (head, _) = request.into_parts();
        let user_agent = head.headers.get(USER_AGENT);
        let ask = Ask { client, method: &head.method, user_agent, account };
        match self.https.connect(&head, &channel.scope)? {
            Connect::Intercept(origin) => {
                // What is spoken at port 80 is plain HTTP, as of WebSockets, and needs no certificate.
                if origin.port() != 80
                    && let Some(invalidity) = self.leaves.refusal()
                {
                    return count(
                        self.tally.asked(&origin),
                        Err(Refusal::ca_not_valid(&invalidity).into()),
                    );
                }
                let since = clock::monotonic();
                if let Err(no) =
                    self.gate.admit_address(&origin, ask, &self.forwarding.egress).await
                {
                    // What is asked inside counts for itself; without an inside, this was the request.
                    return count(self.tally.asked(&origin).since(since), Err(no.into()));
                }
                let held = self.door.keep(client, footprint::MULTIPLEXED_BYTES)?;
                let inside =
                    intercept::sequel(upgrade, origin, channel.of(client), ask.into(), held);
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
        let held = self.door.keep(ask.client, footprint::TUNNEL_BYTES)?;
        let stream =
            match self.forwarding.egress.connect_plain(permit.origin(), &ask.client.key()).await {
                Ok(stream) => stream,
                Err(error) => {
                    let subject = Subject::Host(permit.origin());
                    return Err(self.gate.no_way_out(subject, ask, error).await.into());
                }
            };
        let tunnel = upgrade::Tunnel {
            lasting: Lasting::host(&self.gate, ask, permit.origin().clone(), mixed),
            permit,
            idle: IdleTimer::new(self.forwarding.tunnel_idle_timeout, channel.stop.clone()),
            pipes: Arc::clone(&self.forwarding.pipes),
            handshake_timeout: self.handshake_timeout,
        };
        channel.control.follow_with(holding(held, tunnel.run(upgrade, stream)));
        Ok(())
    }
}

/// What `next` does, with `held` until it is done.
async fn holding(held: Held, next: impl Future<Output = ()>) {
    next.await;
    drop(held);
}

/// Counts a request by how it ended; one that was refused has failed.
fn count(
    counted: Counted<'_>,
    ended: Result<(End, Response<Body>), Stop>,
) -> Result<Response<Body>, Stop> {
    match &ended {
        Ok((end, response)) => counted.answered(response.body().asked_at()).ended(*end),
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
fn last_forward(head: &mut request::Parts) -> Option<Response<Body>> {
    let is_trace = head.method == Method::TRACE;
    if !is_trace && head.method != Method::OPTIONS {
        return None;
    }
    let count: u64 = head.headers.get(MAX_FORWARDS)?.to_str().ok()?.trim().parse().ok()?;
    match count.checked_sub(1) {
        None if is_trace => Some(respond::trace_ends_here()),
        None => Some(respond::options()),
        Some(left) => {
            head.headers.insert(MAX_FORWARDS, HeaderValue::from(left));
            None
        }
    }
}
