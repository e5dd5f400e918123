//! The HTTP engine as the proxy uses it, over bytes in memory: what it makes of a request's head.

use std::cell::RefCell;
use std::convert::Infallible;

use http::{Request, Response, request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{join, sink};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().build().expect("a runtime");
}

/// The head of the first request in `bytes`, if that is one.
pub fn first_request(bytes: &[u8]) -> Option<request::Parts> {
    let first = RefCell::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        first.borrow_mut().get_or_insert_with(|| request.into_parts().0);
        std::future::ready(Ok::<_, Infallible>(Response::new(String::new())))
    });
    let stream = TokioIo::new(join(bytes, sink()));
    let connection =
        http1::Builder::new().half_close(true).keep_alive(false).serve_connection(stream, service);
    // What the engine thinks of the rest is its own affair.
    let _ = RUNTIME.with(|runtime| runtime.block_on(connection));
    first.into_inner()
}

/// All requests in `bytes`: method and target, and the content where it came to its end.
pub fn requests(bytes: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let seen = RefCell::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let content = body.collect().await.ok().map(|content| content.to_bytes().to_vec());
        seen.borrow_mut().push((format!("{} {}", head.method, head.uri), content));
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let stream = TokioIo::new(join(bytes, sink()));
    let connection = http1::Builder::new().half_close(true).serve_connection(stream, service);
    let _ = RUNTIME.with(|runtime| runtime.block_on(connection));
    seen.into_inner()
}
