//! A relay before a server on a Unix socket: it can be slow, hold back or cut, and notes the commands
//! that pass.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// A running relay; it ends with its socket when it is dropped.
pub struct Relay {
    dir: TempDir,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    server: PathBuf,
    is_cut: watch::Sender<bool>,
    held_back: watch::Sender<HeldBack>,
    /// How long each direction takes, in milliseconds.
    delay: AtomicU64,
    commands: Mutex<Vec<Command>>,
}

/// What does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    Nothing,
    Requests,
    Replies,
}

/// A command that a client has sent, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub name: String,
    /// Those of a script; else what follows the name, if there is anything.
    pub keys: Vec<String>,
    /// What follows the keys of a script.
    pub arguments: usize,
}

impl Relay {
    /// A relay to the socket of a server.
    #[track_caller]
    pub fn to(server: &Path) -> Self {
        let dir = TempDir::new().expect("a directory");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread");
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            is_cut: watch::Sender::new(false),
            held_back: watch::Sender::new(HeldBack::Nothing),
            delay: AtomicU64::new(0),
            commands: Mutex::default(),
        });
        let bound = {
            let _inside = runtime.enter();
            UnixListener::bind(dir.path().join("relay.sock")).expect("a path of its own")
        };
        runtime.spawn(accept(bound, Arc::clone(&shared)));
        Self { dir, shared, runtime: Some(runtime) }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("relay.sock")
    }

    /// Ends all connections and lets no other come to be, or mends that.
    pub fn set_cut(&self, is_cut: bool) {
        self.shared.is_cut.send_replace(is_cut);
    }

    /// From now on this does not arrive, and no connection ends for that. What was held back arrives
    /// when it is no more, as TCP sends it again, unless its client has closed the connection.
    pub fn hold_back(&self, what: HeldBack) {
        self.shared.held_back.send_replace(what);
    }

    /// What follows takes so long in each direction.
    pub fn set_delay(&self, delay: Duration) {
        let delay = delay.as_millis().try_into().expect("a short delay");
        self.shared.delay.store(delay, Ordering::SeqCst);
    }

    /// The commands that have passed since the last call.
    pub fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *self.shared.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut cut = shared.is_cut.subscribe();
            tokio::select! {
                _ = cut.wait_for(|is_cut| *is_cut) => {}
                // Where one of both has gone, the other goes.
                _ = relay(client, &shared) => {}
            }
        });
    }
}

async fn relay(client: UnixStream, shared: &Shared) -> io::Result<()> {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = UnixStream::connect(&shared.server).await?.into_split();
    let mut passed = Vec::new();
    let note = |bytes: &[u8]| {
        passed.extend_from_slice(bytes);
        while let Some((command, length)) = parse(&passed) {
            passed.drain(..length);
            shared.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        }
    };
    tokio::select! {
        ended = pass(from_client, to_server, (shared, HeldBack::Requests), note) => ended,
        ended = pass(from_server, to_client, (shared, HeldBack::Replies), |_| {}) => ended,
    }
}

/// Passes bytes of this kind on, each a delay after it has come.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    (shared, kind): (&Shared, HeldBack),
    mut note: impl FnMut(&[u8]),
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return io::Result::Ok(());
            }
            note(&buffer[..count]);
            let delay = Duration::from_millis(shared.delay.load(Ordering::SeqCst));
            // The receiver lives as long as this.
            let _ = sender.send((
                Instant::from_std(courtesy::runtime::clock::monotonic()) + delay,
                buffer[..count].to_vec(),
            ));
        }
    };
    let mut held_back = shared.held_back.subscribe();
    let write = async {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep_until(due).await;
            // The relay, which has the other end, lives as long as this.
            let _ = held_back.wait_for(|what| *what != kind).await;
            to.write_all(&bytes).await?;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        ended = read => ended,
        ended = write => ended,
    }
}

/// The first command in `bytes` and its length, if it is whole: an array of strings.
fn parse(bytes: &[u8]) -> Option<(Command, usize)> {
    let mut at = 0;
    let count = number(bytes, &mut at)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(bytes, &mut at)?;
        let word = bytes.get(at..at + length)?;
        words.push(String::from_utf8_lossy(&word[..word.len().min(1 << 10)]).into_owned());
        bytes.get(at + length..at + length + 2)?;
        at += length + 2;
    }
    let (name, rest) = words.split_first()?;
    let is_script = name.starts_with("EVAL");
    let keys = match rest.get(1).filter(|_| is_script) {
        Some(count) => rest.get(2..2 + count.parse::<usize>().ok()?)?,
        None => rest.get(..1).unwrap_or_default(),
    };
    let arguments = if is_script { rest.len() - 2 - keys.len() } else { 0 };
    Some((Command { name: name.clone(), keys: keys.to_vec(), arguments }, at))
}

/// The number of a line, after the sign of its type.
fn number(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let rest = bytes.get(*at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(rest.get(1..end)?).ok()?.parse().ok()?;
    *at += end + 2;
    Some(number)
}
