//! A client that asks for much and takes nothing, or little, of what it gets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::SOCKET_BYTES;
use super::origin::{Origins, address};

/// What a stalled client has read before it stops: so much shows that it reads.
const READ_FIRST: usize = 600 << 10;

/// What has not gone on for so long does not go on at all.
const STALLS: Duration = Duration::from_secs(2);

/// What is to be known of those who attack.
pub struct Attack {
    pub proxy: SocketAddr,
    pub origins: Arc<Origins>,
    pub trust: Arc<ClientConfig>,
    /// All are at one address: they are one client.
    pub from: Ipv4Addr,
    /// Requests that have been sent, and of which nothing more is expected: they were answered, or they wait for good.
    pub settled: AtomicUsize,
}

type H2 = Connection<TlsStream<TcpStream>, Bytes>;
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl Attack {
    pub fn settled(&self) -> usize {
        self.settled.load(Ordering::SeqCst)
    }

    /// What was refused, or was cut off, is over.
    pub fn failed(&self, _: &str, requests: usize) {
        self.settle(requests);
    }

    fn settle(&self, requests: usize) {
        self.settled.fetch_add(requests, Ordering::SeqCst);
    }

    async fn connect(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(SOCKET_BYTES)?;
        socket.set_send_buffer_size(SOCKET_BYTES)?;
        socket.bind((self.from, 0).into())?;
        socket.connect(self.proxy).await
    }

    /// A connection that speaks HTTP/2 inside a CONNECT.
    async fn h2(
        &self,
        number: usize,
        builder: &Builder,
    ) -> Result<(SendRequest<Bytes>, H2, String), Box<dyn std::error::Error + Send + Sync>> {
        let mut stream = self.connect().await?;
        let authority = format!("{}:{}", address(number), self.origins.secure);
        stream
            .write_all(
                format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").as_bytes(),
            )
            .await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&head).into());
        }
        let name =
            rustls::pki_types::ServerName::IpAddress(std::net::IpAddr::V4(address(number)).into());
        let stream = TlsConnector::from(Arc::clone(&self.trust)).connect(name, stream).await?;
        let (sender, connection) = builder.handshake(stream).await?;
        Ok((sender, connection, authority))
    }

    fn url(&self, number: usize, path: &str) -> String {
        format!("http://{}:{}{path}", address(number), self.origins.plain)
    }
}

fn get(authority: &str, path: &str) -> Request<()> {
    Request::get(format!("https://{authority}{path}"))
        .header("user-agent", "Hoarder/1")
        .body(())
        .expect("a request")
}

/// Sends so many requests for something large, as far as the connection lets it; their answers are to come.
async fn ask(
    attack: &Attack,
    sender: SendRequest<Bytes>,
    authority: &str,
    streams: usize,
) -> Result<(SendRequest<Bytes>, Vec<ResponseFuture>), h2::Error> {
    let mut answers = Vec::new();
    for number in 0..streams {
        let Ok(ready) = timeout(STALLS, sender.clone().ready()).await else {
            attack.settle(streams - number);
            break;
        };
        answers.push(ready?.send_request(get(authority, "/large"), true)?.0);
    }
    Ok((sender, answers))
}

/// Waits for all answers, and keeps them.
async fn keep(attack: &Attack, answers: Vec<ResponseFuture>) -> Vec<RecvStream> {
    let mut kept = Vec::new();
    for answer in answers {
        kept.extend(answer.await.ok().map(http::Response::into_body));
        attack.settle(1);
    }
    kept
}

async fn forever() -> Outcome {
    std::future::pending().await
}

/// Streams whose windows are shut from the start.
pub async fn shut_streams(attack: Arc<Attack>, number: usize, streams: usize) -> Outcome {
    let (sender, connection, authority) =
        attack.h2(number, Builder::new().initial_window_size(0)).await?;
    tokio::spawn(connection);
    let (_sender, answers) = ask(&attack, sender, &authority, streams).await?;
    let _kept = keep(&attack, answers).await;
    forever().await
}

/// Streams whose windows are wide open, on a connection whose own window nobody opens again.
pub async fn shut_connection(attack: Arc<Attack>, number: usize, streams: usize) -> Outcome {
    let (sender, connection, authority) =
        attack.h2(number, Builder::new().initial_window_size(16 << 20)).await?;
    tokio::spawn(connection);
    let (_sender, answers) = ask(&attack, sender, &authority, streams).await?;
    let _kept = keep(&attack, answers).await;
    forever().await
}

/// Windows of one byte, which are opened again for each byte.
pub async fn byte_windows(attack: Arc<Attack>, number: usize, streams: usize) -> Outcome {
    let (sender, connection, authority) =
        attack.h2(number, Builder::new().initial_window_size(1)).await?;
    tokio::spawn(connection);
    let (_sender, answers) = ask(&attack, sender, &authority, streams).await?;
    let mut kept = keep(&attack, answers).await;
    let mut often = tokio::time::interval(Duration::from_millis(500));
    loop {
        often.tick().await;
        for body in &mut kept {
            if let Some(Some(Ok(piece))) = futures_now(body.data()) {
                let _ = body.flow_control().release_capacity(piece.len());
            }
        }
    }
}

/// What is ready now.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

