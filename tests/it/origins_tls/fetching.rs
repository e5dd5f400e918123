//! A robots.txt from an origin over TLS.

use std::sync::Arc;

use courtesy::audit::evidence::CaptureRecord;
use courtesy::egress::Egress;
use courtesy::policy::access::{AccessResult, Cause, CompletedFetch, NetworkFailure};
use courtesy::runtime::clock::SystemClock;
use courtesy::store::fetch::{self, FetchIdentity, FetchRequest, FetchRobots as _, RobotsFetcher};
use courtesy::types::ClientKey;
use courtesy::types::origin::{Origin, split_url};
use http::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::origins_tls::authority::{Authority, BOTH, HTTP1};
use crate::origins_tls::support::{Served, full, origin, shared, speak};

async fn fetch(authority: &Authority, origin: Origin) -> CompletedFetch {
    let egress = Arc::new(Egress::without_pool(shared(authority, |_| ())));
    let fetcher = RobotsFetcher::new(egress, fetch::Config::default(), Arc::new(SystemClock));
    let ask = FetchRequest {
        origin,
        identity: FetchIdentity::of_agent(None),
        validators: None,
        redirects_max: 5,
        client: ClientKey::Proxy,
        progress: Arc::default(),
    };
    fetcher.fetch(ask).await.unwrap()
}

async fn site(authority: &Authority, alpn: &[&[u8]]) -> Served {
    origin(authority.good().config(alpn), |stream, seen| {
        speak(stream, seen, |request| {
            Box::pin(async move {
                assert_eq!(request.uri().path(), "/robots.txt");
                Response::new(full("User-agent: *\nDisallow: /private/\n"))
            })
        })
    })
    .await
}

fn captured(fetched: &CompletedFetch) -> CaptureRecord {
    serde_json::from_slice(&fetched.capture.json).unwrap()
}

#[track_caller]
fn assert_found(fetched: &CompletedFetch, url: &str) {
    match &fetched.result {
        AccessResult::Successful { snapshot, .. } => {
            assert_eq!(snapshot.body, "User-agent: *\nDisallow: /private/\n");
            assert_eq!(snapshot.url, url);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_robots_txt_is_fetched_over_either_version_of_http() {
    let authority = Authority::new();
    for (alpn, status_line) in [(BOTH, "HTTP/2 200"), (HTTP1, "HTTP/1.1 200 OK")] {
        let site = site(&authority, alpn).await;
        let fetched = fetch(&authority, site.origin()).await;
        assert_found(&fetched, &site.origin().robots_url());
        let answers = captured(&fetched).answers;
        assert_eq!((answers.len(), answers[0].peer), (1, Some(site.address.ip())));
        let lines: Vec<_> = answers[0].head.split_terminator("\r\n").collect();
        assert_eq!(lines[0], status_line);
        assert!(lines.contains(&"content-length: 34"), "{lines:?}");
    }
}

#[tokio::test]
async fn a_redirect_from_http_to_https_is_followed() {
    let authority = Authority::new();
    let site = site(&authority, BOTH).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = format!("http://{}/", listener.local_addr().unwrap());
    let location = site.origin().robots_url();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let head =
            format!("HTTP/1.1 301 Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
    });
    let fetched = fetch(&authority, split_url(plain.as_bytes()).unwrap().0).await;
    assert_found(&fetched, &site.origin().robots_url());
    assert_eq!(fetched.hops, 1);
    let statuses: Vec<_> = captured(&fetched).answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [301, 200]);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_makes_it_unreachable() {
    let site = site(&Authority::new(), BOTH).await;
    let fetched = fetch(&Authority::named("a stranger"), site.origin()).await;
    let AccessResult::Without(Cause::Failed { failure, detail, .. }) = &fetched.result else {
        panic!("{:?}", fetched.result)
    };
    assert_eq!(*failure, NetworkFailure::Tls);
    assert!(detail.contains("certificate"), "{detail}");
    assert_eq!(site.seen.requests(), 0);
}
