//! An origin that does what its script says, whatever HTTP thinks of it, and remembers every byte
//! of every request.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use courtesy::runtime::clock::monotonic;
use rustls::ServerConfig;
use socket2::{Domain, SockRef, Socket, Type};

use super::wire::{Wire, values};
use super::{DEADLINE, tls};

/// A write that takes longer has stalled: nobody reads.
const STALL: Duration = Duration::from_millis(200);

/// Bytes of a User-Agent. Ordinary servers have such a bound on fields.
const LONG_FIELD: usize = 4096;

/// How often a held connection looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(10);

/// One listener on loopback. It answers for 127.0.0.1 and for every name below `localhost`: each of
/// those is an origin of its own.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    tls: Option<Arc<ServerConfig>>,
    routes: Mutex<HashMap<String, VecDeque<Script>>>,
    log: Mutex<Log>,
    changed: Condvar,
    /// Connections that are open, to be ended with the origin.
    open: Mutex<HashMap<usize, TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub struct Log {
    pub connections: usize,
    pub requests: Vec<Received>,
    /// Bytes that the sockets took.
    pub sent: usize,
    /// Writes that did not go on for [`STALL`].
    pub stalls: usize,
    /// Clients that were gone before the script was over.
    pub abandoned: usize,
    /// Connections that their client ended, and TLS on them before.
    pub ended: Vec<usize>,
    releases: usize,
    over: bool,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// Which connection it came by, counted from 1.
    pub connection: usize,
    pub at: Instant,
    pub head: String,
    pub body: Vec<u8>,
    pub trailers: String,
    /// Whether the body has come to its end.
    pub whole: bool,
}

/// What to do with a request.
#[derive(Clone, Debug, Default)]
pub struct Script(Vec<Step>);

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Drip(Vec<u8>, Duration),
    Endless(Vec<u8>),
    ReadBody,
    LeaveBody,
    Hold,
    Echo,
    Close,
    Cut,
    Reset,
}

impl Script {
    /// Sends these bytes, and nothing else.
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Sends one byte at a time, with a pause after each.
    pub fn drip(self, bytes: impl AsRef<[u8]>, pause: Duration) -> Self {
        self.then(Step::Drip(bytes.as_ref().to_vec(), pause))
    }

    /// Sends these bytes again and again, for as long as anybody takes them.
    pub fn endless(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Endless(bytes.as_ref().to_vec()))
    }

    /// Reads the body here; without such a step it is read before the first.
    pub fn read_body(self) -> Self {
        self.then(Step::ReadBody)
    }

    /// Never reads the body.
    pub fn leave_body(self) -> Self {
        self.then(Step::LeaveBody)
    }

    /// Does nothing until [`Origin::release`], or until the client is gone.
    pub fn hold(self) -> Self {
        self.then(Step::Hold)
    }

    /// Sends back what comes, to the end.
    pub fn echo(self) -> Self {
        self.then(Step::Echo)
    }

    pub fn close(self) -> Self {
        self.then(Step::Close)
    }

    /// Ends the connection, but not TLS on it.
    pub fn cut(self) -> Self {
        self.then(Step::Cut)
    }

    /// Ends the connection with a reset.
    pub fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }
}

/// A whole answer with its length.
pub fn answer(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head =
        format!("HTTP/1.1 {status} Scripted\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub fn ok(body: impl AsRef<[u8]>) -> Script {
    ok_with("", body)
}

/// 200 with more field lines, each ending in CRLF.
pub fn ok_with(fields: &str, body: impl AsRef<[u8]>) -> Script {
    Script::default().send(answer(200, fields, body))
}

/// An answer that nobody would want to have in memory.
pub fn endless() -> Script {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 10_u64 << 30);
    Script::default().send(head).endless(vec![b'x'; 1 << 20])
}

/// An address that refuses connections, as long as the socket is held: nobody else gets the port.
pub fn refusing() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let address = socket.local_addr().expect("an address").as_socket().expect("of IPv4");
    (socket, address)
}

impl Origin {
    /// An origin that answers every path with itself, and `/robots.txt` with 404.
    pub fn start() -> Self {
        Self::serving(None)
    }

    /// The same over TLS, for 127.0.0.1 and the names in [`tls::NAMES`].
    pub fn secure() -> Self {
        Self::serving(Some(tls::origin_config()))
    }

    fn serving(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared { tls, ..Shared::default() });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// An origin with this robots.txt.
    pub fn with_robots(robots_txt: &str) -> Self {
        Self::start().robots(robots_txt)
    }

    pub fn robots(self, robots_txt: &str) -> Self {
        self.on("/robots.txt", ok_with("Content-Type: text/plain\r\n", robots_txt))
    }

