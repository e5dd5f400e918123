//! A site for the occasion: on loopback, by HTTP and HTTPS, with a robots.txt, and with a memory of
//! what was asked and whether it came through our proxy.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::origin::Scheme;

/// A path that the robots.txt of the site disallows.
pub const DISALLOWED: &str = "/disallowed/";

/// The agent that the robots.txt asks for a delay, and that delay.
pub const PACED_AGENT: &str = "courtesy-doctor-paced";
/// See [`PACED_AGENT`].
pub const DELAY: Duration = Duration::from_millis(500);

/// What the trial's proxy calls itself in Via, which tells its requests from those around it.
pub const PROXY_NAME: &str = "courtesy-doctor";

const TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: u64 = 16 * 1024;

/// A site of its own on loopback, by HTTP and HTTPS, that notes its visits.
#[derive(Clone, Debug)]
pub struct Site {
    plain: SocketAddr,
    secure: SocketAddr,
    visits: Arc<Lock<Vec<Visit>>>,
}

#[derive(Clone, Debug)]
struct Visit {
    path: String,
    at: Instant,
    through_proxy: bool,
}

impl Site {
    /// Opens it; it stays open as long as the process lives.
    pub fn open(tls: Arc<ServerConfig>) -> io::Result<Self> {
        let [plain, secure] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let (plain, secure) = (plain?, secure?);
        let site = Self {
            plain: plain.local_addr()?,
            secure: secure.local_addr()?,
            visits: Arc::default(),
        };
        site.listen(plain, |site, stream| site.serve(stream))?;
        site.listen(secure, move |site, stream| {
            // A client that does not like the handshake has said so to its user.
            if let Ok(connection) = ServerConnection::new(Arc::clone(&tls)) {
                site.serve(StreamOwned::new(connection, stream));
            }
        })?;
        Ok(site)
    }

    /// Where it listens.
    pub const fn address(&self, scheme: Scheme) -> SocketAddr {
        match scheme {
            Scheme::Https => self.secure,
            _ => self.plain,
        }
    }

    /// The URL of `path` at this site.
    pub fn url(&self, scheme: Scheme, path: &str) -> String {
        format!("{}://{}{path}", scheme.as_str(), self.address(scheme))
    }

    /// How `path` was asked for: through the proxy (`true`), around it, or not at all.
    pub fn visit(&self, path: &str) -> Option<bool> {
        let visits = self.visits.lock();
        let mut of_path = visits.iter().filter(|visit| visit.path == path).peekable();
        of_path.peek()?;
        Some(of_path.all(|visit| visit.through_proxy))
    }

    /// When `path` was asked for first.
    pub fn visited_at(&self, path: &str) -> Option<Instant> {
        self.visits.lock().iter().find(|visit| visit.path == path).map(|visit| visit.at)
    }

    fn listen(
        &self,
        listener: TcpListener,
        serve: impl Fn(&Self, TcpStream) + Clone + Send + 'static,
    ) -> io::Result<()> {
        let site = self.clone();
        std::thread::Builder::new().name("site".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let (site, serve) = (site.clone(), serve.clone());
                let _ = stream.set_read_timeout(Some(TIMEOUT));
                std::thread::spawn(move || serve(&site, stream));
            }
        })?;
        Ok(())
    }

    fn serve(&self, mut stream: impl Read + Write) {
        let head = BufReader::new((&mut stream).take(HEAD_BYTES_MAX));
        let mut lines = head.lines().map_while(Result::ok);
        let request = lines.next().unwrap_or_default();
        let at = monotonic();
        let is_via = |field: &String| {
            field.to_ascii_lowercase().starts_with("via:") && field.contains(PROXY_NAME)
        };
        // To the end of the head, whatever is in it: what is left unread resets the connection.
        let fields: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = match path.as_str() {
            "/robots.txt" => format!(
                "User-agent: *\nDisallow: {DISALLOWED}\n\nUser-agent: {PACED_AGENT}\nCrawl-delay: {}\n",
                DELAY.as_secs_f64()
            ),
            _ => "courtesy doctor was here\n".to_owned(),
        };
        let visit = Visit { path, at, through_proxy: fields.iter().any(is_via) };
        self.visits.lock().push(visit);
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        // The client may have disconnected.
        let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
    }
}
