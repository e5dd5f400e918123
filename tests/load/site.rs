//! A server for hours: whatever it has served it forgets, and what it does depends on whom it is taken
//! for and on what it is asked for, so that every fault can be had at any time.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use socket2::SockRef;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::testkit::parties::{answer, tls};
use crate::testkit::processes::RULES;

/// What goes wrong with the robots.txt of 127.N.0.0/16, N counted from 2. Of those after the fifth there
/// are rules to be had.
pub const ROBOTS_FAULTS: [&str; 8] = [
    "answers 503",
    "drips",
    "resets in the head",
    "resets in the body",
    "is silent",
    "redirects to itself",
    "never ends",
    "is a bomb",
];

/// What goes wrong with a page, by its path. All of them may be asked for.
pub const PAGE_FAULTS: [&str; 7] =
    ["/reset-head", "/reset-body", "/short", "/bad-chunk", "/two-lengths", "/flood", "/no-http"];

/// Bytes of the page `/large`.
pub const LARGE_BYTES: usize = 1 << 20;

/// 64 MiB of comment behind the rules, in members of one gzip file (RFC 1952 §2.2).
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    [gzip(RULES.as_bytes()), gzip(&vec![b'#'; 1 << 20]).repeat(64)].concat()
});

/// Bytes of the page `/huge`.
pub const HUGE_BYTES: usize = 10 << 20;

/// A running server; it ends when dropped.
pub struct Site {
    port: u16,
    seen: Arc<Seen>,
    runtime: Option<Runtime>,
}

/// What happened to it, counted over all its addresses.
#[derive(Default)]
struct Seen {
    /// Pages that were asked for though the rules close them.
    breaches: AtomicUsize,
    /// Bytes of huge pages that the sockets took.
    sent: AtomicUsize,
}

/// How an exchange ends.
enum End {
    /// Another can follow.
    Kept,
    Closed,
    Reset,
}

impl Site {
    /// One that speaks plain HTTP on every address of 127.0.0.0/8.
    pub fn plain() -> Self {
        Self::start(None)
    }

    /// The same over TLS, for 127.0.0.1 and the names in [`tls::NAMES`].
    pub fn secure() -> Self {
        Self::start(Some(TlsAcceptor::from(tls::origin_config())))
    }

