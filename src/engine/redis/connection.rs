//! One connection to one server, ready for operations.

use std::error::{self, Error as _};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind as RedisKind, RedisConnectionInfo, RedisError, Value,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::call::{self, Act, Call, Parts, Script};
use super::reply_meter::ReplyMeter;
use super::router::{Ranges, ranges};
use super::settings::{Address, RedisConfig};
use crate::engine::clock::Micros;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::{Config, KNOWN_BYTES_MAX, format};
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;
use crate::types::sanitize;

/// Commands under way on a connection, and those that wait for it. Each is about a kilobyte.
pub(super) const IN_FLIGHT_MAX: usize = 1024;

/// Bytes of a reply beside its longest value: with the default settings it has 1.2 MiB in all.
const REPLY_REST: usize = 64 << 10;

/// A connection, the task that moves its bytes, and what the server is.
pub(super) type Connected = (Connection, Driver, Role);

/// A connection on which users are authenticated. It never connects again.
#[derive(Debug)]
pub(super) struct Connection {
    connection: MultiplexedConnection,
    /// The names of the scripts that the server has loaded.
    digests: Lock<Vec<String>>,
    /// Why the stream has ended, if the server has sent what no server of this kind sends.
    fault: StreamFault,
}

/// What a server says of itself.
#[derive(Debug)]
pub(super) struct ServerInfo {
    /// Another one after each start of the server.
    pub run: String,
    /// Its kind and version.
    pub server: String,
    pub may_evict: bool,
    /// Its time, and how long it took to say so.
    pub now: Micros,
    /// From the request for the time to its reply.
    pub took: Duration,
}

/// The task that moves the bytes; it ends with the connection.
pub(super) type Driver = AbortOnDropHandle<()>;

impl Connection {
    /// Connects and authenticates; the name of `own` is how the server lists the connection.
    pub(super) async fn connect(
        address: &Address,
        config: &RedisConfig,
        own: &Config,
    ) -> Result<Connected, Error> {
        let (connection, driver) = Self::raw(address, config, own).await?;
        let hello = connection.hello(config, &own.name, config.password.is_some()).await;
        let role = hello.map_err(|error| maybe_tls(address, error))?;
        Ok((connection, driver, role))
    }

    /// The same for a sentinel, which seldom has a password.
    pub(super) async fn connect_sentinel(
        address: &Address,
        config: &RedisConfig,
        own: &Config,
    ) -> Result<(Self, Driver), Error> {
        let (connection, driver) = Self::raw(address, config, own).await?;
        let first = connection.hello(config, "sentinel-client", false).await;
        match first {
            Err(error) if error.kind == ErrorKind::Authentication => {
                connection.hello(config, "sentinel-client", true).await?;
            }
            other => drop(other.map_err(|error| maybe_tls(address, error))?),
        }
        Ok((connection, driver))
    }

    async fn raw(
        address: &Address,
        config: &RedisConfig,
        own: &Config,
    ) -> Result<(Self, Driver), Error> {
        let (stream, fault) = connect_stream(address, config, reply_max(own)).await?;
        // The client library sends no commands of its own: the error of a command below names what
        // the server refuses.
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let settings = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(IN_FLIGHT_MAX);
        let made = MultiplexedConnection::new_with_config(&info, stream, settings).await;
        let (connection, driver) = made.map_err(|error| error_of(&error))?;
        let driver = AbortOnDropHandle::new(tokio::spawn(driver));
        Ok((Self { connection, digests: Lock::default(), fault }, driver))
    }

    async fn hello(&self, config: &RedisConfig, name: &str, auth: bool) -> Result<Role, Error> {
        let mut hello = redis::cmd("HELLO");
        hello.arg(2);
        if auth && let Some(password) = &config.password {
            let user = config.user.as_deref().unwrap_or("default");
            hello.arg("AUTH").arg(user).arg(password.text());
        }
        let name: String =
            name.chars().map(|it| if it.is_ascii_graphic() { it } else { '-' }).collect();
        hello.arg("SETNAME").arg(format!("courtesy:{name}"));
        let reply = self.request(hello).await?;
        Role::of(reply).ok_or_else(|| ErrorKind::Protocol.with("HELLO"))
    }

