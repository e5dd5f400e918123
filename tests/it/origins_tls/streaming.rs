//! Bodies over HTTP/2, both ways at once, in pieces and at the pace of whoever reads them. A client
//! of HTTP/1.1 stands before the way out as it does before the proxy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use courtesy::egress::{Egress, InformationalListener, RequestBody, TimeoutBody};
use courtesy::types::origin::Origin;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::origins_tls::authority::{Authority, BOTH};
use crate::origins_tls::support::{Body, Feed, Served, feed, full, origin, send, speak, way_out};

/// Longer than anything here takes that goes on at all.
const PAUSE: Duration = Duration::from_millis(400);

/// More than all windows and buffers on the way hold together.
const HELD_MAX: usize = 4 << 20;

/// A client's connection to something that sends each request on as the proxy would.
async fn client(egress: Egress, origin: Origin) -> SendRequest<Body> {
    let (near, far) = tokio::io::duplex(16 << 10);
    let egress = Arc::new(egress);
    let service = service_fn(move |request: Request<Incoming>| {
        let (egress, origin) = (Arc::clone(&egress), origin.clone());
        async move {
            let request = sent_on(request);
            let mut response = send(&egress, &origin, request).await?;
            *response.version_mut() = Version::HTTP_11;
            Ok::<_, courtesy::egress::Error>(response)
        }
    });
    tokio::spawn(
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service),
    );
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    sender
}

struct Gate(Mutex<Option<oneshot::Sender<()>>>);

impl InformationalListener for Gate {
    fn on_informational(&self, _: StatusCode, _: &HeaderMap) {
        drop(self.0.lock().unwrap().take());
    }
}

/// With an expectation the body is held until an interim response lets it go.
fn sent_on(request: Request<Incoming>) -> Request<RequestBody> {
    let mut request = request.map(|body| {
        RequestBody::streamed(TimeoutBody::of_request(body, Version::HTTP_11, 5 * PAUSE))
    });
    if request.headers().contains_key("expect") {
        let (go, held) = oneshot::channel();
        request = request.map(|body| body.hold_until(held, 5 * PAUSE));
        let go = Arc::new(Gate(Mutex::new(Some(go))));
        request = request.map(|body| body.with_informational_listener(go));
    }
    request
}

async fn client_of(site: &Served, authority: &Authority) -> SendRequest<Body> {
    client(way_out(authority), site.origin()).await
}

fn upload(site: &Served) -> (Request<Body>, Feed) {
    let (body, feed) = feed();
    let request =
        Request::post("/").header("host", site.origin().authority()).header("te", "trailers");
    (request.header("trailer", "x-sum").body(body).unwrap(), feed)
}

/// Answers at once, with the request's body as it comes.
async fn echo(authority: &Authority) -> Served {
    origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |request| {
            Box::pin(async move {
                let body = request.into_body().map_err(std::io::Error::other).boxed();
                Response::builder().header("trailer", "x-sum").body(body).unwrap()
            })
        })
    })
    .await
}

#[tokio::test]
async fn pieces_go_both_ways_as_they_come_and_trailers_after_them() {
    let authority = Authority::new();
    let site = echo(&authority).await;
    let (request, feed) = upload(&site);
    let mut client = client_of(&site, &authority).await;
    let mut answer = client.send_request(request).await.unwrap().into_body();
    for piece in ["one", "two"] {
        feed.data(piece).await;
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), piece);
    }
    feed.trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), "6".parse().unwrap())])).await;
    drop(feed);
    let trailers = answer.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers["x-sum"], "6");
}

#[tokio::test]
async fn an_upload_waits_for_an_origin_that_does_not_read() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |request| {
            Box::pin(async move {
                let _unread = request;
                std::future::pending().await
            })
        })
    })
    .await;
    let (request, feed) = upload(&site);
    let mut client = client_of(&site, &authority).await;
    let answer = tokio::spawn(async move { client.send_request(request).await });
    let mut taken = 0;
    while timeout(PAUSE, feed.data(vec![0; 32 << 10])).await.is_ok() {
        taken += 32 << 10;
        assert!(taken < HELD_MAX, "{taken} bytes were taken from the client");
    }
    assert!(taken > 32 << 10, "it began");
    answer.abort();
}

#[tokio::test]
async fn a_download_waits_for_a_client_that_does_not_read() {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |_| {
            Box::pin(async {
                let (body, feed) = feed();
                tokio::spawn(async move {
                    while timeout(5 * PAUSE, feed.data(vec![0; 32 << 10])).await.is_ok() {
                        GIVEN.fetch_add(32 << 10, Ordering::SeqCst);
                    }
                });
                Response::new(body)
            })
        })
    })
    .await;
    let mut client = client_of(&site, &authority).await;
    let request =
        Request::get("/").header("host", site.origin().authority()).body(full("")).unwrap();
    let unread = client.send_request(request).await.unwrap();
    let mut before = usize::MAX;
    while GIVEN.load(Ordering::SeqCst) != before {
        before = GIVEN.load(Ordering::SeqCst);
        assert!(before < HELD_MAX, "{before} bytes were taken from the origin");
        tokio::time::sleep(PAUSE).await;
    }
    assert!(before > 32 << 10, "it began");
    drop(unread);
}

#[tokio::test]
async fn a_body_that_waits_for_the_origins_word_does_wait() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |mut request| {
            Box::pin(async move {
                let came = timeout(PAUSE, request.body_mut().frame()).await.is_ok();
                Response::new(full(if came { "it came" } else { "it was held" }))
            })
        })
    })
    .await;
    let (mut request, feed) = upload(&site);
    request.headers_mut().insert("expect", "100-continue".parse().unwrap());
    feed.data("at once").await;
    let response = client_of(&site, &authority).await.send_request(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "it was held");
}

#[tokio::test]
async fn an_answer_may_come_before_the_upload_is_over() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |_| {
            Box::pin(async {
                let mut response = Response::new(full("too much"));
                *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
                response
            })
        })
    })
    .await;
    let (request, feed) = upload(&site);
    let mut client = client_of(&site, &authority).await;
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "too much");
    drop(feed);
}

#[tokio::test]
async fn an_answer_that_breaks_off_does_not_reach_the_client_as_whole() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, _| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data("half of it".into(), false).unwrap();
        // The connection goes on until the data is out, and is then gone without a word.
        let _ = timeout(PAUSE, std::future::poll_fn(|cx| connection.poll_closed(cx))).await;
    })
    .await;
    let mut client = client_of(&site, &authority).await;
    let request =
        Request::get("/").header("host", site.origin().authority()).body(full("")).unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.into_body().collect().await.is_err());
}
