//! Many tunnels by one parent proxy, all asked for at once.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::ordinary::raise_descriptors;
use crate::testkit::parties::tls;
use crate::testkit::processes::{Place, Serve, scale, until};
use crate::turn::Turn;

/// Origins, each of which has its robots.txt fetched.
const ORIGINS: usize = 200;

/// How long the parent takes for each connection.
const PARENT_TAKES: Duration = Duration::from_millis(20);

/// Longer than any of it takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// None is refused for their number, and the counts return to zero.
#[test]
fn many_tunnels_by_a_parent_are_made_and_counted_to_zero() {
    let _turn = Turn::wait();
    let count = scale("COURTESY_TEST_TUNNELS", 200);
    raise_descriptors();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads");
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listener = listener.expect("a free port");
    let parent = listener.local_addr().expect("an address");
    runtime.spawn(serve_parent(listener));
    let most = count + 100;
    let place = Place::new(&format!(
        "[clients]\nmax_connections = {most}\nmax_per_client = {most}\n\
         max_requests_per_client = {most}\n[robots]\nmode = \"observe\"\n\
         [limits]\nbody_memory = \"2GiB\"\n\
         [https]\nmode = \"classify\"\n[egress]\nparent = \"http://{parent}\"\n"
    ));
    let serve = place.serve();
    let before = descriptors(&serve);
    let all_are_open = Arc::new(Barrier::new(count + 1));
    let may_end = Arc::new(Barrier::new(count + 1));
    let hello: Arc<[u8]> = hello().into();
    runtime.block_on(async {
        let mut tunnels = JoinSet::new();
        for number in 0..count {
            let (open, end) = (Arc::clone(&all_are_open), Arc::clone(&may_end));
            let (proxy, hello) = (serve.address(), Arc::clone(&hello));
            tunnels.spawn(async move {
                let stream = tunnel(proxy, number, &hello).await;
                open.wait().await;
                end.wait().await;
                drop(stream);
            });
        }
        let opened = timeout(PATIENCE, all_are_open.wait());
        tokio::select! {
            opened = opened => opened.map(drop).expect("all tunnels are open"),
            Some(ended) = tunnels.join_next() => ended.expect("a tunnel"),
        }
        assert_eq!(serve.metric("courtesy_connections"), count);
        assert!(descriptors(&serve) >= before + 2 * count);
        may_end.wait().await;
        while let Some(ended) = tunnels.join_next().await {
            ended.expect("no panic");
        }
    });
    until("no connection is left", || serve.metric("courtesy_connections") == 0);
    until("no descriptor is left", || descriptors(&serve) <= before + 16);
    assert_eq!(serve.metric("courtesy_panics_total"), 0);
    assert!(serve.metric("courtesy_parent_requests_total") >= count);
    serve.stop();
}

/// Takes each CONNECT, and is the origin: what it is sent comes back.
async fn serve_parent(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.ok()?);
            }
            sleep(PARENT_TAKES).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
            let (mut from, mut to) = stream.split();
            tokio::io::copy(&mut from, &mut to).await.ok()
        });
    }
}

/// A tunnel to one of [`ORIGINS`] origins, through which something has gone both ways.
async fn tunnel(proxy: SocketAddr, number: usize, hello: &[u8]) -> TcpStream {
    let authority = format!("127.0.{}.1:443", number % ORIGINS);
    let mut stream = TcpStream::connect(proxy).await.expect("the proxy listens");
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8_lossy(&head);
    if !head.starts_with("HTTP/1.1 200 ") {
        let mut rest = String::new();
        let _ = stream.read_to_string(&mut rest).await;
        panic!("{number}: {head}{rest}");
    }
    stream.write_all(hello).await.expect("a tunnel");
    let mut back = vec![0; hello.len()];
    stream.read_exact(&mut back).await.expect("a tunnel");
    assert_eq!(back, hello);
    stream
}

/// The first message of TLS to an address.
fn hello() -> Vec<u8> {
    let config = tls::trusting_today(tls::origins_ca(), &[]);
    let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
    let mut connection = ClientConnection::new(config, name).expect("a client");
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).expect("memory");
    hello
}

fn descriptors(serve: &Serve) -> usize {
    let directory = format!("/proc/{}/fd", serve.id());
    std::fs::read_dir(directory).expect("a process").count()
}
