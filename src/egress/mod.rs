//! The way out: resolve, keep only permitted addresses, connect to exactly those, speak.

mod error;

use http::{Request, Response};
use hyper::body::Incoming;

use crate::origin::Origin;
pub use error::{Error, Failure};

/// What goes out as a request body: a client's, streamed, or none.
#[derive(Debug)]
pub enum Body {
    Empty,
    Client(Incoming),
}

/// One handle on the way out.
#[derive(Debug)]
pub struct Egress {}

impl Egress {
    /// Sends one request to `origin` and returns the head of the answer, its body still to come.
    /// The request is in origin-form, with the `Host` that the caller derived from `origin`.
    pub async fn send(&self, _origin: &Origin, _request: Request<Body>) -> Result<Response<Incoming>, Error> {
        todo!()
    }
}
