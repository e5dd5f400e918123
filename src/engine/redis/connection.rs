//! One connection to one server, ready for operations.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use tokio_util::task::AbortOnDropHandle;

use super::call::{Act, Call};
use super::reply::{self, Parts};
use super::script::Script;
use super::server_error::{error_of, is_no_script};
use super::settings::{Address, RedisConfig};
use super::stream::{self, StreamFault};
use crate::engine::clock::Micros;
use crate::engine::config::Config;
use crate::engine::error::{Error, ErrorKind};
use crate::engine::format;
use crate::engine::lookup::KNOWN_BYTES_MAX;
use crate::runtime::clock::monotonic;
use crate::runtime::lock::Lock;

/// Commands under way on a connection, and those that wait for it. Each is about a kilobyte.
pub(super) const IN_FLIGHT_MAX: usize = 1024;

/// Bytes of a reply beside its longest value: with the default settings it has 1.2 MiB in all.
const REPLY_REST: usize = 64 << 10;

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
    ) -> Result<(Self, Driver, Role), Error> {
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
        let (stream, fault) = stream::connect(address, config, reply_max(own)).await?;
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
        let info = reply::bytes(info).and_then(|text| String::from_utf8(text).ok());
        let info = info.ok_or_else(|| ErrorKind::Protocol.with("INFO"))?;
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or("").trim()
        };
        if field("loading") == "1" {
            return Err(ErrorKind::Loading.with("the server reads its data"));
        }
        let before = monotonic();
        let now = reply::time(self.request(redis::cmd("TIME")).await?);
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
        let digest = reply::bytes(self.send(&load).await?).unwrap_or_default();
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
    /// The same, of a cluster.
    ClusterPrimary,
    Replica,
    Sentinel,
}

impl Role {
    /// From the reply to `HELLO`, names and values in turn.
    fn of(reply: Value) -> Option<Self> {
        let (mut parts, mut is_replica, mut mode) = (Parts::of(reply)?, false, Vec::new());
        while let Some(name) = parts.value() {
            let value = parts.value()?;
            match &*reply::bytes(name)? {
                // Sentinels name no role.
                b"role" => is_replica = reply::bytes(value)? != b"master",
                b"mode" => mode = reply::bytes(value)?,
                _ => {}
            }
        }
        Some(match &*mode {
            _ if is_replica => Self::Replica,
            b"sentinel" => Self::Sentinel,
            b"cluster" => Self::ClusterPrimary,
            _ => Self::Primary,
        })
    }
}