    /// Prepares for operations: asks who the server is, and loads the scripts.
    pub(super) async fn prepare(&self) -> Result<ServerInfo, Error> {
        let info = self.request(redis::cmd("INFO")).await?;
        let info = call::bytes(info).and_then(|text| String::from_utf8(text).ok());
        let info = info.ok_or_else(|| ErrorKind::Protocol.with("INFO"))?;
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or("").trim()
        };
        if field("loading") == "1" {
            return Err(ErrorKind::Loading.with("the server reads its data"));
        }
        let before = monotonic();
        let now = call::time(self.request(redis::cmd("TIME")).await?);
        let took = monotonic() - before;
        for script in Script::ALL {
            self.load(script).await.map_err(|error| self.error_of(&error))?;
        }
        let (valkey, version) = (field("valkey_version"), field("redis_version"));
        Ok(ServerInfo {
            run: format!("{} {}", field("run_id"), field("role")),
            server: if valkey.is_empty() {
                format!("redis {version}")
            } else {
                format!("valkey {valkey}")
            },
            may_evict: field("maxmemory") != "0" && field("maxmemory_policy") != "noeviction",
            now: now.ok_or_else(|| ErrorKind::Protocol.with("TIME"))?,
            took,
        })
    }

    /// The slots of the cluster that the server at `address` is of.
    pub(super) async fn slots(&self, address: &Address) -> Result<Ranges, Error> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let reply = self.request(command).await?;
        ranges(reply, address)
            .ok_or_else(|| ErrorKind::ClusterDown.with(format!("{address} knows no slots")))
    }

    /// The reply to a command.
    pub(super) async fn request(&self, command: Cmd) -> Result<Value, Error> {
        self.send(&command).await.map_err(|error| self.error_of(&error))
    }

    /// What an error means: where the stream has ended by a fault of the server, that.
    pub(super) fn error_of(&self, error: &RedisError) -> Error {
        self.fault.get().cloned().unwrap_or_else(|| error_of(error))
    }

    /// Why the stream has ended.
    pub(super) fn end(&self) -> Error {
        self.fault.get().cloned().unwrap_or_else(|| ErrorKind::Connection.with("connection lost"))
    }

    /// The reply to a call. A script that the server has lost is loaded again.
    pub(super) async fn call(&self, call: &Call, is_asking: bool) -> Result<Value, RedisError> {
        let Act::Script(script) = call.act else {
            return self.send_once(&call.packed(""), is_asking).await;
        };
        let digest = self.digests.lock().get(script.index()).cloned().unwrap_or_default();
        match self.send_once(&call.packed(&digest), is_asking).await {
            Err(error) if is_no_script(&error) => {
                let digest = self.load(script).await?;
                self.send_once(&call.packed(&digest), is_asking).await
            }
            result => result,
        }
    }

    async fn load(&self, script: Script) -> Result<String, RedisError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.source());
        let digest = call::bytes(self.send(&load).await?).unwrap_or_default();
        let digest = String::from_utf8_lossy(&digest).into_owned();
        let mut digests = self.digests.lock();
        digests.resize(Script::ALL.len(), String::new());
        digests[script.index()].clone_from(&digest);
        Ok(digest)
    }

    async fn send_once(&self, command: &Cmd, is_asking: bool) -> Result<Value, RedisError> {
        if !is_asking {
            return self.send(command).await;
        }
        let mut pipeline = redis::pipe();
        pipeline.add_command(redis::cmd("ASKING")).add_command(command.clone());
        let mut replies = self.connection.clone().send_packed_commands(&pipeline, 0, 2).await?;
        replies.pop().unwrap_or_default().extract_error()
    }

    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.connection.clone().send_packed_command(command).await?.extract_error()
    }
}

