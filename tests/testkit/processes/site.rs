//! One server that is a million sites: it answers on every address of 127.0.0.0/8, and counts for
//! each how often its robots.txt was asked for. What it says of pages may depend on the page.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// What a site says when its robots.txt is asked for.
#[derive(Clone, Debug)]
pub enum Robots {
    File(String),
    Status(u16),
}

/// What a site says when a page is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub status: u16,
    /// Header lines, each with its end.
    pub headers: &'static str,
    /// It says so after this time.
    pub after: Duration,
}

impl Page {
    /// The page is there.
    pub const FOUND: Self = Self { status: 200, headers: "", after: Duration::ZERO };
}

type Script = dyn Fn(Ipv4Addr) -> Robots + Send + Sync;
type PageScript = dyn Fn(Ipv4Addr, &str) -> Page + Send + Sync;

/// A running server; it ends when dropped.
pub struct Site {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    robots: RwLock<Box<Script>>,
    page: Box<PageScript>,
    /// How often each address was asked for its robots.txt.
    fetches: Mutex<HashMap<Ipv4Addr, u32>>,
    pages: AtomicUsize,
}

impl Site {
    /// One whose every page is there, and whose robots.txt is as `robots` says of the address.
    pub fn start(robots: impl Fn(Ipv4Addr) -> Robots + Send + Sync + 'static) -> Self {
        Self::with_pages(robots, |_, _| Page::FOUND)
    }

    /// One that says of each path of an address what `page` does, which is asked when the request
    /// has come.
    pub fn with_pages(
        robots: impl Fn(Ipv4Addr) -> Robots + Send + Sync + 'static,
        page: impl Fn(Ipv4Addr, &str) -> Page + Send + Sync + 'static,
    ) -> Self {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
        let listener =
            runtime.block_on(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("a free port");
        let port = listener.local_addr().expect("a bound address").port();
        let robots: Box<Script> = Box::new(robots);
        let shared = Shared {
            robots: RwLock::new(robots),
            page: Box::new(page),
            fetches: Mutex::default(),
            pages: AtomicUsize::new(0),
        };
        let shared = Arc::new(shared);
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared, runtime: Some(runtime) }
    }

    /// One with this robots.txt, at every address.
    pub fn with_rules(file: &str) -> Self {
        let file = file.to_owned();
        Self::start(move |_| Robots::File(file.clone()))
    }

    /// From now on it says this.
    pub fn says(&self, robots: Robots) {
        let script: Box<Script> = Box::new(move |_| robots.clone());
        *self.shared.robots.write().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// The URL of a path at 127.0.0.1.
    pub fn url(&self, path: &str) -> String {
        self.url_at(Ipv4Addr::LOCALHOST, path)
    }

    pub fn url_at(&self, address: Ipv4Addr, path: &str) -> String {
        format!("http://{address}:{}{path}", self.port)
    }

    /// How often 127.0.0.1 was asked for its robots.txt.
    pub fn fetches(&self) -> u32 {
        self.fetches_at(Ipv4Addr::LOCALHOST)
    }

    pub fn fetches_at(&self, address: Ipv4Addr) -> u32 {
        let fetches = self.shared.fetches.lock().unwrap_or_else(PoisonError::into_inner);
        fetches.get(&address).copied().unwrap_or_default()
    }

    /// How many addresses were asked for their robots.txt.
    pub fn sites(&self) -> usize {
        self.shared.fetches.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many pages were asked for, at all addresses.
    pub fn pages(&self) -> usize {
        self.shared.pages.load(Ordering::SeqCst)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // An error concerns the one connection that was being accepted.
        if let Ok((stream, _)) = listener.accept().await {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { shared.serve(stream).await });
        }
    }
}

impl Shared {
    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let IpAddr::V4(address) = stream.local_addr()?.ip() else { return Ok(()) };
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        while let Some(path) = request(&mut stream).await? {
            let (page, body) = self.answer(address, &path);
            if !page.after.is_zero() {
                tokio::time::sleep(page.after).await;
            }
            let Page { status, headers, .. } = page;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} Said\r\nContent-Type: text/plain\r\n{headers}\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            stream.get_mut().write_all(answer.as_bytes()).await?;
        }
        Ok(())
    }

    fn answer(&self, address: Ipv4Addr, path: &str) -> (Page, String) {
        if path == "/robots.txt" {
            *self
                .fetches
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(address)
                .or_default() += 1;
            let robots = self.robots.read().unwrap_or_else(PoisonError::into_inner);
            match robots(address) {
                Robots::File(file) => (Page::FOUND, file),
                Robots::Status(status) => (Page { status, ..Page::FOUND }, String::new()),
            }
        } else {
            self.pages.fetch_add(1, Ordering::SeqCst);
            ((self.page)(address, path), format!("{path} of {address}\n"))
        }
    }
}

/// The path of the next request; none where no more come. No request here has a body.
async fn request(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    while !line.trim_end().is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    Ok(Some(path))
}