    /// What follows a request for `path`, as `/page` or, for one name only, `name/page`; `token /page` for
    /// those whose User-Agent begins with that product, and `long /page` for those beyond [`LONG_FIELD`].
    pub fn on(self, path: &str, script: Script) -> Self {
        self.routes().insert(path.to_owned(), VecDeque::from([script]));
        self
    }

    /// What follows the requests after those already provided for; the last holds for the rest.
    pub fn then(self, path: &str, script: Script) -> Self {
        self.routes().entry(path.to_owned()).or_default().push_back(script);
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }

    /// Its address as the target of a CONNECT.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// A URL of the origin `name.localhost`, which this one answers for too.
    pub fn named(&self, name: &str, path: &str) -> String {
        format!("http://{name}.localhost:{}{path}", self.address.port())
    }

    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request lines so far, without their version.
    pub fn request_lines(&self) -> Vec<String> {
        self.log().requests.iter().map(Received::line).collect()
    }

    /// When pages were requested, in order: anything but a robots.txt.
    pub fn arrivals(&self) -> Vec<Instant> {
        let log = self.log();
        log.requests.iter().filter(|it| it.path() != "/robots.txt").map(|it| it.at).collect()
    }

    /// How many requests for `path` came so far, in whatever name.
    pub fn count(&self, path: &str) -> usize {
        self.log().requests.iter().filter(|request| request.path() == path).count()
    }

    /// The last request for `path`.
    #[track_caller]
    pub fn received(&self, path: &str) -> Received {
        let log = self.log();
        log.requests
            .iter()
            .rfind(|request| request.path() == path)
            .expect("a request for it")
            .clone()
    }

    /// Waits until `seen` holds of the log.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut seen: impl FnMut(&Log) -> bool) {
        let log = self.log();
        let waited = self.shared.changed.wait_timeout_while(log, DEADLINE, |log| !seen(log));
        let (log, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let log = waited.timed_out().then(|| format!("{log:#?}"));
        assert!(log.is_none(), "it did not happen that {what}: {}", log.unwrap_or_default());
    }

    /// Lets everything go on that is held, now and later.
    pub fn release(&self) {
        self.log().releases += 1;
        self.shared.changed.notify_all();
    }

