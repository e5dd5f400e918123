//! The life of one request: where it is for, whether it may go, there and back.
//!
//! [`Proxy::handle`] is the whole path. Whatever the channel a request came by, it takes this path
//! and no other, and without a `Permit` nothing of it leaves.

mod body;
mod denial;
mod fields;
mod forward;
mod gate;
mod interim;
mod page;
mod problem;
mod respond;
mod rules;
mod target;
mod upgrade;
mod wire;

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONNECTION, MAX_FORWARDS, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use hyper::body::{Body as _, Incoming};
use tracing::debug;

pub use body::Body;
use body::Exchange;
pub use fields::Via;
use forward::Client;
pub use forward::Forwarding;
pub use gate::Gate;
use gate::{Admission, Ask};
pub use problem::{OWN_NAME, Problem};
use respond::Asked;
pub use respond::{Refusal, raw_refusal};
pub use rules::{AgentRule, Mode, OriginRule, Rules};
use target::{Destination, Target, destination};
pub use wire::{Control, Deadlines, Wire};

use crate::egress::Failure;

/// One worker's proxy.
#[derive(Debug)]
pub struct Proxy {
    pub gate: Arc<Gate>,
    pub forwarding: Forwarding,
}

/// The connection by which a request came.
#[derive(Clone, Debug)]
pub struct Channel {
    pub client: IpAddr,
    pub control: Arc<Control>,
}

/// The answer to a client that is not served at all.
pub fn turn_away<B>(refusal: &Refusal, request: &Request<B>) -> Response<Body> {
    let mut response = respond::refused(refusal, &Asked::by(request));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

impl Proxy {
    /// Answers one request of `channel`.
    pub async fn handle(&self, request: Request<Incoming>, channel: &Channel) -> Response<Body> {
        let exchange = Exchange::begin(&channel.control);
        let asked = Asked::by(&request);
        if !request.body().is_end_stream() || *request.method() == Method::CONNECT {
            // It may be answered before it is read: a denied upload is an everyday case.
            channel.control.may_leave_unread();
        }
        let response = match self.answer(request, channel).await {
            Ok(response) => response,
            Err(Stop::Refusal(refusal)) => {
                debug!(client = %channel.client, status = refusal.status().as_u16(), "{}", refusal.detail());
                respond::refused(&refusal, &asked)
            }
            Err(Stop::Denial(denial)) => respond::denied(&denial, &asked),
        };
        response.map(|body| body.within(exchange))
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        channel: &Channel,
    ) -> Result<Response<Body>, Stop> {
        let (parts, body) = request.into_parts();
        let target = match destination(&parts)? {
            Destination::Resource(target) => target,
            Destination::OwnPage(path) => return Ok(respond::own_page(path.path())),
            Destination::Proxy => return Ok(respond::options()),
        };
        request = Request::from_parts(parts, body);
        forward::check_expectation(request.headers(), request.version())?;
        if self.forwarding.via.is_looping(request.headers()) {
            return Err(Refusal::looping("the request has been through this proxy before (Via)").into());
        }
        if let Some(answer) = last_forward(&mut request) {
            return Ok(answer);
        }
        self.decide(request, target, channel).await
    }

    async fn decide(
        &self,
        request: Request<Incoming>,
        target: Target,
        channel: &Channel,
    ) -> Result<Response<Body>, Stop> {
        let (method, user_agent) = (request.method().clone(), request.headers().get(USER_AGENT).cloned());
        let ask = Ask { client: channel.client, method: &method, user_agent: user_agent.as_ref() };
        let permit = match self.gate.admit(target, ask).await {
            Admission::Permit(permit) => permit,
            Admission::RobotsTxt { snapshot, age } => {
                return Ok(respond::robots_txt(&snapshot, age));
            }
            Admission::Denial(denial) => return Err(Stop::Denial(denial)),
            Admission::Failed(error) => return Err(Refusal::origin(&error).into()),
        };
        let client = Client { address: channel.client, control: &channel.control };
        let forwarded = self.forwarding.forward(&permit, request, client).await;
        if !matches!(&forwarded, Err(error) if error.failure.is_clients()) {
            self.gate.note_answer(&permit, forwarded.as_ref().ok().map(Response::status));
        }
        match forwarded {
            Ok(response) => Ok(response),
            Err(error) if error.failure == Failure::AddressProhibited => {
                Err(Stop::Denial(self.gate.refuse_origin(permit.target(), ask, &error).await))
            }
            Err(error) => Err(Refusal::origin(&error).into()),
        }
    }
}

/// Why a request goes no further.
enum Stop {
    Refusal(Refusal),
    Denial(Box<gate::Denial>),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
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
