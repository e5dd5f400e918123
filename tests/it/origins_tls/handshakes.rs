//! Which version of HTTP is agreed on, what is resumed, whose name is said, and what an origin's
//! refusals mean.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use courtesy::egress::{Egress, Failure};
use http::{Method, Version};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::origins_tls::authority::{Authority, BOTH, HTTP1, Shows, server};
use crate::origins_tls::support::{get, mirror, request, send, shared, text, way_out};

#[tokio::test]
async fn http2_is_spoken_where_it_is_offered_and_http1_elsewhere() {
    let authority = Authority::new();
    for (alpn, version) in
        [(BOTH, Version::HTTP_2), (HTTP1, Version::HTTP_11), (&[][..], Version::HTTP_11)]
    {
        let origin = mirror(authority.good().config(alpn)).await;
        let response = get(&way_out(&authority), &origin.origin()).await.unwrap();
        assert_eq!(response.version(), version);
        let seen = text(response).await;
        assert!(seen.starts_with(&format!("{version:?}")), "{seen}");
        // RFC 9113 §8.3.1: an authority and no Host; trap 4 the other way round.
        let host = origin.origin().authority();
        let expected = if version == Version::HTTP_2 {
            format!("https://{host}/ {{")
        } else {
            format!("/ {{\"host\": \"{host}\"")
        };
        assert!(seen.contains(&expected), "{seen}");
    }
}

#[tokio::test]
async fn an_upgrade_goes_by_http1_on_a_connection_of_its_own() {
    let authority = Authority::new();
    let origin = mirror(authority.good().config(BOTH)).await;
    let egress = way_out(&authority);
    text(get(&egress, &origin.origin()).await.unwrap()).await;
    let mut upgrade = request(Method::GET, &origin.origin(), "/");
    upgrade.headers_mut().insert("connection", "upgrade".parse().unwrap());
    upgrade.headers_mut().insert("upgrade", "websocket".parse().unwrap());
    let response = send(&egress, &origin.origin(), upgrade).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_11);
    assert!(text(response).await.contains("\"upgrade\": \"websocket\""));
    assert_eq!(origin.seen.connections(), 2);
}

#[tokio::test]
async fn a_session_is_resumed_on_the_next_connection() {
    let authority = Authority::new();
    for version in [&TLS13, &TLS12] {
        let builder = ServerConfig::builder_with_provider(Arc::clone(server().crypto_provider()));
        let mut config = builder
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Shows(authority.good().certified())));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let origin = mirror(config).await;
        let egress = Egress::without_pool(shared(&authority, |_| ()));
        for _ in 0..2 {
            text(get(&egress, &origin.origin()).await.unwrap()).await;
        }
        assert_eq!((origin.seen.connections(), origin.seen.resumed.load(Ordering::SeqCst)), (2, 1));
        // Another name is another origin, though it is the same machine.
        text(get(&egress, &origin.at("localhost")).await.unwrap()).await;
        assert_eq!((origin.seen.connections(), origin.seen.resumed.load(Ordering::SeqCst)), (3, 1));
    }
}

#[tokio::test]
async fn a_name_is_said_and_an_address_never() {
    let authority = Authority::new();
    let origin = mirror(authority.good().config(BOTH)).await;
    let egress = way_out(&authority);
    for host in ["localhost", "127.0.0.1"] {
        get(&egress, &origin.at(host)).await.unwrap();
    }
    // RFC 6066 §3: literal addresses are not permitted.
    assert_eq!(*origin.seen.names.lock().unwrap(), [Some("localhost".to_owned()), None]);
}

/// An origin that asks its clients for a certificate, and may insist.
fn asking(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
    alpn: &[&[u8]],
    insists: bool,
) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.clone()).unwrap();
    let provider = Arc::clone(server().crypto_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let clients = if insists { clients } else { clients.allow_unauthenticated() };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_cert_resolver(Arc::new(Shows(authority.good().certified())));
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

#[tokio::test]
async fn an_origin_that_insists_on_a_client_certificate_is_told_apart() {
    let authority = Authority::new();
    for (version, alpn) in [(&TLS13, BOTH), (&TLS13, HTTP1), (&TLS12, BOTH), (&TLS12, HTTP1)] {
        let origin = mirror(asking(&authority, version, alpn, true)).await;
        let error = get(&way_out(&authority), &origin.origin()).await.unwrap_err();
        assert_eq!(error.failure, Failure::TlsProtocol, "{error}");
        assert!(error.detail.contains("asks for a client certificate"), "{error}");
        assert!(error.detail.contains("https.tunnel"), "{error}");
        assert_eq!(origin.seen.requests(), 0);

        let lenient = mirror(asking(&authority, version, alpn, false)).await;
        assert!(get(&way_out(&authority), &lenient.origin()).await.is_ok(), "it only asks");
    }
}

#[tokio::test]
async fn an_alert_is_told_by_its_name() {
    let authority = Authority::new();
    let origin = mirror(authority.good().config(&[b"h3"])).await;
    let error = get(&way_out(&authority), &origin.origin()).await.unwrap_err();
    assert_eq!(error.failure, Failure::TlsProtocol);
    assert!(error.detail.contains("the alert no_application_protocol"), "{error}");
}

#[tokio::test]
async fn an_origin_that_speaks_no_tls_is_told_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let url = format!("https://127.0.0.1:{port}/");
    let (origin, _) = courtesy::types::origin::split_url(url.as_bytes()).unwrap();
    let error = get(&way_out(&Authority::new()), &origin).await.unwrap_err();
    assert_eq!(error.failure, Failure::TlsProtocol);
    assert!(error.detail.contains("does not speak TLS"), "{error}");
}
