//! A client's request while it is passed from hand to hand.

use http::{Request, request};
use hyper::body::Incoming;

/// Its head is on the heap: heads are large, and each hand would have room of its own for one.
#[derive(Debug)]
pub struct Received {
    pub head: Box<request::Parts>,
    pub body: Incoming,
}

impl From<Request<Incoming>> for Received {
    fn from(request: Request<Incoming>) -> Self {
        let (head, body) = request.into_parts();
        Self { head: Box::new(head), body }
    }
}

impl Received {
    pub fn whole(self) -> Request<Incoming> {
        Request::from_parts(*self.head, self.body)
    }
}
