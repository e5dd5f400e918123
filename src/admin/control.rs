//! The control socket: how a command of the same user asks the running proxy for what only that can
//! do: tell what it has in memory, and read its settings again. One question a connection, a line of JSON;
//! the answer is lines of JSON, the last of which says how it ended, so that a cut one is not taken
//! for a whole one. No public interface: both ends are of one version.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufWriter, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::guard::Guard;
use super::listener;
use super::parts::{CONTROL_TIMEOUT, MonitoredParts};
use crate::clients::Client;
use crate::pace::{LaneWaits, Lanes};
use crate::policy::profile::Profile;
use crate::runtime::files;
use crate::store::disk::{Each, Offline, OpenError, Stats};
use crate::store::{FetchWaits, Report, Store, Undecided};
use crate::types::origin::{Origin, split_url};

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    Store(StoreQuestion),
    /// To read the settings again. One item: what came of it.
    Reload,
    /// To let a browser see the console. One item: the link that does, once; none, where there is no console.
    Console,
    /// What waits now, and why: of each kind at most so many. One item, a [`WaitReport`].
    Waiting {
        max: usize,
    },
}

/// What waits at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitReport {
    /// For its time at a host.
    pub pace: LaneWaits,
    /// For a robots.txt.
    pub robots: FetchWaits,
}

/// Hosts, and fetches, of an answer at most: it is one line, which is bounded.
pub const WAITS_TOLD_MAX: usize = 200;

/// Where what came of a reload is to be told; sent to the thread that reloads, it asks for one.
pub type ReloadReply = oneshot::Sender<Value>;

/// What can be asked of the store, without a running proxy, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreQuestion {
    /// How much it has. One item.
    Stats,
    /// What is known of an origin. One item, or none.
    Get { origin: String },
    /// To forget an origin. One item: whether anything was known.
    Forget { origin: String },
    /// What is kept of each origin. An item for each.
    Export,
}

impl StoreQuestion {
    /// Whether it is about one origin, of which nothing is known where there is no store.
    pub const fn is_of_origin(&self) -> bool {
        matches!(self, Self::Get { .. } | Self::Forget { .. })
    }
}

/// What takes the items of an answer.
pub type Tell<'a> = &'a mut dyn FnMut(Value) -> io::Result<()>;

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Origins of which what is kept does not hold; they are left out.
    pub broken: u64,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("\"{origin}\" is no origin: {why}")]
    Origin { origin: String, why: String },
    #[error("nothing is kept on the disk (store.enabled is false)")]
    Disabled,
    #[error("cannot ask the running proxy")]
    Io(#[from] io::Error),
    #[error("the proxy stops")]
    Stopping,
    #[error("the running proxy answers: {0}")]
    Failed(String),
    /// The two are of different versions.
    #[error("the running proxy is not understood; is it of another version?")]
    Malformed(#[from] serde_json::Error),
    /// The receiver of the items failed.
    #[error(transparent)]
    Tell(io::Error),
}

/// A line of the answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Item(Value),
    /// The answer is whole.
    End(End),
    /// It is not, and this is why.
    Failed(String),
}

fn control_socket_path(state_dir: &Path) -> PathBuf {
    state_dir.join("control.sock")
}

