//! An origin that keeps every byte it gets, by connection, and answers whole requests only, each
//! with its own target.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::strict;

/// Nothing below `/private` may be asked for.
const ROBOTS_TXT: &str = "User-agent: *\nDisallow: /private\n";

/// What `/page` is answered with.
#[derive(Clone, Debug, Default)]
pub enum Reply {
    /// With its own target, as everything else.
    #[default]
    Echo,
    /// With these bytes; then the connection goes on, or ends.
    Raw { bytes: Vec<u8>, closes: bool },
}

#[derive(Debug)]
pub struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    reply: Reply,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<Vec<u8>>,
    open: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    over: bool,
}

impl Recorder {
    pub fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared { reply, state: Mutex::default() });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every byte so far, by connection, but for the fetches of the robots.txt.
    pub fn connections(&self) -> Vec<Vec<u8>> {
        let fetches = |bytes: &[u8]| bytes.starts_with(b"GET /robots.txt HTTP/1.1\r\n");
        self.shared.state().connections.iter().filter(|bytes| !fetches(bytes)).cloned().collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.state().over = true;
        // The acceptor waits for a connection: here is one.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let State { open, threads, .. } = std::mem::take(&mut *self.shared.state());
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            let Ok(clone) = stream.try_clone() else { continue };
            let mut state = self.state();
            if state.over {
                return;
            }
            let number = state.connections.len();
            state.connections.push(Vec::new());
            state.open.push(clone);
            let shared = Arc::clone(self);
            state.threads.push(std::thread::spawn(move || shared.serve(stream, number)));
        }
    }

    /// Answers each whole request in turn. One that breaks a rule is never answered.
    fn serve(&self, mut stream: TcpStream, number: usize) {
        let (mut answered, mut room) = (0, [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut room) {
            let bytes = {
                let mut state = self.state();
                let Some(bytes) = state.connections.get_mut(number) else { return };
                bytes.extend_from_slice(&room[..count]);
                bytes.clone()
            };
            let Ok((requests, _)) = strict::requests(&bytes) else { break };
            for request in &requests[answered..] {
                let (bytes, closes) = self.answer(request);
                if stream.write_all(&bytes).is_err() || closes {
                    let _ = stream.shutdown(Shutdown::Write);
                    return;
                }
            }
            answered = requests.len();
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn answer(&self, request: &strict::Message) -> (Vec<u8>, bool) {
        let asked = request.asked();
        match &self.reply {
            Reply::Raw { bytes, closes } if asked.ends_with(" /page") => {
                return (bytes.clone(), *closes);
            }
            _ => {}
        }
        let body = if asked == "GET /robots.txt" { ROBOTS_TXT } else { asked };
        let content = if asked.starts_with("HEAD ") { "" } else { body };
        (
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", body.len())
                .into_bytes(),
            false,
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
