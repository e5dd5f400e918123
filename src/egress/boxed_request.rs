//! A request with a boxed head.

use http::{Request, request};

/// A request as functions pass it on. Heads are large: unboxed, each future on the way would have
/// room of its own for one.
#[derive(Debug)]
pub struct BoxedRequest<B> {
    pub head: Box<request::Parts>,
    pub body: B,
}

impl<B> From<Request<B>> for BoxedRequest<B> {
    fn from(request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self { head: Box::new(head), body }
    }
}

impl<B> BoxedRequest<B> {
    /// The request with its head unboxed.
    pub fn whole(self) -> Request<B> {
        Request::from_parts(*self.head, self.body)
    }
}
