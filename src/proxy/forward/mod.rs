//! Forwards a permitted request to its origin. The request line and `Host` are made from the
//! permit, never from what was received; bodies are streamed.

pub(super) mod permission;

use std::fmt::Write as _;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, EXPECT, HOST, TE, UPGRADE};
use http::request::Parts as RequestParts;
use http::response::Parts as ResponseParts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use tokio::sync::oneshot;

use super::connect::TunnelEnds;
use super::connect::tunnel::Pipes;
use super::connection::body::{self, Body};
use super::connection::connection_state::ConnectionState;
use super::decision::gate::Permit;
use super::decision::revocation::Revocation;
use super::destination::Target;
use super::hop_by_hop::{self, HeaderSet, Via};
use super::response;
use super::upgrade::{self, RequestedUpgrade, UpgradeProtocol};
use crate::egress::BoxedRequest;
use crate::egress::{
    self, Egress, Error, Failure, InformationalListener, RequestBody, RequestProgress, Requester,
    ResponseBody, TimeoutBody,
};
use crate::pace::Turn;
use crate::runtime::lock::Lock;
use crate::types::loop_token::{LOOP_TOKEN, LoopToken};
pub use permission::{ClientSide, ForwardError};
use permission::{ForwardPermission, breach};

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
    pub upgrades: Arc<[UpgradeProtocol]>,
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
            rewrite_response(&mut head, &self.via);
            let response =
                Response::from_parts(head, Body::origin(body, Arc::clone(permit.site())));
            if is_complete || version >= Version::HTTP_2 {
                Ok(response)
            } else {
                // The rest of the content may never be read (RFC 9112 §9.6).
                Ok(response::with_close(response))
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
        rewrite_request(&mut head, header_set, permit.target(), protocol, &self.via);
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
        let requester = Requester::client(&key);
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
        let memory = side.admission.reserve_memory(side.info.client, body::UPGRADED_BYTES);
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

// Rewrites the head of a request for its origin, and that of the response for the client:
// hop-by-hop headers, `Host` and `Via` (RFC 9110 §7.6).

/// Makes of the head as received, of which `header_set` has the names, the head to be sent to
/// `target`. With `protocol` it requests an upgrade.
pub fn rewrite_request(
    head: &mut RequestParts,
    header_set: HeaderSet,
    target: &Target,
    protocol: Option<HeaderValue>,
    via: &Via,
) {
    let version = head.version;
    let takes_trailers = header_set.has(HeaderSet::TE) && hop_by_hop::takes_trailers(&head.headers);
    if version < Version::HTTP_11 {
        // RFC 9110 §10.1.1: an expectation in HTTP/1.0 is ignored.
        head.headers.remove(EXPECT);
    }
    hop_by_hop::remove_hop_by_hop(&mut head.headers, header_set);
    if header_set.has(HeaderSet::OURS) {
        // Of a proxy before this one, which named it for this hop.
        head.headers.remove(LOOP_TOKEN);
    }
    if header_set.has(HeaderSet::COOKIE) {
        hop_by_hop::join_cookies(&mut head.headers);
    }
    head.uri = Uri::from(target.path.clone());
    head.version = Version::HTTP_11;
    let host = head.headers.get(HOST);
    let is_named = host.is_some_and(|host| target.origin.has_authority(host.as_bytes()));
    if !is_named && let Ok(host) = HeaderValue::try_from(target.origin.authority()) {
        head.headers.insert(HOST, host);
    }
    // RFC 9110 §10.1.4: a TE is listed in Connection, because it is for this hop.
    let mut options = Vec::new();
    if takes_trailers {
        head.headers.insert(TE, HeaderValue::from_static("trailers"));
        options.push("TE");
    }
    if let Some(protocol) = protocol {
        head.headers.insert(UPGRADE, protocol);
        options.push("upgrade");
    }
    if let Ok(options) = HeaderValue::try_from(options.join(", "))
        && !options.is_empty()
    {
        head.headers.insert(CONNECTION, options);
    }
    via.append(&mut head.headers, version);
}

/// Makes of the head of the origin's response the head for the client.
pub fn rewrite_response(head: &mut ResponseParts, via: &Via) {
    hop_by_hop::clean_response(&mut head.headers);
    via.append(&mut head.headers, head.version);
    head.version = Version::HTTP_11;
}

/// Interim responses passed on to one request.
const INTERIM_RESPONSES_MAX: usize = 16;

/// Interim responses read before the final response to one request. An origin that sends more
/// floods the proxy, and its final response is not waited for.
const INTERIM_RESPONSES_READ_MAX: usize = 1024;

/// Handles the interim responses to one request.
#[derive(Debug)]
pub struct Interim {
    version: Version,
    state: Arc<ConnectionState>,
    /// Reports a 100 (Continue), for which the body of the request waits.
    continue_sender: Lock<Option<oneshot::Sender<()>>>,
    read: AtomicUsize,
    passed: AtomicUsize,
}

impl Interim {
    /// A handler that passes interim responses on to the client of `state`, if `version`, that of
    /// the request, is HTTP/1.1: HTTP/1.0 has none, and hyper's HTTP/2 cannot send any. A 100
    /// (Continue) is not passed on; it is reported by `continue_sender`, and hyper sends its own
    /// 100 when the body is first read.
    pub fn new(
        version: Version,
        state: &Arc<ConnectionState>,
        continue_sender: Option<oneshot::Sender<()>>,
    ) -> Arc<Self> {
        let (read, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self {
            version,
            state: Arc::clone(state),
            continue_sender: Lock::new(continue_sender),
            read,
            passed,
        })
    }

    /// Whether the origin has sent more than are read.
    pub fn is_flood(&self) -> bool {
        self.read.load(Ordering::Relaxed) > INTERIM_RESPONSES_READ_MAX
    }
}

impl InformationalListener for Interim {
    fn on_informational(&self, status: StatusCode, fields: &HeaderMap) {
        self.read.fetch_add(1, Ordering::Relaxed);
        if self.is_flood() {
            return;
        }
        if status == StatusCode::CONTINUE {
            if let Some(sender) = self.continue_sender.lock().take() {
                let _ = sender.send(());
            }
        } else if self.version == Version::HTTP_11
            && self.passed.fetch_add(1, Ordering::Relaxed) < INTERIM_RESPONSES_MAX
        {
            self.state.interim().push(head(status, fields).as_bytes());
        }
    }
}

/// The head of an interim response as bytes. Values that are not text are left out: an interim
/// response is only a hint, and no library checks what is written here.
fn head(status: StatusCode, headers: &HeaderMap) -> String {
    let mut fields = headers.clone();
    hop_by_hop::clean_response(&mut fields);
    let mut head = format!(
        "HTTP/1.1 {} {}\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default()
    );
    for (name, value) in &fields {
        if let Ok(value) = value.to_str() {
            let _ = write!(head, "{name}: {value}\r\n");
        }
    }
    head.push_str("\r\n");
    head
}
