//! The certificates that are made for clients: many at once, the same CA after a restart, and another
//! one without anybody's noticing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use courtesy::ca::{Authority, Source};
use courtesy::runtime::clock::monotonic;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::testkit::parties::{DEADLINE, NOW, Origin, Proxy, connect, tls, until};

/// A handshake with the leaf of `host`, behind a CONNECT. Nobody needs to be there.
async fn shake_hands(proxy: SocketAddr, host: &str, config: Arc<ClientConfig>) {
    let mut stream = TcpStream::connect(proxy).await.expect("the proxy listens");
    stream.write_all(connect(&format!("{host}:443"), "").as_bytes()).await.expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", head.escape_ascii());
    // It verifies that the leaf is for this host.
    TlsConnector::from(config).connect(tls::server_name(host), stream).await.expect("a handshake");
}

/// How many clients may be connected at once: each costs a descriptor here and one in the proxy,
/// and other tests want some too.
fn at_once() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    (soft.unwrap_or(1024_usize) / 4).min(2000)
}

/// Handshakes for all of `hosts` at once. Returns how long they took.
fn crowd(proxy: &Proxy, hosts: Vec<String>) -> Duration {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let config = proxy.trusted(&["http/1.1"]);
    let address = proxy.address();
    let began = monotonic();
    runtime.block_on(async {
        let turns = Arc::new(Semaphore::new(at_once()));
        let clients: Vec<_> = hosts
            .into_iter()
            .map(|host| {
                let (config, turns) = (Arc::clone(&config), Arc::clone(&turns));
                tokio::spawn(async move {
                    let _turn = turns.acquire().await.expect("open");
                    shake_hands(address, &host, config).await;
                })
            })
            .collect();
        for client in clients {
            timeout(DEADLINE * 3, client).await.expect("in time").expect("no panic");
        }
    });
    monotonic() - began
}

fn loopback(number: usize) -> String {
    format!("127.1.{}.{}", number / 250, number % 250 + 1)
}

#[test]
fn a_thousand_hosts_at_once_get_one_leaf_each_and_delay_nobody() {
    const HOSTS: usize = 1000;
    let origin = Origin::start();
    let proxy = Proxy::with(|settings| {
        settings.limits.handshake_timeout = DEADLINE * 3;
    });
    proxy.get(&origin.url("/"));
    let over = AtomicBool::new(false);
    let (took, slowest, served) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut client = proxy.client();
            let (mut slowest, mut served) = (Duration::ZERO, 0);
            while !over.load(Ordering::Acquire) {
                let began = monotonic();
                assert_eq!(client.get(&origin.url("/beside")).status(), 200);
                slowest = slowest.max(monotonic() - began);
                served += 1;
            }
            (slowest, served)
        });
        // Some are asked for by several clients.
        let took = crowd(&proxy, (0..HOSTS).chain(0..HOSTS / 4).map(loopback).collect());
        over.store(true, Ordering::Release);
        let (slowest, served) = beside.join().expect("no panic");
        (took, slowest, served)
    });
    let stats = proxy.leaves.stats();
    assert_eq!((stats.minted, stats.hits, stats.evicted), (1000, 250, 0));
    assert_eq!(stats.entries, HOSTS);
    assert!(served > 10, "{served} requests beside it");
    assert!(slowest < took / 2, "{slowest:?} for one request, {took:?} for all handshakes");
}

/// Every file of the CA, with what is in it.
fn files(ca: &Source) -> Vec<(PathBuf, Vec<u8>)> {
    let Source::Own(dir) = ca else { panic!("not our own: {ca:?}") };
    let entries = std::fs::read_dir(dir).expect("a directory");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            (path.clone(), std::fs::read(path).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_restart_changes_nothing_of_the_ca() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let (before, trusted) = (files(&proxy.ca), proxy.trusted(&["http/1.1"]));
    assert!(!before.is_empty());
    proxy.https(&origin.authority()).get("/");
    let proxy =
        proxy.restart(|settings| settings.egress.connect_ports.push(origin.address().port()));
    assert_eq!(files(&proxy.ca), before);
    let tunnel = proxy.client().tunnel(&origin.authority());
    tunnel.secured(trusted, "127.0.0.1").expect("who trusted it before still does");
}

#[test]
fn the_proxy_hands_out_what_its_clients_are_to_trust() {
    let proxy = Proxy::start();
    let handed = proxy.get("http://courtesy.internal/ca.pem").text();
    assert_eq!(handed, proxy.leaves.authority().bundle());
    Authority::rotate(&proxy.ca, NOW).expect("a new CA");
    assert_eq!(
        proxy.get("http://courtesy.internal/ca.pem").text(),
        handed,
        "not before it is read"
    );
    assert!(proxy.leaves.reload().expect("a CA"));
    let both = proxy.get("http://courtesy.internal/ca.pem").text();
    assert!(
        both.ends_with(&handed) && both.len() > handed.len(),
        "the new one, and the old one still"
    );
}

/// No handshake fails for clients which trust both CAs.
#[test]
fn f17_a_rotation_under_load_fails_nobody_who_trusts_both() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let trust = RwLock::new(proxy.trusted(&["http/1.1"]));
    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    // MemoryPermit to the end: nobody is between two trusts.
                    let trusted = trust.read().expect("no panic");
                    let tunnel = proxy.client().tunnel(&authority);
                    let client = tunnel.secured(Arc::clone(&trusted), "127.0.0.1");
                    assert_eq!(client.expect("a handshake").get("/").status(), 200);
                    served.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let some_more = || {
            let enough = served.load(Ordering::Acquire) + 10;
            until("more are served", || served.load(Ordering::Acquire) >= enough);
        };
        let signers: Vec<_> = (0..4)
            .map(|_| {
                some_more();
                let rotated = Authority::rotate(&proxy.ca, NOW).expect("a new CA");
                some_more();
                *trust.write().expect("no panic") = tls::trusting(&rotated.bundle(), &["http/1.1"]);
                some_more();
                assert!(proxy.leaves.reload().expect("a CA"), "it is another one");
                some_more();
                proxy.leaves.authority().certificate().pem()
            })
            .collect();
        over.store(true, Ordering::Release);
        // It is the last that signs now, and no other.
        let accepts = |pem: &str| {
            let tunnel = proxy.client().tunnel(&authority);
            tunnel.secured(tls::trusting(pem, &[]), "127.0.0.1").is_ok()
        };
        let accepted: Vec<_> = signers.iter().map(|pem| accepts(pem)).collect();
        assert_eq!(accepted, [false, false, false, true]);
    });
}