/// Reads and changes the store: of a running proxy, or offline.
pub trait StoreAdmin {
    /// The amount of stored data.
    fn stats(&self) -> Result<Stats, ControlError>;
    /// What is stored of `origin`.
    fn get(&self, origin: &Origin) -> Result<Option<Report>, ControlError>;
    /// Removes what is stored of `origin`; returns whether there was anything.
    fn forget(&self, origin: &Origin) -> Result<bool, ControlError>;
    /// How many origins were left out, because what is kept of them does not hold.
    fn export(&self, each: Each<'_>) -> Result<u64, ControlError>;
}

/// Answers `question` item by item.
pub fn answer_question(
    question: &StoreQuestion,
    store: &dyn StoreAdmin,
    tell: Tell<'_>,
) -> Result<End, ControlError> {
    match question {
        StoreQuestion::Stats => item(store.stats()?, tell)?,
        StoreQuestion::Get { origin } => {
            if let Some(report) = store.get(&parse(origin)?)? {
                item(report, tell)?;
            }
        }
        StoreQuestion::Forget { origin } => item(store.forget(&parse(origin)?)?, tell)?,
        StoreQuestion::Export => {
            let broken = store.export(&mut |report| tell(serde_json::to_value(report)?))?;
            return Ok(End { broken });
        }
    }
    Ok(End::default())
}

fn item(item: impl Serialize, tell: Tell<'_>) -> Result<(), ControlError> {
    tell(serde_json::to_value(item)?).map_err(ControlError::Tell)
}

fn parse(text: &str) -> Result<Origin, ControlError> {
    let wrong = |why| ControlError::Origin { origin: text.into(), why };
    let (origin, _) = split_url(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    Ok(origin)
}

fn exported(exported: Result<io::Result<u64>, OpenError>) -> Result<u64, ControlError> {
    exported?.map_err(ControlError::Tell)
}

/// A running proxy.
#[derive(Clone, Debug)]
pub struct Running {
    pub store: Arc<Store>,
    pub lanes: Arc<Lanes>,
    reloads: mpsc::Sender<ReloadReply>,
    console: Option<Arc<Guard>>,
}

impl Running {
    /// Of these parts. It has not the rest of them: a conversation may outlive that.
    pub fn new(parts: &MonitoredParts, reloads: mpsc::Sender<ReloadReply>) -> Self {
        let (store, lanes) = (Arc::clone(&parts.store), Arc::clone(parts.egress.lanes()));
        Self { store, lanes, reloads, console: None }
    }

    /// Fetches a robots.txt, whatever was known of it. It is asked on a thread that may wait.
    ///
    /// # Errors
    ///
    /// Why it is undecided after that.
    pub fn fetch(&self, origin: &Origin) -> Result<(), Undecided> {
        let client = Client::at(Ipv4Addr::LOCALHOST.into());
        let profile = Arc::new(Profile::default());
        Handle::current().block_on(async {
            self.store.forget(origin).await;
            self.store.lookup(origin, &profile, None, &client).await.map(drop)
        })
    }

    fn answer(&self, question: &Question, tell: Tell<'_>) -> Result<End, ControlError> {
        match question {
            Question::Store(question) => return answer_question(question, self, tell),
            Question::Reload => item(self.reload().ok_or(ControlError::Stopping)?, tell)?,
            Question::Console => {
                if let Some(guard) = &self.console {
                    item(guard.link(), tell)?;
                }
            }
            Question::Waiting { max } => item(self.waits(*max), tell)?,
        }
        Ok(End::default())
    }

    /// What waits now, at most `max` of each kind.
    pub fn waits(&self, max: usize) -> WaitReport {
        let max = max.min(WAITS_TOLD_MAX);
        WaitReport { pace: self.lanes.waits(max), robots: self.store.waits(max) }
    }

    /// Waits until the settings have been read; `None`: they are not any more.
    pub fn reload(&self) -> Option<Value> {
        let (reply, report) = oneshot::channel();
        self.reloads.blocking_send(reply).ok()?;
        report.blocking_recv().ok()
    }
}

/// It is asked on a thread that may wait.
impl StoreAdmin for Running {
    /// The amount of stored data.
    fn stats(&self) -> Result<Stats, ControlError> {
        Ok(file(&self.store)?.stats()?)
    }

    /// What is stored of `origin`.
    fn get(&self, origin: &Origin) -> Result<Option<Report>, ControlError> {
        let look =
            async { (self.store.get(origin).await, self.store.get_from_engine(origin).await) };
        let (report, shared) = Handle::current().block_on(look);
        let is_shared = shared.as_ref().is_some_and(|it| it.known.is_some() || it.hold.is_some());
        let report = report.or_else(|| is_shared.then(|| Report::unknown(origin)));
        Ok(report.map(|report| Report { pace: self.lanes.view(origin), shared, ..report }))
    }

    /// Removes what is stored of `origin`; returns whether there was anything.
    fn forget(&self, origin: &Origin) -> Result<bool, ControlError> {
        let was_held = self.lanes.end_hold(origin);
        Ok(Handle::current().block_on(Store::forget(&self.store, origin)) || was_held)
    }

    fn export(&self, each: Each<'_>) -> Result<u64, ControlError> {
        exported(file(&self.store)?.export(each))
    }
}

/// The file, once all that was known before is in it.
fn file(store: &Store) -> Result<Offline, ControlError> {
    let disk = store.disk().ok_or(ControlError::Disabled)?;
    // Without it, it has what it has.
    let _ = Handle::current().block_on(disk.0.flush());
    disk.open().map_err(OpenError::from)?.ok_or(ControlError::Disabled)
}

impl StoreAdmin for Offline {
    /// The amount of stored data.
    fn stats(&self) -> Result<Stats, ControlError> {
        Ok(self.stats()?)
    }

    /// What is stored of `origin`.
    fn get(&self, origin: &Origin) -> Result<Option<Report>, ControlError> {
        Ok(self.get(origin)?)
    }

    /// Removes what is stored of `origin`; returns whether there was anything.
    fn forget(&self, origin: &Origin) -> Result<bool, ControlError> {
        Ok(self.forget(origin)?)
    }

    fn export(&self, each: Each<'_>) -> Result<u64, ControlError> {
        exported(self.export(each))
    }
}

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
    reloads: mpsc::Sender<ReloadReply>,
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
    /// Makes the socket, for this user alone. That of a process that has died is replaced. Who receives
    /// from `reloads` reads the settings again.
    pub fn bind(state_dir: &Path, reloads: mpsc::Sender<ReloadReply>) -> Result<Self, SocketError> {
        let path = control_socket_path(state_dir);
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
            Ok(listener) => Ok(Self { listener, path, reloads }),
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
pub(crate) async fn serve_control(
    socket: Socket,
    parts: Arc<MonitoredParts>,
    console: Option<Arc<Guard>>,
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
        let running =
            Running { console: console.clone(), ..Running::new(&parts, socket.reloads.clone()) };
        let stop = stop.clone();
        tasks.spawn(async move {
            if let Err(error) = converse(stream, running, stop).await {
                debug!("a conversation by the control socket ended: {error}");
            }
            drop(place);
        });
    };
    listener::accept_each("the control socket", &stop, accept, converse).await;
}

async fn converse(
    mut stream: tokio::net::UnixStream,
    running: Running,
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
    spawn_blocking(move || reply(&stream, &question, &running, &stop)).await?
}

async fn hear(stream: &mut tokio::net::UnixStream) -> io::Result<String> {
    let mut question = String::new();
    BufReader::new(stream.take(CONTROL_QUESTION_BYTES_MAX)).read_line(&mut question).await?;
    Ok(question)
}

fn reply(
    stream: &UnixStream,
    question: &str,
    running: &Running,
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
        Ok(question) => match running.answer(&question, &mut tell) {
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

/// Bytes of a line of the answer: what is known of one origin, under every profile.
const CONTROL_LINE_BYTES_MAX: u64 = 1 << 20;

/// Asks the proxy that runs with this state directory. `None` when none does.
pub fn ask_control(
    state_dir: &Path,
    question: &Question,
    tell: Tell<'_>,
) -> Result<Option<End>, ControlError> {
    let mut stream = match UnixStream::connect(control_socket_path(state_dir)) {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    stream.set_read_timeout(Some(CONTROL_TIMEOUT))?;
    stream.set_write_timeout(Some(CONTROL_TIMEOUT))?;
    stream.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let mut lines = io::BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.by_ref().take(CONTROL_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        match serde_json::from_slice(&line)? {
            Line::Item(item) => tell(item).map_err(ControlError::Tell)?,
            Line::End(end) => return Ok(Some(end)),
            Line::Failed(why) => return Err(ControlError::Failed(why)),
        }
    }
}

/// No socket, an unserved one, or a name too long for one: no proxy runs there.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::InvalidInput
    )
}

// The run file: a running proxy writes the address of its admin listener to it, so that `courtesy
// health` finds it even if the configuration file has changed or become wrong since.
// There is no secret in it: the token itself stays in its own file.

/// Bytes of the run file, in which a running proxy says where its admin listener is: two paths and a few numbers.
const RUN_FILE_BYTES_MAX: usize = 16 << 10;

/// The file's name in the state directory.
pub const FILE_NAME: &str = "serve.json";

/// What a running proxy says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// Where its admin listener is; none: `listen.admin` is "off".
    pub admin: Option<SocketAddr>,
    /// The id of its process.
    pub pid: u32,
    /// The file of the token that the listener asks for, absolute.
    pub token_file: Option<PathBuf>,
    pub version: String,
}

/// The file of this process, removed when it is dropped. One that another process has written since
/// stays.
#[derive(Debug)]
pub struct Written {
    path: PathBuf,
    content: Vec<u8>,
}

impl RunFile {
    /// What this process writes.
    pub fn of_this_process(admin: Option<SocketAddr>, token_file: Option<&Path>) -> Self {
        // Readers may have another working directory.
        let token_file =
            token_file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.into()));
        Self {
            admin,
            pid: std::process::id(),
            token_file,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Puts it into the state directory, whole: a reader sees all of it or the former one.
    ///
    /// # Errors
    ///
    /// What the system says of the directory.
    pub fn write(&self, state_dir: &Path) -> io::Result<Written> {
        let path = run_file_path(state_dir);
        let next = path.with_extension("json.new");
        let content = serde_json::to_vec(self)?;
        files::remove(&next)?;
        files::write_new(&next, &content, 0o644)?;
        fs::rename(&next, &path)?;
        Ok(Written { path, content })
    }

    /// The one in a state directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// What the system says, and [`ErrorKind::InvalidData`] where it is no run file.
    pub fn read(state_dir: &Path) -> io::Result<Option<Self>> {
        match files::read(&run_file_path(state_dir), RUN_FILE_BYTES_MAX) {
            Ok(content) => Ok(Some(serde_json::from_slice(&content)?)),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a process with its number runs on this machine. Another program may have been given the
    /// number since, and inside another container the proxy's is not seen.
    pub fn is_running(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // No permission to signal it: it is there.
        pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if files::read(&self.path, RUN_FILE_BYTES_MAX).is_ok_and(|content| content == self.content)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where it is.
pub fn run_file_path(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_port(port: u16) -> RunFile {
        RunFile::of_this_process(Some(([127, 0, 0, 1], port).into()), Some(Path::new("token")))
    }

    #[test]
    fn a_run_file_is_read_as_written_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(RunFile::read(dir.path()).unwrap(), None);
        let written = with_port(3129).write(dir.path()).unwrap();
        let read = RunFile::read(dir.path()).unwrap().unwrap();
        assert_eq!(read, with_port(3129));
        assert!(read.token_file.as_ref().unwrap().is_absolute() && read.is_running());
        drop(written);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_run_file_stays_for_a_later_process_and_is_replaced_after_a_dead_one() {
        let dir = tempfile::tempdir().unwrap();
        let first = with_port(3129).write(dir.path()).unwrap();
        fs::write(dir.path().join("serve.json.new"), "half of").unwrap();
        let _second = with_port(4129).write(dir.path()).unwrap();
        drop(first);
        assert_eq!(RunFile::read(dir.path()).unwrap(), Some(with_port(4129)));
    }

    #[test]
    fn what_is_no_run_file_is_an_error_and_no_address() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(run_file_path(dir.path()), "{\"admin\":").unwrap();
        assert!(RunFile::read(dir.path()).is_err());
        assert_eq!(RunFile::read(&dir.path().join("missing")).unwrap(), None);
        let gone = RunFile { pid: i32::MAX.cast_unsigned(), ..with_port(1) };
        assert!(!gone.is_running());
    }
}
