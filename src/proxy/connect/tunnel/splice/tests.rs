//! Tunnels over real sockets that hold little.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;

use super::*;
use crate::proxy::connect::preread::Preread;
use crate::types::origin::Host;
use tokio_util::sync::CancellationToken;

/// More than sockets with small buffers and a pipe hold.
const BYTES: usize = 2 << 20;

/// The two ends of a connection that holds little.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let far = listener.accept().await.unwrap().0;
    for end in [&near, &far] {
        SockRef::from(end).set_send_buffer_size(1 << 14).unwrap();
        SockRef::from(end).set_recv_buffer_size(1 << 14).unwrap();
    }
    (near, far)
}

/// A tunnel to a host, from its first bytes to its end.
async fn tunnel(near: TcpStream, first: &[u8], far: TcpStream, idle: &IdleTimer, pipes: &Pipes) {
    let host = Host::Name("a.example".into());
    let preread = Preread { host: &host, handshake_timeout: Duration::from_secs(60) };
    let _ = relay(&near, Box::pin(preread.read(&near, first.to_vec())), &far, idle, pipes).await;
}

#[tokio::test]
async fn more_tunnels_than_pipes_carry_every_byte_both_ways() {
    let (pipes, (go, _)) = (Arc::new(Pipes::default()), watch::channel(false));
    let mut tunnels = tokio::task::JoinSet::new();
    for number in 0..PIPES_MAX * 2 {
        let (pipes, mut may_read) = (Arc::clone(&pipes), go.subscribe());
        tunnels.spawn(async move {
            let ((mut client, near), (far, mut origin)) = (connection().await, connection().await);
            let idle = IdleTimer::new(Duration::from_secs(60), CancellationToken::new());
            let tunnel = tunnel(near, b"", far, &idle, &pipes);
            // Not TLS, whose name would be checked.
            let bytes: Vec<u8> =
                (0..BYTES).map(|place| ((place / 7 + number) % 21) as u8).collect();
            let ends = async {
                let sent = async {
                    client.write_all(&bytes).await.unwrap();
                    client.shutdown().await.unwrap();
                    let mut answer = String::new();
                    client.read_to_string(&mut answer).await.unwrap();
                    assert_eq!(answer, "received");
                };
                let received = async {
                    may_read.wait_for(|go| *go).await.unwrap();
                    let mut received = Vec::new();
                    origin.read_to_end(&mut received).await.unwrap();
                    assert!(received == bytes, "tunnel {number}");
                    origin.write_all(b"received").await.unwrap();
                    origin.shutdown().await.unwrap();
                };
                tokio::join!(sent, received);
            };
            tokio::join!(tunnel, ends);
        });
    }
    while pipes.permits.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    go.send_replace(true);
    while let Some(tunnel) = tunnels.join_next().await {
        tunnel.unwrap();
    }
    assert_eq!(pipes.permits.available_permits(), PIPES_MAX);
    assert!(pipes.empty.lock().len() <= PIPES_MAX);
}

#[tokio::test]
async fn a_pipe_with_data_left_in_it_is_never_used_again() {
    let pipes = Pipes::default();
    let ((mut client, near), (far, _origin)) = (connection().await, connection().await);
    let idle = IdleTimer::new(Duration::from_secs(60), CancellationToken::new());
    let write = async { while client.write_all(&[1; 1 << 16]).await.is_ok() {} };
    let stuck = async {
        while pipes.permits.available_permits() == PIPES_MAX {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = tunnel(near, b"", far, &idle, &pipes) => panic!("no side has ended it"),
        () = write => panic!("no side has ended it"),
        () = stuck => {}
    }
    assert_eq!(pipes.permits.available_permits(), PIPES_MAX);
    for pipe in pipes.empty.lock().drain(..) {
        assert_eq!(
            rustix::io::read(&pipe.out, &mut [0; 1]),
            Err(rustix::io::Errno::AGAIN),
            "it is empty"
        );
    }
}
#[tokio::test]
async fn bytes_read_before_go_first_and_wait_no_longer_than_the_rest() {
    let pipes = Pipes::default();
    let ((mut client, near), (far, mut origin)) = (connection().await, connection().await);
    let idle = IdleTimer::new(Duration::from_secs(60), CancellationToken::new());
    client.write_all(b"then").await.unwrap();
    client.shutdown().await.unwrap();
    let read = async {
        let mut received = String::new();
        origin.read_to_string(&mut received).await.unwrap();
        origin.shutdown().await.unwrap();
        received
    };
    let (received, ()) = tokio::join!(read, tunnel(near, b"first, ", far, &idle, &pipes));
    assert_eq!(received, "first, then");

    // The origin reads nothing: the idle timeout ends the tunnel.
    let ((_client, near), (far, _origin)) = (connection().await, connection().await);
    let idle = IdleTimer::new(Duration::from_millis(50), CancellationToken::new());
    tunnel(near, &vec![0; BYTES], far, &idle, &pipes).await;
}

#[tokio::test]
async fn a_tunnel_that_always_has_data_yields_to_other_tasks() {
    let pipes = Pipes::default();
    let ((mut client, near), (far, _origin)) = (connection().await, connection().await);
    let idle = IdleTimer::new(Duration::from_secs(60), CancellationToken::new());
    let mut pump = pin!(pipes.pump(Side::Client, &near, &far, &idle));
    client.write_all(b"bytes!").await.unwrap();
    near.readable().await.unwrap();
    // What a task may do before other tasks come first.
    yield_now().await;
    let mut budget = 0;
    while has_budget_remaining() {
        consume_budget().await;
        budget += 1;
    }
    yield_now().await;
    for _ in 0..budget {
        consume_budget().await;
    }
    let mut turn = async || poll_fn(|cx| Poll::Ready(pump.as_mut().poll(cx).is_pending())).await;
    assert!(turn().await && ioctl_fionread(&near).unwrap() == 6, "other tasks come first");
    yield_now().await;
    assert!(turn().await && ioctl_fionread(&near).unwrap() == 0, "then it moves the data");
}

#[tokio::test]
async fn two_streams_at_once_arrive_whole_though_both_are_batched() {
    let pipes = Pipes::default();
    let ((mut client, near), (far, mut origin)) = (connection().await, connection().await);
    let idle = IdleTimer::new(Duration::from_secs(60), CancellationToken::new());
    // Not TLS, whose name would be checked.
    let sent = vec![7; 4 * BYTES];
    let (client_end, origin_end) = (client.split(), origin.split());
    let both_ends = [client_end, origin_end].map(|(mut read, mut write)| {
        let sent = &sent;
        async move {
            let mut received = Vec::new();
            let send = async {
                write.write_all(sent).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let ((), count) = tokio::join!(send, read.read_to_end(&mut received));
            assert!(count.is_ok() && received == *sent);
        }
    });
    let [client_end, origin_end] = both_ends;
    tokio::join!(tunnel(near, b"", far, &idle, &pipes), client_end, origin_end);
}
