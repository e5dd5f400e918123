//! One HTTP/2 connection serves many exchanges: who shares it, who has to wait, and when it ends.

use std::sync::Arc;
use std::time::Duration;

use courtesy::egress::{Egress, Failure};
use http::{Response, Version};
use http_body_util::BodyExt as _;
use tokio::task::JoinSet;

use crate::origins_tls::authority::{Authority, BOTH, HTTP1};
use crate::origins_tls::support::{
    Feed, Served, feed, get, limited, mirror, origin, shared, speak, text, way_out,
};

/// The answers to `count` requests made at once.
async fn at_once(count: usize, egress: &Arc<Egress>, site: &Served) -> Vec<Version> {
    let mut exchanges = JoinSet::new();
    for _ in 0..count {
        let (egress, origin) = (Arc::clone(egress), site.origin());
        exchanges.spawn(async move {
            let response = get(&egress, &origin).await.unwrap();
            let version = response.version();
            text(response).await;
            version
        });
    }
    exchanges.join_all().await
}

/// An origin whose answers begin and never end.
async fn endless(authority: &Authority) -> Served {
    origin(authority.good().config(BOTH), |stream, seen| {
        speak(stream, seen, |_| {
            Box::pin(async {
                let (body, more): (_, Feed) = feed();
                more.data("begun").await;
                tokio::spawn(async move { more.closed().await });
                Response::new(body)
            })
        })
    })
    .await
}

#[tokio::test]
async fn requests_made_at_once_share_one_connection() {
    let authority = Authority::new();
    let site = mirror(authority.good().config(BOTH)).await;
    let egress = Arc::new(way_out(&authority));
    let versions = at_once(80, &egress, &site).await;
    assert!(versions.iter().all(|version| *version == Version::HTTP_2));
    assert_eq!((site.seen.connections(), site.seen.requests()), (1, 80));
    at_once(80, &egress, &site).await;
    assert_eq!(site.seen.connections(), 1);
}

#[tokio::test]
async fn where_only_http1_is_spoken_each_has_its_own() {
    let authority = Authority::new();
    let site = mirror(authority.good().config(HTTP1)).await;
    let egress = Arc::new(way_out(&authority));
    at_once(20, &egress, &site).await;
    let opened = site.seen.connections();
    assert!((2..=20).contains(&opened), "{opened}");
    at_once(2, &egress, &site).await;
    assert_eq!(site.seen.connections(), opened, "they are kept");
}

#[tokio::test]
async fn a_full_connection_gets_a_second_one_beside_it() {
    let authority = Authority::new();
    let site = endless(&authority).await;
    let egress = way_out(&authority);
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(get(&egress, &site.origin()).await.unwrap());
    }
    assert_eq!(site.seen.connections(), 1);
    open.push(get(&egress, &site.origin()).await.unwrap());
    assert_eq!(site.seen.connections(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_stream_and_no_other() {
    let authority = Authority::new();
    let site = endless(&authority).await;
    let egress = Egress::new(limited(&authority, 2, |_| ()));
    let mut stays = get(&egress, &site.origin()).await.unwrap();
    let leaves = get(&egress, &site.origin()).await.unwrap();
    drop(leaves);
    // The slot is free again, and so is the connection.
    let next = get(&egress, &site.origin()).await.unwrap();
    let frame = stays.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "begun");
    assert_eq!(site.seen.connections(), 1);
    drop(next);
}

#[tokio::test]
async fn the_bound_on_exchanges_holds_for_streams() {
    let authority = Authority::new();
    let site = endless(&authority).await;
    let egress = Egress::new(limited(&authority, 1, |config| {
        config.connect_timeout = Duration::from_millis(300);
    }));
    let first = get(&egress, &site.origin()).await.unwrap();
    let error = get(&egress, &site.origin()).await.unwrap_err();
    assert_eq!(error.failure, Failure::ConnectionLimit);
    drop(first);
    assert!(get(&egress, &site.origin()).await.is_ok());
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed_and_one_in_use_is_not() {
    let authority = Authority::new();
    let site = endless(&authority).await;
    let egress = Egress::new(shared(&authority, |config| config.idle_timeout = Duration::ZERO));
    let in_use = get(&egress, &site.origin()).await.unwrap();
    egress.sweep();
    drop(get(&egress, &site.origin()).await.unwrap());
    assert_eq!(site.seen.connections(), 1);
    drop(in_use);
    egress.sweep();
    drop(get(&egress, &site.origin()).await.unwrap());
    assert_eq!(site.seen.connections(), 2);
}

#[tokio::test]
async fn without_a_pool_a_connection_ends_with_its_exchange() {
    let authority = Authority::new();
    let site = mirror(authority.good().config(BOTH)).await;
    let egress = Arc::new(Egress::without_pool(shared(&authority, |_| ())));
    at_once(3, &egress, &site).await;
    assert_eq!(site.seen.connections(), 3);
}

#[tokio::test]
async fn when_the_first_client_leaves_the_next_opens_the_connection() {
    let authority = Authority::new();
    let site = mirror(authority.good().config(BOTH)).await;
    let egress = Arc::new(way_out(&authority));
    let (leaver, origin) = (Arc::clone(&egress), site.origin());
    let leaves = tokio::spawn(async move { get(&leaver, &origin).await.map(drop) });
    tokio::task::yield_now().await;
    let (stayer, origin) = (Arc::clone(&egress), site.origin());
    let stays = tokio::spawn(async move { get(&stayer, &origin).await.is_ok() });
    tokio::task::yield_now().await;
    leaves.abort();
    assert!(stays.await.unwrap());
}
