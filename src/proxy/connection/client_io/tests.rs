use std::convert::Infallible;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream, DuplexStream, duplex};

use super::*;
use crate::proxy::{HTTP1_STATE_IDLE, HTTP1_STATE_IDLE_MAX};

/// A stream whose backlog is unknown.
impl ClientStream for DuplexStream {
    fn unsent_bytes(&self) -> Option<u32> {
        None
    }
}

/// A connection that accepts `room` bytes before the client has to read.
fn new_client_io(room: usize) -> (ClientIo<DuplexStream>, Arc<ConnectionState>, DuplexStream) {
    let (stream, client) = duplex(room);
    let state = Arc::<ConnectionState>::default();
    let long = Duration::from_secs(60);
    let timeouts = Timeouts { idle: long, head: long, write: long };
    (ClientIo::new(stream, Arc::clone(&state), timeouts, Framing::new(8192, 100)), state, client)
}

async fn all(mut client: DuplexStream) -> String {
    let mut bytes = String::new();
    client.read_to_string(&mut bytes).await.unwrap();
    bytes
}

/// Lets all tasks of this runtime run until they wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// I2: no bytes of one request ever become part of another.
#[tokio::test]
async fn an_interim_response_is_never_inside_another_response() {
    let (mut client_io, state, mut client) = new_client_io(8);
    state.interim().push(b"103 ");
    client_io.flush().await.unwrap();
    assert_eq!(client_io.write(b"response").await.unwrap(), 4);
    state.interim().push(b"103 ");
    let read = tokio::spawn(async move {
        let mut bytes = [0; 16];
        client.read_exact(&mut bytes).await.unwrap();
        (client, bytes)
    });
    client_io.write_all(b"onse").await.unwrap();
    client_io.flush().await.unwrap();
    state.interim().push(b"102 ");
    client_io.write_all(b"next").await.unwrap();
    drop(client_io);
    let (client, bytes) = read.await.unwrap();
    assert_eq!((&bytes[..], all(client).await.as_str()), (&b"103 response102 "[..], "next"));
}

/// The response came before the end of the upload, and the client reads it only after it has sent
/// its next request.
#[tokio::test]
async fn a_request_that_came_while_the_client_did_not_read_has_a_response() {
    let (client_io, _, mut client) = new_client_io(64);
    let service = service_fn(|request: Request<Incoming>| async {
        tokio::spawn(request.into_body().collect());
        Ok::<_, Infallible>(
            Response::default().map(|()| Full::<bytes::Bytes>::new(vec![b'A'; 200].into())),
        )
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(client_io), service);
    let serving = tokio::spawn(serving);
    client.write_all(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n1").await.unwrap();
    settle().await;
    client.write_all(b"2GET / HTTP/1.1\r\n\r\n").await.unwrap();
    settle().await;
    let mut answers = Vec::new();
    while answers.iter().filter(|byte| **byte == b'A').count() < 400 {
        let read = client.read_buf(&mut answers);
        let read = tokio::time::timeout(Duration::from_secs(5), read).await;
        assert!(matches!(read, Ok(Ok(1..))), "{read:?} after {}", answers.escape_ascii());
    }
    serving.abort();
}

/// The connection goes on without hyper, and the next request is for another `http1::Connection`.
#[tokio::test]
async fn an_idle_hyper_ends_without_closing_the_connection() {
    let (mut client_io, _, mut client) = new_client_io(1024);
    for _ in 0..3 {
        client.write_all(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n").await.unwrap();
        let asking = async {
            settle().await;
            client.write_all(b"\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        };
        let (is_asked, ()) = tokio::join!(client_io.wait_for_request(), asking);
        assert!(is_asked.unwrap() && !client_io.is_without_hyper());
        let service = service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::default().map(|()| Full::<bytes::Bytes>::from("A")))
        });
        let mut serving = hyper::server::conn::http1::Builder::new()
            .auto_date_header(false)
            .serve_connection(TokioIo::new(client_io), service);
        tokio::time::timeout(Duration::from_secs(20), &mut serving)
            .await
            .expect("it ends by itself")
            .unwrap();
        let parts = serving.into_parts();
        assert!(parts.read_buf.is_empty());
        client_io = parts.io.into_inner();
        assert!(client_io.is_without_hyper() && client_io.buffer.is_empty());
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nA";
        let mut both = vec![0; 2 * answer.len()];
        client.read_exact(&mut both).await.unwrap();
        assert_eq!(String::from_utf8(both).unwrap(), answer.repeat(2));
    }
    client.shutdown().await.unwrap();
    assert!(!client_io.wait_for_request().await.unwrap(), "nothing comes any more");
}

/// A stream that writes a message before it is closed.
impl ClientStream for BufStream<DuplexStream> {
    fn unsent_bytes(&self) -> Option<u32> {
        None
    }

    fn has_closing_message(&self) -> bool {
        true
    }
}

/// The output of a future that does not wait.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

/// Whether the proxy's side is shut down before the stream is closed.
async fn is_closed_first<S>(stream: S, mut client: DuplexStream, has_left: bool) -> bool
where
    S: ClientStream,
{
    let long = Duration::from_secs(60);
    let timeouts = Timeouts { idle: long, head: long, write: long };
    let mut client_io =
        ClientIo::new(stream, Arc::<ConnectionState>::default(), timeouts, Framing::new(8192, 100));
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    if has_left {
        client.shutdown().await.unwrap();
    }
    assert!(client_io.wait_for_request().await.unwrap());
    let mut bytes = [0; 64];
    while let Some(Ok(1..)) = at_once(client_io.read(&mut bytes)).await {}
    client_io.shutdown().await.unwrap();
    at_once(client.read(&mut bytes)).await.is_some()
}

/// Closing the connection closes the proxy's side, too: one system call less for each client with a
/// single request.
#[tokio::test]
async fn a_shutdown_comes_first_unless_the_client_has_left_without_tls() {
    for (has_left, has_closing_message, expected) in
        [(false, false, true), (true, false, false), (false, true, true), (true, true, true)]
    {
        let (stream, client) = duplex(1024);
        let is_first = if has_closing_message {
            is_closed_first(BufStream::new(stream), client, has_left).await
        } else {
            is_closed_first(stream, client, has_left).await
        };
        assert_eq!(
            is_first, expected,
            "has left: {has_left}, has closing message: {has_closing_message}"
        );
    }
}

#[test]
fn hyper_stays_longer_after_many_requests_up_to_a_limit() {
    let idle_max = |requests| ClientIo { requests, ..new_client_io(8).0 }.hyper_idle_max();
    assert_eq!([0, 1, 2].map(idle_max), [HTTP1_STATE_IDLE, HTTP1_STATE_IDLE, 2 * HTTP1_STATE_IDLE]);
    assert_eq!([1000, usize::MAX].map(idle_max), [HTTP1_STATE_IDLE_MAX; 2]);
}
