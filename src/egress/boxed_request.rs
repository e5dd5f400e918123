//! A request while it is passed from hand to hand.

use http::{Request, request};

/// Its head is on the heap: heads are large, and each hand would have room of its own for one.
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
    pub fn whole(self) -> Request<B> {
        Request::from_parts(*self.head, self.body)
    }
}
