//! The proxy's end of the control socket.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::super::accept;
use super::super::parts::MonitoredParts;
use super::{Line, Running, answer, path};
use crate::admin::limits::CONTROL_TIMEOUT;

/// Conversations by the control socket at one time; one more waits to be accepted.
const CONTROL_CONNECTIONS_MAX: usize = 4;

/// Bytes of a question by the control socket: an origin, and what stands around it.
const CONTROL_QUESTION_BYTES_MAX: u64 = 4 << 10;

/// Bytes that a socket's name has room for (sun_path of unix(7), without its end).
const PATH_BYTES_MAX: usize = 107;

/// The socket, bound and not served yet; its file goes when it is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// Why commands cannot ask this proxy.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{} is too long for a socket, which has {PATH_BYTES_MAX} bytes: choose a shorter state_dir", .0.display())]
    TooLong(PathBuf),
    #[error("the socket {} cannot be made: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Socket {
    /// Makes the socket, for this user alone. That of a process that has died is replaced.
    pub fn bind(state_dir: &Path) -> Result<Self, SocketError> {
        let path = path(state_dir);
        if path.as_os_str().as_bytes().len() > PATH_BYTES_MAX {
            return Err(SocketError::TooLong(path));
        }
        let bound = remove_stale(&path).and_then(|()| {
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => Ok(Self { listener, path }),
            Err(source) => Err(SocketError::Io { path, source }),
        }
    }
}

/// Removes a socket without a server; any other file stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => return Err(ErrorKind::AlreadyExists.into()),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Accepts until shutdown. Each answer has a thread of the blocking pool, because reading the
/// store takes one anyway.
pub(crate) async fn serve(
    socket: Socket,
    parts: Arc<MonitoredParts>,
    tasks: TaskTracker,
    stop: CancellationToken,
) {
    let listener = match socket.listener.try_clone().and_then(tokio::net::UnixListener::from_std) {
        Ok(listener) => listener,
        Err(error) => return warn!("the control socket cannot be served: {error}"),
    };
    let places = Arc::new(Semaphore::new(CONTROL_CONNECTIONS_MAX));
    let accept = || async {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        Ok((listener.accept().await?.0, place))
    };
    let converse = |(stream, place)| {
        // Not the rest of what is parts: a conversation may outlive it.
        let lanes = Arc::clone(parts.egress.lanes());
        let store = Running { store: Arc::clone(&parts.store), lanes };
        let stop = stop.clone();
        tasks.spawn(async move {
            if let Err(error) = converse(stream, store, stop).await {
                debug!("a conversation by the control socket ended: {error}");
            }
            drop(place);
        });
    };
    accept::each("the control socket", &stop, accept, converse).await;
}

async fn converse(
    mut stream: tokio::net::UnixStream,
    store: Running,
    stop: CancellationToken,
) -> io::Result<()> {
    // Between the making of the socket and its permissions is a moment.
    let peer = stream.peer_cred()?.uid();
    if peer != rustix::process::geteuid().as_raw() && peer != 0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    // Waiting for a question takes no thread, and ends at shutdown.
    let question = tokio::select! {
        question = timeout(CONTROL_TIMEOUT, hear(&mut stream)) => question??,
        () = stop.cancelled() => return Ok(()),
    };
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CONTROL_TIMEOUT))?;
    spawn_blocking(move || reply(&stream, &question, &store, &stop)).await?
}

async fn hear(stream: &mut tokio::net::UnixStream) -> io::Result<String> {
    let mut question = String::new();
    BufReader::new(stream.take(CONTROL_QUESTION_BYTES_MAX)).read_line(&mut question).await?;
    Ok(question)
}

fn reply(
    stream: &UnixStream,
    question: &str,
    store: &Running,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut out = BufWriter::new(stream);
    let mut tell = |item: Value| {
        if stop.is_cancelled() {
            return Err(io::Error::other("the proxy stops"));
        }
        write_line(&mut out, &Line::Item(item))
    };
    let end = match serde_json::from_str(question) {
        Ok(question) => match answer(&question, store, &mut tell) {
            Ok(end) => Line::End(end),
            Err(error) => Line::Failed(error.to_string()),
        },
        Err(error) => Line::Failed(format!("the question is not understood: {error}")),
    };
    write_line(&mut out, &end)?;
    out.flush()
}

fn write_line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