/// A connection for what is published, authenticated.
pub(super) async fn push_connection(
    address: &Address,
    config: &RedisConfig,
    own: &Config,
) -> Result<PubSub, Error> {
    let (stream, _) = connect_stream(address, config, reply_max(own)).await?;
    let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(password) = &config.password {
        info = info.set_username(config.user.as_deref().unwrap_or("default"));
        info = info.set_password(password.text());
    }
    PubSub::new(&info, stream).await.map_err(|error| error_of(&error))
}

/// The longest reply that an operation asks for: what is known of an origin, or a file; or a step of
/// the heads of logs.
fn reply_max(own: &Config) -> usize {
    format::stored_max(KNOWN_BYTES_MAX.max(own.file_max)) + REPLY_REST
}

/// A server that speaks TLS alone closes a connection that begins otherwise, without a word.
fn maybe_tls(address: &Address, error: Error) -> Error {
    match address {
        Address::Tcp { is_tls: false, .. } if error.kind == ErrorKind::Connection => {
            error.kind.with(format!(
                "{address} closed the connection at the first command ({}): if it speaks TLS, write \
                 rediss:// in engine.url",
                error.detail
            ))
        }
        _ => error,
    }
}

/// What a server is among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    Replica,
    /// A node of a cluster.
    Cluster {
        is_replica: bool,
    },
    Sentinel,
}

impl Role {
    /// From the reply to `HELLO`, names and values in turn.
    fn of(reply: Value) -> Option<Self> {
        let (mut parts, mut is_replica, mut mode) = (Parts::of(reply)?, false, Vec::new());
        while let Some(name) = parts.value() {
            let value = parts.value()?;
            match &*call::bytes(name)? {
                // Sentinels name no role.
                b"role" => is_replica = call::bytes(value)? != b"master",
                b"mode" => mode = call::bytes(value)?,
                _ => {}
            }
        }
        Some(match &*mode {
            b"sentinel" => Self::Sentinel,
            b"cluster" => Self::Cluster { is_replica },
            _ if is_replica => Self::Replica,
            _ => Self::Primary,
        })
    }
}

// The bytes to and from a server: TCP, TLS over it, or a Unix socket; what comes are replies, each
// of a bounded length.

/// Bytes in both directions.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Why a stream gave no more bytes, where it was not the network.
pub(super) type StreamFault = Arc<OnceLock<Error>>;

/// Connects. A reply of more than `reply_max` bytes, and what is no reply, ends the stream; the
/// fault says why.
pub(super) async fn connect_stream(
    address: &Address,
    config: &RedisConfig,
    reply_max: usize,
) -> Result<(Replies, StreamFault), Error> {
    let failed = |error: io::Error| ErrorKind::Connection.with(format!("{address}: {error}"));
    let stream: Box<dyn Stream> = match address {
        Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(failed)?),
        Address::Tcp { host, port, is_tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            if *is_tls { secure(stream, address, host, config).await? } else { Box::new(stream) }
        }
    };
    let fault = StreamFault::default();
    let (meter, address) = (ReplyMeter::new(reply_max), address.clone());
    Ok((Replies { stream, meter, address, fault: Arc::clone(&fault) }, fault))
}

