//! The way out: resolve, keep only permitted addresses, connect to exactly those, speak the version
//! of HTTP that the origin prefers.
//!
//! Promises: no connection to an address that the policy refuses, by whatever name; bounds on
//! connections in use and idle; a request is sent a second time only when that is safe
//! (RFC 9110 §9.2.2). Never follows a redirect and never decides what may be fetched.

mod address;
mod alone;
mod arriving;
mod asker;
mod attempts;
mod bell;
pub mod boxed_request;
mod bulk;
mod connect;
mod counters;
mod dial;
mod endpoints;
mod error;
mod exchange;
mod hosts;
mod hosts_file;
mod http2;
pub mod limits;
mod multiplexed;
mod outgoing;
mod plaintext;
mod pool;
mod portions;
mod progress;
mod resolve;
mod shortage;
mod slots;
mod spare;
mod terms;
mod tls;
mod tls_words;
mod trailers;
mod trust;
mod unstalled;
mod verify;

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use http::Response;
use http::header::UPGRADE;

use crate::egress::boxed_request::BoxedRequest;
use crate::runtime::box_future::box_future;
use crate::types::origin::Origin;
pub use address::{AddressPolicy, Prohibited};
pub use arriving::Arriving;
pub use asker::{Asker, Queued};
pub use counters::Stats;
use dial::Wanted;
pub use endpoints::Endpoints;
pub use error::{Error, Failure};
use exchange::Again;
pub use hosts::HostRules;
pub use outgoing::{ContentReads, Listener, Outgoing};
pub use plaintext::{Plaintext, Readable};
use pool::Pool;
use spare::Spare;
pub use terms::{Config, Shared, Terms};
use tls::Versions;
pub use tls::{Tls, connector as tls_connector};
pub use trust::{Roots, RootsError};
pub use unstalled::Unstalled;

/// One worker's handle on the way out, with its own idle connections.
pub struct Egress {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
}

thread_local! {
    /// That of the worker whose thread this is.
    static WORKERS_OWN: RefCell<Weak<Egress>> = const { RefCell::new(Weak::new()) };
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("shared", &self.shared).field("pool", &self.pool).finish()
    }
}

impl Egress {
    pub fn new(shared: Arc<Shared>) -> Self {
        let pool = Pool::new(Arc::clone(&shared));
        shared.enter(&pool);
        Self { pool, shared }
    }

    /// Each connection ends with its exchange: for whoever is not bound to one runtime.
    pub fn without_pool(shared: Arc<Shared>) -> Self {
        Self { pool: Pool::none(Arc::clone(&shared)), shared }
    }

    /// Lets whoever runs on this thread, and belongs to no request, use these connections, too: see
    /// [`Self::of_this_worker`]. The thread drives one runtime, and that is this one's.
    pub fn settle(self: &Arc<Self>) {
        WORKERS_OWN.set(Arc::downgrade(self));
    }

    /// That of the worker whose thread this is: a robots.txt comes over the connection that its page
    /// then takes, and an origin that is new costs one handshake and not two.
    pub fn of_this_worker() -> Option<Arc<Self>> {
        WORKERS_OWN.with_borrow(Weak::upgrade)
    }

    /// Whether `origin` may be contacted at all: [`Failure::HostProhibited`],
    /// [`Failure::AddressProhibited`] or [`Failure::Loop`] when not, another failure when its name
    /// cannot be resolved.
    pub async fn permits(&self, origin: &Origin, asker: impl Into<Asker<'_>>) -> Result<(), Error> {
        self.route(origin, asker.into()).await.map(drop)
    }

    /// Sends one request to `origin` and returns the head of the answer, its body still to come.
    /// The request is in origin-form, with the `Host` that the caller derived from `origin`. It is
    /// sent a second time at most, and only when that is safe. Who asks shares the origin's slots with
    /// the others.
    pub async fn send(
        &self,
        origin: &Origin,
        mut request: BoxedRequest<Outgoing>,
        asker: impl Into<Asker<'_>>,
    ) -> Result<Response<Box<Arriving>>, Error> {
        let asker = asker.into();
        let deadline = self.shared.look().config.connect_timeout;
        let slot = self.shared.slots.acquire(origin, asker, deadline).await?;
        // HTTP/2 has no upgrades (RFC 9113 §8.6).
        let versions = if request.head.headers.contains_key(UPGRADE) {
            Versions::Http1
        } else {
            Versions::Any
        };
        request.body.charged_to(asker.for_slots(), &self.shared.memory);
        let wanted = Wanted { versions, asker, is_read: request.body.is_read() };
        let connection = self.connection(origin, wanted).await?;
        let spare = if connection.may_need_retry() { Spare::of(&request) } else { None };
        let unanswered = match self.exchange(connection, origin, request, slot).await {
            Ok(response) => return Ok(response),
            Err(unanswered) => unanswered,
        };
        let (request, versions) = match (unanswered.unsent, spare, unanswered.again) {
            (Some(unsent), _, _) => (unsent, versions),
            (None, Some(spare), Again::Yes(versions)) => (spare.request(), versions),
            _ => return Err(unanswered.error),
        };
        let connection = self.fresh(origin, Wanted { versions, ..wanted }).await?;
        let answer =
            box_future(|| self.exchange(connection, origin, request, unanswered.slot)).await;
        answer.map_err(|unanswered| unanswered.error)
    }

    /// Closes idle connections whose time is over.
    pub fn sweep(&self) {
        self.pool.sweep();
    }
}