/// Streams that are read to begin with, so that large windows and reads are worth it; then every window is made as small as
/// can be.
pub async fn shrunk_windows(attack: Arc<Attack>, number: usize, streams: usize) -> Outcome {
    let (sender, mut connection, authority) = attack
        .h2(
            number,
            Builder::new().initial_window_size(1 << 20).initial_connection_window_size(8 << 20),
        )
        .await?;
    let (shrink, shrunk) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        tokio::select! {
            ended = &mut connection => return ended,
            _ = shrunk => connection.set_initial_window_size(0)?,
        }
        connection.await
    });
    let (sender, answers) = ask(&attack, sender, &authority, 1).await?;
    for answer in answers {
        let mut body = answer.await?.into_body();
        let mut read = 0;
        while read < READ_FIRST {
            let piece = body.data().await.ok_or("it ended")??;
            read += piece.len();
            body.flow_control().release_capacity(piece.len())?;
        }
    }
    let (_sender, answers) = ask(&attack, sender, &authority, streams).await?;
    let _ = shrink.send(());
    let _kept = keep(&attack, answers).await;
    forever().await
}

/// Uploads to origins that take nothing, as much as the windows let out.
pub async fn h2_uploads(attack: Arc<Attack>, number: usize, streams: usize) -> Outcome {
    let (sender, connection, authority) = attack.h2(number, &Builder::new()).await?;
    tokio::spawn(connection);
    let mut kept = JoinSet::new();
    for number in 0..streams {
        let Ok(ready) = timeout(STALLS, sender.clone().ready()).await else {
            attack.settle(streams - number);
            break;
        };
        let mut sender = ready?;
        let request =
            Request::post(format!("https://{authority}/nothing")).header("user-agent", "Hoarder/1");
        let (answer, body) = sender.send_request(request.body(()).expect("a request"), false)?;
        let attack = Arc::clone(&attack);
        kept.spawn(async move {
            let _ = tokio::join!(upload(&attack, body), answer);
        });
    }
    kept.join_all().await;
    forever().await
}

/// Sends until no more is taken; that is settled, and so is a refusal.
async fn upload(attack: &Attack, mut body: SendStream<Bytes>) {
    body.reserve_capacity(1 << 20);
    let mut is_settled = false;
    loop {
        let capacity = timeout(STALLS, std::future::poll_fn(|cx| body.poll_capacity(cx)));
        let capacity = match capacity.await {
            Ok(Some(Ok(bytes))) => bytes,
            ended => {
                if !std::mem::replace(&mut is_settled, true) {
                    attack.settle(1);
                }
                match ended {
                    Err(_) => continue,
                    _ => return,
                }
            }
        };
        if body.send_data(Bytes::from(vec![b'x'; capacity]), false).is_err() {
            if !is_settled {
                attack.settle(1);
            }
            return;
        }
        body.reserve_capacity(1 << 20);
    }
}

/// The same, each by a connection of its own.
pub async fn h1_uploads(attack: Arc<Attack>, number: usize, _: usize) -> Outcome {
    let mut stream = attack.connect().await?;
    let url = attack.url(number, "/nothing");
    let head = format!(
        "POST {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: Hoarder/1\r\nContent-Length: 99999999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    while let Ok(Ok(())) = timeout(STALLS, stream.write_all(&[b'x'; 16 << 10])).await {}
    attack.settle(1);
    forever().await
}

/// Answers in chunks, of which the first part is read.
pub async fn chunked(attack: Arc<Attack>, number: usize, _: usize) -> Outcome {
    let mut stream = attack.connect().await?;
    let url = attack.url(number, "/chunked");
    stream
        .write_all(
            format!("GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: Hoarder/1\r\n\r\n").as_bytes(),
        )
        .await?;
    // One that is refused is told so, and no more comes.
    let (mut room, mut read) = (vec![0; 16 << 10], 0);
    while read < READ_FIRST
        && let Ok(Ok(bytes @ 1..)) = timeout(STALLS, stream.read(&mut room)).await
    {
        read += bytes;
    }
    attack.settle(1);
    forever().await
}

/// Requests in one go, and nothing is read.
pub async fn pipelined(attack: Arc<Attack>, number: usize, requests: usize) -> Outcome {
    let mut stream = attack.connect().await?;
    let url = attack.url(number, "/large");
    let request = format!("GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: Hoarder/1\r\n\r\n");
    stream.write_all(request.repeat(requests).as_bytes()).await?;
    stream.readable().await?;
    attack.settle(requests);
    forever().await
}

/// WebSockets of which nothing is read.
pub async fn sockets(attack: Arc<Attack>, number: usize, _: usize) -> Outcome {
    let mut stream = attack.connect().await?;
    let url = attack.url(number, "/socket");
    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                  Sec-WebSocket-Version: 13\r\n";
    stream
        .write_all(
            format!("GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: Hoarder/1\r\n{fields}\r\n")
                .as_bytes(),
        )
        .await?;
    stream.readable().await?;
    attack.settle(1);
    forever().await
}

/// Heads of requests that never end.
pub async fn heads(attack: Arc<Attack>, number: usize, _: usize) -> Outcome {
    let mut stream = attack.connect().await?;
    let url = attack.url(number, "/page");
    stream
        .write_all(
            format!("GET {url} HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(60 << 10)).as_bytes(),
        )
        .await?;
    attack.settle(1);
    forever().await
}