    fn start(tls: Option<TlsAcceptor>) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
        let listener =
            runtime.block_on(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        let seen = Arc::<Seen>::default();
        let noted = Arc::clone(&seen);
        runtime.spawn(async move {
            loop {
                // An error concerns the one connection that was being accepted.
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(receive(stream, tls.clone(), Arc::clone(&noted)));
                }
            }
        });
        Self { port, seen, runtime: Some(runtime) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a path at 127.`network`.0.`host`.
    pub fn url(&self, network: u8, host: u8, path: &str) -> String {
        format!("http://127.{network}.0.{host}:{}{path}", self.port)
    }

    /// How many pages were asked for that the rules close.
    pub fn breaches(&self) -> usize {
        self.seen.breaches.load(Ordering::SeqCst)
    }

    /// Bytes of huge pages that its sockets took.
    pub fn sent(&self) -> usize {
        self.seen.sent.load(Ordering::SeqCst)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn receive(stream: TcpStream, tls: Option<TlsAcceptor>, seen: Arc<Seen>) -> io::Result<()> {
    let IpAddr::V4(address) = stream.local_addr()?.ip() else { return Ok(()) };
    stream.set_nodelay(true)?;
    let Some(tls) = tls else {
        let mut stream = BufReader::new(stream);
        if serve(&mut stream, address, &seen).await? {
            SockRef::from(stream.get_ref()).set_linger(Some(Duration::ZERO))?;
        }
        return Ok(());
    };
    let mut stream = BufReader::new(tls.accept(stream).await?);
    if serve(&mut stream, address, &seen).await? {
        return SockRef::from(stream.get_ref().get_ref().0).set_linger(Some(Duration::ZERO));
    }
    stream.shutdown().await
}

/// Until the connection ends; whether it is to be reset.
async fn serve<S>(stream: &mut BufReader<S>, address: Ipv4Addr, seen: &Seen) -> io::Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(path) = request(stream).await? {
        let end = if path == "/robots.txt" {
            robots(stream, address.octets()[1]).await?
        } else {
            seen.breaches.fetch_add(usize::from(path.starts_with("/private/")), Ordering::SeqCst);
            page(stream, &path, seen).await?
        };
        match end {
            End::Kept => {}
            End::Closed => return Ok(false),
            End::Reset => return Ok(true),
        }
    }
    Ok(false)
}

/// The path of the next request, its body read; none where no more come.
async fn request<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<Option<String>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    while !line.trim_end().is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
        let field = line.to_ascii_lowercase();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    tokio::io::copy(&mut stream.take(length), &mut tokio::io::sink()).await?;
    Ok(Some(path))
}

/// The file of 127.`network`.0.0/16.
async fn robots<S>(stream: &mut S, network: u8) -> io::Result<End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let begun = format!("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{RULES}# ");
    let begun = begun.as_bytes();
    let fault = network.checked_sub(2).and_then(|number| ROBOTS_FAULTS.get(usize::from(number)));
    match fault.copied() {
        None => stream.write_all(&answer(200, "Content-Type: text/plain\r\n", RULES)).await?,
        Some("answers 503") => stream.write_all(&answer(503, "", "")).await?,
        Some("drips") => {
            stream.write_all(begun).await?;
            loop {
                stream.write_all(b"#").await?;
                sleep(Duration::from_millis(50)).await;
            }
        }
        Some("never ends") => {
            stream.write_all(begun).await?;
            loop {
                stream.write_all(&[b'#'; 16 << 10]).await?;
            }
        }
        Some("is a bomb") => {
            stream.write_all(&answer(200, "Content-Encoding: gzip\r\n", &*BOMB)).await?
        }
        Some("redirects to itself") => {
            stream.write_all(&answer(302, "Location: /robots.txt\r\n", "")).await?
        }
        Some("resets in the head") => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-").await?;
            return Ok(End::Reset);
        }
        Some("resets in the body") => {
            stream.write_all(begun).await?;
            return Ok(End::Reset);
        }
        Some(_) => {
            // Until the proxy has had enough of it.
            stream.read_u8().await?;
            return Err(ErrorKind::InvalidData.into());
        }
    }
    Ok(End::Kept)
}

async fn page<S: AsyncWrite + Unpin>(stream: &mut S, path: &str, seen: &Seen) -> io::Result<End> {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nthis is ";
    let (bytes, end) = match path {
        "/slow" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await?;
            for byte in b"slow\n" {
                sleep(Duration::from_millis(50)).await;
                stream.write_all(&[*byte]).await?;
            }
            return Ok(End::Kept);
        }
        "/huge" => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {HUGE_BYTES}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let mut left = HUGE_BYTES;
            while left > 0 {
                let written = stream.write(&[b'x'; 16 << 10][..left.min(16 << 10)]).await?;
                seen.sent.fetch_add(written, Ordering::SeqCst);
                left -= written;
            }
            return Ok(End::Kept);
        }
        "/large" => (answer(200, "", vec![b'x'; LARGE_BYTES]), End::Kept),
        "/reset-head" => (begun[..20].to_vec(), End::Reset),
        "/reset-body" => (begun.to_vec(), End::Reset),
        "/short" => (begun.to_vec(), End::Closed),
        "/bad-chunk" => (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nthis\r\n0x4\r\n".to_vec(),
            End::Closed,
        ),
        "/two-lengths" => (answer(200, "Content-Length: 7\r\n", "this"), End::Closed),
        "/flood" => (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(2000), End::Closed),
        "/no-http" => (b"\x16\x03\x01 no HTTP at all\r\n\r\n".to_vec(), End::Closed),
        _ => (answer(200, "Content-Type: text/plain\r\n", format!("this is {path}\n")), End::Kept),
    };
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(end)
}