async fn secure(
    stream: TcpStream,
    address: &Address,
    host: &str,
    config: &RedisConfig,
) -> Result<Box<dyn Stream>, Error> {
    let failed = |reason: String| ErrorKind::Tls.with(format!("{host}: {reason}"));
    let tls = config.tls.as_ref().ok_or_else(|| failed("TLS is not set up".to_owned()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
    // Part of the time to connect: a server without TLS may wait for the end of a line.
    let limit = config.connect_timeout().mul_f64(0.75);
    let handshake = TlsConnector::from(Arc::clone(&tls.client)).connect(name, stream);
    match timeout(limit, handshake).await {
        Ok(Ok(secured)) => Ok(Box::new(secured)),
        Ok(Err(error)) if is_other_protocol(&error) => Err(no_tls(address, None)),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(no_tls(address, Some(limit))),
    }
}

/// Whether what came was no TLS at all.
fn is_other_protocol(error: &io::Error) -> bool {
    let source = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
    matches!(source, Some(rustls::Error::InvalidMessage(_)))
}

fn no_tls(address: &Address, waited: Option<Duration>) -> Error {
    let said = waited.map_or_else(
        || "does not speak TLS".to_owned(),
        |waited| format!("has not answered the TLS handshake within {waited:?}"),
    );
    ErrorKind::Settings.with(format!(
        "{address} {said}: write redis:// in engine.url, or the port on which the server speaks TLS"
    ))
}

/// The stream of one connection.
pub(super) struct Replies {
    stream: Box<dyn Stream>,
    meter: ReplyMeter,
    address: Address,
    fault: StreamFault,
}

impl AsyncRead for Replies {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        match self.meter.read(&buf.filled()[before..]) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(fault) => {
                let error = fault.of_server(&self.address);
                let text = error.to_string();
                // The first one is the cause.
                let _ = self.fault.set(error);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
            }
        }
    }
}

impl AsyncWrite for Replies {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An error's text is shown up to this length.
const DETAIL_BYTES_MAX: usize = 300;

/// The first words of errors, and what they mean. Before Redis 7 a script's error has them within.
const CODES: [(&str, ErrorKind); 17] = [
    ("LATE", ErrorKind::Late),
    ("NOAUTH", ErrorKind::Authentication),
    ("WRONGPASS", ErrorKind::Authentication),
    ("NOPERM", ErrorKind::Permission),
    ("OOM", ErrorKind::Memory),
    ("MISCONF", ErrorKind::Persistence),
    ("NOREPLICAS", ErrorKind::Persistence),
    ("BUSY", ErrorKind::Busy),
    ("READONLY", ErrorKind::ReadOnly),
    ("LOADING", ErrorKind::Loading),
    ("MASTERDOWN", ErrorKind::MasterDown),
    ("CLUSTERDOWN", ErrorKind::ClusterDown),
    ("TRYAGAIN", ErrorKind::Moving),
    ("WRONGTYPE", ErrorKind::WrongType),
    ("CROSSSLOT", ErrorKind::Protocol),
    ("MOVED", ErrorKind::Settings),
    ("ASK", ErrorKind::Settings),
];

/// What servers of another kind than the settings say answer with, in lower case, and what to do.
const OTHER_KINDS: [(&str, &str); 5] = [
    ("moved ", "the server is a node of a cluster: allow its user CLUSTER SLOTS"),
    ("ask ", "the server is a node of a cluster: allow its user CLUSTER SLOTS"),
    ("cluster support disabled", "the server is of no cluster: engine.url must name nodes of one"),
    ("unknown command `sentinel`", "the server is no sentinel: remove engine.sentinel"),
    ("unknown command 'sentinel'", "the server is no sentinel: remove engine.sentinel"),
];

/// What a script says of a user without rights to its commands or keys.
const NO_RIGHTS: [&str; 3] =
    ["can't run this command", "can't access at least one", "has no permissions"];

/// As the client holds what an error comes of.
type SharedError = Arc<dyn error::Error + Send + Sync>;

/// The error, with the server's own words.
pub(super) fn error_of(error: &RedisError) -> Error {
    let code = error.code().unwrap_or("");
    let detail = error.detail().unwrap_or("");
    let text = match (code, detail) {
        ("", _) => error.to_string(),
        (code, detail) => format!("{code} {detail}"),
    };
    let text = sanitize::text(text.as_bytes(), DETAIL_BYTES_MAX);
    let said = text.to_lowercase();
    if let Some((_, remedy)) = OTHER_KINDS.iter().find(|(words, _)| says(&said, words)) {
        return ErrorKind::Settings.with(format!("{text}: {remedy}"));
    }
    kind_of(error, code, detail).with(text)
}

/// Whether it has these words; a code, which a blank follows, as its first.
fn says(said: &str, words: &str) -> bool {
    if words.ends_with(' ') { said.starts_with(words) } else { said.contains(words) }
}

fn kind_of(error: &RedisError, code: &str, detail: &str) -> ErrorKind {
    if let Some((_, kind)) = CODES.iter().find(|(word, _)| *word == code) {
        return *kind;
    }
    if NO_RIGHTS.iter().any(|words| detail.contains(words)) {
        return ErrorKind::Permission;
    }
    let within = |word: &str| detail.split([' ', '-', ':']).any(|part| part == word);
    if let Some((_, kind)) = CODES.iter().find(|(word, _)| code == "ERR" && within(word)) {
        return *kind;
    }
    match error.kind() {
        _ if is_tls(error) => ErrorKind::Tls,
        _ if error.is_timeout() => ErrorKind::Timeout,
        RedisKind::Io => ErrorKind::Connection,
        RedisKind::AuthenticationFailed => ErrorKind::Authentication,
        _ => ErrorKind::Protocol,
    }
}

/// Whether it is of TLS: with version 1.3 a server refuses a certificate after the handshake.
fn is_tls(error: &RedisError) -> bool {
    let shared = error.source().and_then(|source| source.downcast_ref::<SharedError>());
    let source = shared.and_then(|shared| shared.downcast_ref::<io::Error>());
    let within = source.and_then(io::Error::get_ref);
    within.is_some_and(|within| within.downcast_ref::<rustls::Error>().is_some())
}

/// Whether the script is not loaded.
pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(reply: &str) -> ErrorKind {
        let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        error_of(&value.extract_error().unwrap_err()).kind
    }

