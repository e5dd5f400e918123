//! A scripted origin on loopback: some paths have a scripted response, any other is a page. It counts
//! the requests for each path, to show which never reached it. Its threads end with the process.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;

/// The response of an origin to a path.
#[derive(Clone, Debug)]
pub struct Reply {
    status: &'static str,
    fields: String,
    body: Vec<u8>,
    delay: Duration,
}

impl Reply {
    /// A response with this status line and body, and no headers.
    pub fn new(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, fields: String::new(), body: body.into(), delay: Duration::ZERO }
    }

    /// A robots.txt.
    pub fn rules(body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", body).with("Content-Type", "text/plain")
    }

    /// A 503.
    pub fn unavailable() -> Self {
        Self::new("503 Service Unavailable", "come back later\n")
    }

    /// A redirect to the URL `to`.
    pub fn redirect(status: &'static str, to: &str) -> Self {
        Self::new(status, "").with("Location", to)
    }

    /// The same with one more header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields += &format!("{name}: {value}\r\n");
        self
    }

    /// The same, sent after `delay`.
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, fields, body, .. } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }
}

/// A scripted site on a port of loopback.
pub struct Origin {
    pub name: &'static str,
    pub address: SocketAddr,
    script: Arc<Lock<Script>>,
}

#[derive(Default)]
struct Script {
    replies: HashMap<String, Reply>,
    asked: HashMap<String, u32>,
    /// When its pages were requested, and which.
    arrivals: Vec<(Instant, String)>,
}

impl Origin {
    /// Begins to listen, with `robots` as its robots.txt.
    pub fn start(name: &'static str, robots: Reply) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let origin = Self { name, address: listener.local_addr()?, script: Arc::default() };
        origin.answers("/robots.txt", robots);
        let script = Arc::clone(&origin.script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&script);
                std::thread::spawn(move || serve(stream, &script));
            }
        });
        Ok(origin)
    }

    /// From now on.
    pub fn answers(&self, path: &str, reply: Reply) {
        self.script.lock().replies.insert(path.to_owned(), reply);
    }

    /// The URL of `path` at this site.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// When its pages were requested, in order.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.arrivals_below("/")
    }

    /// When those of its pages were requested whose paths begin so, in order.
    pub fn arrivals_below(&self, path: &str) -> Vec<Instant> {
        let script = self.script.lock();
        let below = script.arrivals.iter().filter(|(_, page)| page.starts_with(path));
        below.map(|(at, _)| *at).collect()
    }

    /// How often it has been asked for `path`.
    pub fn asked(&self, path: &str) -> u32 {
        self.script.lock().asked.get(path).copied().unwrap_or(0)
    }
}

fn serve(mut stream: TcpStream, script: &Lock<Script>) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request_line = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = request_line.split(' ').nth(1).unwrap_or_default();
    let now = monotonic();
    let reply = {
        let mut script = script.lock();
        if path != "/robots.txt" {
            script.arrivals.push((now, path.to_owned()));
        }
        *script.asked.entry(path.to_owned()).or_default() += 1;
        let page = || Reply::new("200 OK", "a page\n");
        script.replies.get(path).cloned().unwrap_or_else(page)
    };
    std::thread::sleep(reply.delay);
    stream.write_all(&reply.bytes())
}
