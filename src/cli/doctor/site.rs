//! A site for the occasion: on loopback, with a robots.txt, and with a memory of what was asked and
//! whether it came through our proxy.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub const DISALLOWED: &str = "/disallowed/";

/// What the trial's proxy calls itself in Via, which tells its requests from those around it.
pub const PROXY_NAME: &str = "courtesy-doctor";

const PATIENCE: Duration = Duration::from_secs(5);
const HEAD_OCTETS_MAX: u64 = 16 * 1024;

#[derive(Clone, Debug)]
pub struct Site {
    pub address: SocketAddr,
    visits: Arc<Mutex<Vec<Visit>>>,
}

#[derive(Clone, Debug)]
struct Visit {
    path: String,
    through_proxy: bool,
}

impl Site {
    /// Opens it; it stays open as long as the process lives.
    pub fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let site = Self { address: listener.local_addr()?, visits: Arc::default() };
        let visited = site.clone();
        std::thread::Builder::new().name("site".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = visited.clone();
                std::thread::spawn(move || site.serve(stream));
            }
        })?;
        Ok(site)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How `path` was asked for: through the proxy (`true`), around it, or not at all.
    pub fn visit(&self, path: &str) -> Option<bool> {
        let visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_path = visits.iter().filter(|visit| visit.path == path).peekable();
        of_path.peek()?;
        Some(of_path.all(|visit| visit.through_proxy))
    }

    fn serve(&self, mut stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut lines = BufReader::new((&stream).take(HEAD_OCTETS_MAX)).lines().map_while(Result::ok);
        let request = lines.next().unwrap_or_default();
        let fields: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = match path.as_str() {
            "/robots.txt" => format!("User-agent: *\nDisallow: {DISALLOWED}\n"),
            _ => "courtesy doctor was here\n".to_owned(),
        };
        let is_via =
            |field: &String| field.to_ascii_lowercase().starts_with("via:") && field.contains(PROXY_NAME);
        let visit = Visit { path, through_proxy: fields.iter().any(is_via) };
        self.visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
        let length = body.len();
        // Whoever has left has left.
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
    }
}
