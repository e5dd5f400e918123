//! What an origin gives up on, over HTTP/2: sent again where that is safe, and told where it is not.

use std::sync::Arc;

use courtesy::egress::{Egress, Failure};
use h2::Reason;
use http::{Method, Response, Version};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::origins_tls::authority::{Authority, BOTH};
use crate::origins_tls::support::{
    Seen, Served, get, mirrored, origin, request, send, shared, speak, way_out,
};

/// Answers every stream but the first, which it resets.
async fn resets_the_first(stream: TlsStream<TcpStream>, seen: Arc<Seen>, reason: Reason) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        if seen.count_request() == 1 {
            respond.send_reset(reason);
        } else {
            respond.send_response(Response::new(()), true).unwrap();
        }
    }
}

async fn refusing(authority: &Authority) -> Served {
    let config = authority.good().config(BOTH);
    origin(config, |stream, seen| resets_the_first(stream, seen, Reason::REFUSED_STREAM)).await
}

/// Leaves the first connection before it has done anything (RFC 9113 §6.8), and keeps it open.
async fn leaving(authority: &Authority) -> Served {
    origin(authority.good().config(BOTH), |mut stream, seen| async move {
        if seen.connections() > 1 {
            return speak(stream, seen, |request| Box::pin(async move { mirrored(&request) }))
                .await;
        }
        const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes).await;
        let _ = stream.write_all(&[&SETTINGS[..], &GOAWAY].concat()).await;
        while stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    })
    .await
}

#[tokio::test]
async fn a_refused_stream_is_tried_again_when_that_is_safe() {
    let authority = Authority::new();
    let site = refusing(&authority).await;
    assert!(get(&way_out(&authority), &site.origin()).await.is_ok());
    assert_eq!(site.seen.requests(), 2);

    let site = refusing(&authority).await;
    let post = request(Method::POST, &site.origin(), "/");
    let error = send(&way_out(&authority), &site.origin(), post).await.unwrap_err();
    assert_eq!(error.failure, Failure::ConnectionTerminated, "{error}");
    assert_eq!(site.seen.requests(), 1);
}

#[tokio::test]
async fn an_origin_that_leaves_a_connection_is_asked_on_a_new_one() {
    let authority = Authority::new();
    let site = leaving(&authority).await;
    assert!(get(&way_out(&authority), &site.origin()).await.is_ok());
    assert_eq!((site.seen.connections(), site.seen.requests()), (2, 1));

    let site = leaving(&authority).await;
    let post = request(Method::POST, &site.origin(), "/");
    assert!(send(&way_out(&authority), &site.origin(), post).await.is_err());
    assert_eq!((site.seen.connections(), site.seen.requests()), (1, 0));
}

#[tokio::test]
async fn an_origin_that_wants_http1_for_a_request_gets_it() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| async move {
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => resets_the_first(stream, seen, Reason::HTTP_1_1_REQUIRED).await,
            _ => speak(stream, seen, |request| Box::pin(async move { mirrored(&request) })).await,
        }
    })
    .await;
    let response = get(&way_out(&authority), &site.origin()).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_11);
}

#[tokio::test]
async fn another_reset_is_told_and_not_tried_again() {
    let authority = Authority::new();
    let config = authority.good().config(BOTH);
    let site =
        origin(config, |stream, seen| resets_the_first(stream, seen, Reason::INTERNAL_ERROR)).await;
    let egress = way_out(&authority);
    let error = get(&egress, &site.origin()).await.unwrap_err();
    assert_eq!(error.failure, Failure::ConnectionTerminated, "{error}");
    assert_eq!(site.seen.requests(), 1);
    assert!(get(&egress, &site.origin()).await.is_ok(), "only the stream was lost");
    assert_eq!(site.seen.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_has_gone_is_replaced() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        if let Some(Ok((_, mut respond))) = connection.accept().await {
            seen.count_request();
            respond.send_response(Response::new(()), true).unwrap();
        }
        connection.graceful_shutdown();
        while connection.accept().await.is_some() {}
    })
    .await;
    let egress = way_out(&authority);
    for _ in 0..5 {
        get(&egress, &site.origin()).await.unwrap();
    }
    assert_eq!((site.seen.connections(), site.seen.requests()), (5, 5));
}

#[tokio::test]
async fn an_answer_that_is_reset_midway_is_not_a_shorter_answer() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, _| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data("half of it".into(), false).unwrap();
            tokio::spawn(async move {
                // After the data has gone out: capacity is asked for and does not come.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                body.send_reset(Reason::INTERNAL_ERROR);
            });
        }
    })
    .await;
    let response = get(&way_out(&authority), &site.origin()).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn a_head_beyond_the_bounds_is_refused() {
    let authority = Authority::new();
    let site = origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |request| {
            Box::pin(async move {
                let mut response = mirrored(&request);
                for number in 0..40 {
                    let name = http::HeaderName::try_from(format!("x-{number}")).unwrap();
                    response.headers_mut().insert(name, "v".repeat(100).parse().unwrap());
                }
                response
            })
        })
    })
    .await;
    let bytes = Egress::new(shared(&authority, |config| config.max_header_bytes = 4096));
    assert!(get(&bytes, &site.origin()).await.is_err());
    assert!(get(&way_out(&authority), &site.origin()).await.is_ok());
}