    #[test]
    fn what_a_server_says_has_a_kind() {
        let cases = [
            ("NOAUTH Authentication required.", ErrorKind::Authentication),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                ErrorKind::Authentication,
            ),
            (
                "NOPERM this user has no permissions to run the 'info' command",
                ErrorKind::Permission,
            ),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorKind::Memory),
            ("MISCONF Redis is configured to save RDB snapshots", ErrorKind::Persistence),
            ("BUSY Redis is busy running a script.", ErrorKind::Busy),
            ("READONLY You can't write against a read only replica.", ErrorKind::ReadOnly),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Loading),
            ("MASTERDOWN Link with MASTER is down", ErrorKind::MasterDown),
            ("CLUSTERDOWN Hash slot not served", ErrorKind::ClusterDown),
            ("WRONGTYPE Operation against a key", ErrorKind::WrongType),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorKind::Moving),
            // Redis 6.2, within a script.
            (
                "ERR Error running script (call to f_4a): @user_script: 1: -READONLY You can't write",
                ErrorKind::ReadOnly,
            ),
            (
                "ERR Error running script (call to f_4a): @user_script:1: -OOM command not allowed",
                ErrorKind::Memory,
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: 4a",
                ErrorKind::Permission,
            ),
            ("ERR unknown command 'HELLO'", ErrorKind::Protocol),
            ("MOVED 3999 127.0.0.1:6381", ErrorKind::Settings),
            ("ASK 3999 127.0.0.1:6381", ErrorKind::Settings),
            ("ERR This instance has cluster support disabled", ErrorKind::Settings),
            (
                "ERR unknown command 'SENTINEL', with args beginning with: 'GET'",
                ErrorKind::Settings,
            ),
        ];
        for (reply, expected) in cases {
            assert_eq!(kind(reply), expected, "{reply}");
        }
    }

    #[test]
    fn the_words_of_the_server_are_kept_and_made_fit_to_show() {
        let value = redis::parse_redis_value(b"-OOM full\x1b[31m of keys\r\n").unwrap();
        let error = error_of(&value.extract_error().unwrap_err());
        assert!(!error.to_string().contains('\x1b'), "{error}");
        assert!(error.to_string().starts_with("out of memory: OOM full"), "{error}");
    }
}
