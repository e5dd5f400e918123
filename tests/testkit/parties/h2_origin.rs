//! An origin that sends the frames of HTTP/2 that its script has, whatever HTTP/2 thinks of them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::tls;
use super::wire::Stream;

/// Flags of frames (RFC 9113 §6).
pub const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// Types of frames.
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const GOAWAY: u8 = 0x7;

/// Error codes (RFC 9113 §7).
pub const NO_ERROR: u32 = 0x0;
pub const INTERNAL_ERROR: u32 = 0x2;
pub const CANCEL: u32 = 0x8;

/// What follows a request.
#[derive(Clone, Debug)]
pub enum Step {
    /// A head with this status and these headers, and the flags of its frame.
    Head(u16, Vec<(String, String)>, u8),
    Data(Vec<u8>, u8),
    /// DATA that consists of so much padding.
    Padding(u8),
    Trailers(Vec<(String, String)>),
    Reset(u32),
    /// GOAWAY that names this stream as the last one.
    GoAway(u32),
    /// Reads frames until the client has ended its side of the stream.
    ReadBody,
    /// Does nothing more until the client has reset the stream, or is gone.
    Hold,
    /// Ends the connection, with close_notify.
    Close,
}

/// One listener on loopback, for 127.0.0.1. It stops when dropped.
#[derive(Debug)]
pub struct H2Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub struct Log {
    pub connections: usize,
    pub requests: usize,
    /// The error codes of the GOAWAYs of the client.
    pub go_aways: Vec<u32>,
    open: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    over: bool,
}

/// A script: the steps that follow one request.
pub type Script = Vec<Step>;

/// A head without more headers.
pub fn head(status: u16, flags: u8) -> Step {
    head_with(status, &[], flags)
}

pub fn head_with(status: u16, fields: &[(&str, &str)], flags: u8) -> Step {
    Step::Head(status, owned(fields), flags)
}

pub fn data(bytes: impl AsRef<[u8]>, flags: u8) -> Step {
    Step::Data(bytes.as_ref().to_vec(), flags)
}

pub fn trailers(fields: &[(&str, &str)]) -> Step {
    Step::Trailers(owned(fields))
}

/// A whole response.
pub fn whole(status: u16, body: impl AsRef<[u8]>) -> Script {
    vec![head(status, 0), data(body, END_STREAM)]
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl H2Origin {
    /// Follows these scripts, one for each request in the order of arrival; the last holds for the
    /// rest.
    pub fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let mut config = (*tls::origin_config()).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (config, scripts) = (Arc::new(config), Arc::new(scripts));
        let shared = Arc::<Shared>::default();
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                while let Ok((stream, _)) = listener.accept() {
                    let mut log = shared.log();
                    if log.over {
                        return;
                    }
                    log.connections += 1;
                    log.open.extend(stream.try_clone());
                    let mut connection = Connection {
                        stream: tls::accept(&config, stream),
                        shared: Arc::clone(&shared),
                        scripts: Arc::clone(&scripts),
                    };
                    // Ends with the connection, whoever ended it.
                    log.threads.push(std::thread::spawn(move || drop(connection.serve())));
                }
            }
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as the target of a CONNECT.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log()
    }
}

impl Drop for H2Origin {
    fn drop(&mut self) {
        let mut log = self.shared.log();
        log.over = true;
        log.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        let threads = std::mem::take(&mut log.threads);
        drop(log);
        let _ = TcpStream::connect(self.address);
        let acceptor = self.acceptor.take();
        threads.into_iter().chain(acceptor).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        change(&mut self.log())
    }
}

struct Connection {
    stream: Box<dyn Stream>,
    shared: Arc<Shared>,
    scripts: Arc<Vec<Script>>,
}

/// A frame that was read.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Connection {
    fn serve(&mut self) -> io::Result<()> {
        self.stream.tcp().set_nodelay(true)?;
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface)?;
        self.write(SETTINGS, 0, 0, &[])?;
        loop {
            let frame = self.read()?;
            if frame.kind != HEADERS {
                continue;
            }
            let number = self.shared.note(|log| {
                log.requests += 1;
                log.requests - 1
            });
            let scripts = Arc::clone(&self.scripts);
            let script = scripts.get(number).or(scripts.last());
            let mut is_over = frame.flags & END_STREAM != 0;
            for step in script.into_iter().flatten() {
                self.follow(step, frame.stream, &mut is_over)?;
            }
        }
    }

    fn follow(&mut self, step: &Step, stream: u32, is_over: &mut bool) -> io::Result<()> {
        match step {
            Step::Head(status, fields, flags) => {
                let status = (":status".to_owned(), status.to_string());
                let block = block(std::iter::once(&status).chain(fields));
                self.write(HEADERS, END_HEADERS | flags, stream, &block)
            }
            Step::Trailers(fields) => {
                self.write(HEADERS, END_HEADERS | END_STREAM, stream, &block(fields.iter()))
            }
            Step::Data(bytes, flags) => self.write(DATA, *flags, stream, bytes),
            Step::Padding(length) => {
                let payload = [vec![*length], vec![0; (*length).into()]].concat();
                self.write(DATA, PADDED, stream, &payload)
            }
            Step::Reset(code) => self.write(RST_STREAM, 0, stream, &code.to_be_bytes()),
            Step::GoAway(code) => {
                let payload = [stream.to_be_bytes(), code.to_be_bytes()].concat();
                self.write(GOAWAY, 0, 0, &payload)
            }
            Step::ReadBody => {
                while !*is_over {
                    let frame = self.read()?;
                    *is_over = frame.stream == stream && frame.flags & END_STREAM != 0;
                }
                Ok(())
            }
            Step::Hold => loop {
                if self.read()?.kind == RST_STREAM {
                    return Ok(());
                }
            },
            Step::Close => {
                self.stream.finish()?;
                Err(ErrorKind::Other.into())
            }
        }
    }

    /// The next frame that is for the script; what a connection needs to go on is answered here.
    fn read(&mut self) -> io::Result<Frame> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head)?;
            let [high, middle, low, kind, flags, id @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
            self.stream.read_exact(&mut payload)?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, 0, &[])?,
                PING if flags & ACK == 0 => self.write(PING, ACK, 0, &payload)?,
                GOAWAY => {
                    let code = payload.get(4..8).and_then(|code| code.try_into().ok());
                    let code = code.map_or(NO_ERROR, u32::from_be_bytes);
                    self.shared.note(|log| log.go_aways.push(code));
                }
                DATA | HEADERS | RST_STREAM => {
                    let stream = u32::from_be_bytes(id);
                    return Ok(Frame { kind, flags, stream });
                }
                _ => {}
            }
        }
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.stream.write_all(&frame)?;
        self.stream.flush()
    }
}

/// A block of fields without compression: literals without indexing (RFC 7541 §6.2.2).
fn block<'a>(fields: impl Iterator<Item = &'a (String, String)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            // RFC 7541 §5.1: an integer with a prefix of seven bits.
            match u8::try_from(text.len()) {
                Ok(length) if length < 127 => block.push(length),
                _ => {
                    block.push(127);
                    let mut rest = text.len() - 127;
                    while rest >= 128 {
                        block.push(u8::try_from(rest % 128 + 128).expect("a byte"));
                        rest /= 128;
                    }
                    block.push(u8::try_from(rest).expect("a byte"));
                }
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}