    /// Closes every connection that is open, as an origin does whose patience is over.
    pub fn close_connections(&self) {
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Script>>> {
        self.shared.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.log().over = true;
        self.shared.changed.notify_all();
        // The acceptor waits for a connection: here is one.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.close_connections();
        let threads = std::mem::take(
            &mut *self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Received {
    /// Method and target.
    pub fn line(&self) -> String {
        let line = self.head.lines().next().unwrap_or_default();
        line.rsplit_once(' ').map_or(line, |(line, _)| line).to_owned()
    }

    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        values(&self.head, name).first().copied()
    }

    pub fn fields(&self, name: &str) -> Vec<&str> {
        values(&self.head, name)
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.is_over() {
                return;
            }
            let number = self.note(|log| {
                log.connections += 1;
                log.connections
            });
            let Ok(clone) = stream.try_clone() else { continue };
            self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, clone);
            let shared = Arc::clone(self);
            let thread = std::thread::spawn(move || {
                let mut wire = Wire::new(match &shared.tls {
                    Some(config) => tls::accept(config, stream),
                    None => Box::new(stream),
                });
                // Ends with the connection, whoever ended it.
                let _ = shared.serve(&mut wire, number);
                shared.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            });
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
    }

    fn serve(&self, wire: &mut Wire, connection: usize) -> io::Result<()> {
        wire.stream.tcp().set_nodelay(true)?;
        wire.stream.tcp().set_write_timeout(Some(STALL))?;
        while let Some(head) = wire.head()? {
            let received = Received {
                connection,
                at: monotonic(),
                head,
                body: Vec::new(),
                trailers: String::new(),
                whole: false,
            };
            let script = self.script(&received);
            let number = self.note(|log| {
                log.requests.push(received.clone());
                log.requests.len() - 1
            });
            self.follow(wire, &script, number, received)?;
        }
        self.note(|log| log.ended.push(connection));
        Ok(())
    }

    fn script(&self, received: &Received) -> Script {
        let name = received.field("host").and_then(|host| host.split_once(".localhost"));
        let path = received.path();
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let field = received.field("user-agent").unwrap_or_default();
        let agent = field.split(['/', ' ']).next().unwrap_or_default();
        let of_agent = match field.len() {
            length if length > LONG_FIELD => format!("long {path}"),
            _ => format!("{agent} {path}"),
        };
        let keys =
            [Some(of_agent), name.map(|(name, _)| format!("{name}{path}")), Some(path.to_owned())];
        for scripts in keys.into_iter().flatten() {
            if let Some(scripts) = routes.get_mut(&scripts) {
                let last = scripts.len() == 1;
                let script = if last { scripts.front().cloned() } else { scripts.pop_front() };
                return script.unwrap_or_default();
            }
        }
        let mut bytes = match path {
            "/robots.txt" => answer(404, "", ""),
            _ => answer(200, "Content-Type: text/plain\r\n", format!("this is {path}\n")),
        };
        if received.head.starts_with("HEAD ") {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_default();
            bytes.truncate(end + 4);
        }
        Script::default().send(bytes)
    }

    fn follow(
        &self,
        wire: &mut Wire,
        script: &Script,
        number: usize,
        mut received: Received,
    ) -> io::Result<()> {
        let says_when = |step: &Step| matches!(step, Step::ReadBody | Step::LeaveBody);
        if !script.0.iter().any(says_when) {
            self.read_body(wire, number, &mut received)?;
        }
        for step in &script.0 {
            match step {
                Step::Send(bytes) => self.write(wire, bytes)?,
                Step::Drip(bytes, pause) => {
                    for byte in bytes {
                        self.write(wire, &[*byte])?;
                        self.pause(*pause)?;
                    }
                }
                Step::Endless(bytes) => loop {
                    self.write(wire, bytes)?;
                },
                Step::ReadBody => self.read_body(wire, number, &mut received)?,
                Step::LeaveBody => {}
                Step::Hold => self.hold(wire)?,
                Step::Echo => self.echo(wire)?,
                Step::Close => {
                    wire.stream.finish()?;
                    return Err(ErrorKind::Other.into());
                }
                Step::Cut => return Err(ErrorKind::Other.into()),
                Step::Reset => {
                    SockRef::from(wire.stream.tcp()).set_linger(Some(Duration::ZERO))?;
                    return Err(ErrorKind::Other.into());
                }
            }
        }
        Ok(())
    }

    fn read_body(&self, wire: &mut Wire, number: usize, received: &mut Received) -> io::Result<()> {
        let read = if received.fields("transfer-encoding").contains(&"chunked") {
            wire.chunked(&mut received.body).map(|trailers| received.trailers = trailers)
        } else {
            let length =
                received.field("content-length").map_or(0, |length| length.parse().unwrap_or(0));
            wire.exactly(length, &mut received.body)
        };
        received.whole = read.is_ok();
        self.note(|log| {
            if read.is_err() && !log.over {
                log.abandoned += 1;
            }
            log.requests[number] = received.clone();
        });
        read
    }

    fn write(&self, wire: &mut Wire, mut bytes: &[u8]) -> io::Result<()> {
        let mut flushed = false;
        while !bytes.is_empty() || !flushed {
            let written = if bytes.is_empty() {
                wire.stream.flush().map(|()| {
                    flushed = true;
                    0
                })
            } else {
                wire.stream.write(bytes)
            };
            match written {
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.note(|log| log.sent += count);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if self.note(|log| {
                        log.stalls += 1;
                        log.over
                    }) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(self.left(error)),
            }
        }
        Ok(())
    }

    fn hold(&self, wire: &mut Wire) -> io::Result<()> {
        wire.stream.tcp().set_read_timeout(Some(LOOK))?;
        loop {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.over {
                return Err(ErrorKind::Other.into());
            }
            if log.releases > 0 {
                drop(log);
                return wire.stream.tcp().set_read_timeout(None);
            }
            drop(log);
            match wire.stream.has_ended() {
                Ok(true) => return Err(self.left(ErrorKind::UnexpectedEof.into())),
                // Something came that is read later: only time can tell.
                Ok(false) => self.pause(LOOK)?,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(self.left(error)),
            }
        }
    }

    fn echo(&self, wire: &mut Wire) -> io::Result<()> {
        let mut byte = Vec::new();
        while wire.exactly(1, &mut byte).is_ok() {
            self.write(wire, &byte)?;
            byte.clear();
        }
        let _ = wire.stream.finish();
        Err(ErrorKind::UnexpectedEof.into())
    }

    /// Lets time pass, unless the origin is over.
    fn pause(&self, time: Duration) -> io::Result<()> {
        let end = monotonic() + time;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = end.saturating_duration_since(monotonic());
            if log.over {
                return Err(ErrorKind::Other.into());
            }
            if left.is_zero() {
                return Ok(());
            }
            log = self.changed.wait_timeout(log, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn left(&self, error: io::Error) -> io::Error {
        self.note(|log| {
            if !log.over {
                log.abandoned += 1;
            }
        });
        error
    }

    fn note<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let noted = change(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        noted
    }

    fn is_over(&self) -> bool {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).over
    }
}
