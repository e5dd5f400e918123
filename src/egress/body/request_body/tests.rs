//! Request bodies whose connection takes as much as the test says.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::task::Waker;

use http::Version;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::*;
use crate::egress::config::{
    ORIGIN_READ_SMALL_BYTES, ORIGIN_WAITING_BYTES_MAX, ORIGIN_WAITING_SMALL_BYTES,
};

const BYTES: usize = 8 * ORIGIN_WAITING_BYTES_MAX;

/// Has `service` see to a request with so many bytes that have all come.
async fn with_upload<F: Future<Output = ()>>(service: impl Fn(RequestBody, Arc<IoState>) -> F) {
    let (near, mut far) = tokio::io::duplex(BYTES + 1024);
    let head = format!("POST / HTTP/1.1\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n");
    far.write_all(head.as_bytes()).await.unwrap();
    far.write_all(&vec![b'x'; BYTES]).await.unwrap();
    let service = service_fn(|request: Request<Incoming>| {
        let body =
            TimeoutBody::of_request(request.into_body(), Version::HTTP_11, Duration::from_secs(60));
        let (mut body, io) = (RequestBody::streamed(body), Arc::<IoState>::default());
        io.written.store(usize::MAX - 10, Ordering::Relaxed);
        body.limit_backlog(&io);
        let served = service(body, io);
        async move {
            served.await;
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), service);
    timeout(Duration::from_secs(20), serving).await.expect("it goes on").unwrap();
}

/// What it gives, when its connection has had its turn to bring more.
async fn asked(body: &mut RequestBody) -> Option<usize> {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    match Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frame) => Some(frame?.unwrap().into_data().unwrap().len()),
        Poll::Pending => None,
    }
}

fn take(io: &IoState, bytes: usize) {
    io.written.store(io.written.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
}

#[tokio::test]
async fn no_more_is_taken_of_a_body_than_may_wait_for_an_origin_that_takes_none() {
    with_upload(|mut body, io| async move {
        let (mut given, mut written) = (0, 0);
        while given < BYTES {
            while let Some(bytes) = asked(&mut body).await {
                assert!(given - written < ORIGIN_WAITING_SMALL_BYTES, "{given} {written}");
                given += bytes;
            }
            let is_awaited = io.is_awaited.swap(false, Ordering::Relaxed);
            assert!(is_awaited || given == BYTES, "{given}");
            let bytes = if written == 0 { given - ORIGIN_WAITING_SMALL_BYTES + 1 } else { 5_000 };
            written += bytes;
            take(&io, bytes);
        }
    })
    .await;
}

#[tokio::test]
async fn more_may_wait_for_an_origin_that_has_taken_much_where_there_is_memory() {
    for (limit, allows_large_reads) in [(16 << 20, true), (1 << 10, false)] {
        with_upload(|mut body, io| async move {
            let (memory, reads) =
                (Arc::new(BodyMemory::new(limit)), Arc::<ReadAllowance>::default());
            body = body.with_read_allowance(&reads);
            body.charge_to(&ClientKey::Proxy, &memory);
            let mut given = 0;
            while given <= ORIGIN_READ_SMALL_BYTES {
                take(&io, ORIGIN_WAITING_BYTES_MAX);
                given += asked(&mut body).await.expect("the origin takes all");
            }
            assert_eq!(reads.is_large(), allows_large_reads);
            assert_eq!(memory.counts().0 > 0, allows_large_reads);
            let backpressure =
                body.content.as_ref().and_then(|content| content.backpressure.as_ref()).unwrap();
            assert_eq!(backpressure.is_large(), allows_large_reads);
            drop(body);
            assert_eq!((memory.counts().0, reads.is_large()), (0, false));
        })
        .await;
    }
}

#[tokio::test]
async fn an_origin_that_takes_a_little_is_not_waited_for_in_vain() {
    with_upload(|mut body, io| async move {
        let progress = body.progress();
        while asked(&mut body).await.is_some() {}
        let request_sent_at = progress.waiting_since().expect("it is the origin's turn");
        assert_eq!(asked(&mut body).await, None);
        assert_eq!(progress.waiting_since(), Some(request_sent_at), "it has taken nothing");
        take(&io, 1);
        assert_eq!(asked(&mut body).await, None, "as much waits as may");
        assert!(progress.waiting_since().unwrap() > request_sent_at);
        take(&io, ORIGIN_WAITING_BYTES_MAX);
        assert!(asked(&mut body).await.is_some(), "there is room");
    })
    .await;
}
