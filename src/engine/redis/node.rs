//! The task of one server: connects, runs what callers send, and leaves a server that fails alone
//! for a while.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::call::{Job, Parts};
use super::connection::{Connection, Driver, IN_FLIGHT_MAX, Role, ServerInfo};
use super::router::{self, Inbox, redirected};
use super::settings::{Address, RedisConfig};
use super::shared::Shared;
use crate::engine::Config;
use crate::engine::error::{Breaker, Error, ErrorKind};
use crate::runtime::clock::monotonic;

/// One server.
pub(super) struct Node {
    shared: Arc<Shared>,
    inbox: Inbox,
    breaker: Breaker,
}

/// Why a connection is given up.
enum End {
    Fault(Error),
    /// The settings have changed.
    Changed,
    /// No caller has the handle any more.
    Unused,
}

/// How calls end: with an error or without.
type Results = mpsc::UnboundedSender<Option<Error>>;

impl Node {
    pub(super) fn new(shared: Arc<Shared>, inbox: Inbox) -> Self {
        Self { shared, inbox, breaker: Breaker::default() }
    }

    /// Runs until no caller has the handle any more, or the server of the settings turns out to be
    /// one of several.
    pub(super) async fn run(mut self) {
        let mut changes = self.shared.changes.subscribe();
        let address = self.inbox.address.clone();
        loop {
            let opened = tokio::select! {
                opened = open_probed(&self.shared, address.as_ref()) => opened,
                () = self.inbox.refuse() => return,
            };
            let end = match opened {
                Ok(Some(opened)) => self.serve(opened, &mut changes).await,
                Ok(None) => return self.inbox.set_up(false),
                Err(error) => End::Fault(error),
            };
            let pause = match end {
                End::Fault(error) => self.down(error),
                End::Changed => continue,
                End::Unused => return,
            };
            tokio::select! {
                () = sleep(pause) => {}
                _ = changes.changed() => {}
                () = self.inbox.refuse() => return,
            }
        }
    }

    /// Runs calls on the connection until it is to be given up: returns why.
    async fn serve(&mut self, opened: Opened, changes: &mut watch::Receiver<u64>) -> End {
        let (connection, mut driver) = (Arc::new(opened.connection), opened.driver);
        let permits = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let (results, mut ended) = mpsc::unbounded_channel();
        self.inbox.set_up(true);
        self.shared.note_up();
        loop {
            tokio::select! {
                job = self.inbox.jobs.recv() => match job {
                    Some(job) => self.start(job, &connection, &permits, &results),
                    None => return End::Unused,
                },
                Some(result) = ended.recv() => {
                    if let Some(error) = self.note(result) {
                        return End::Fault(error);
                    }
                }
                _ = &mut driver => {
                    return End::Fault(connection.end());
                },
                _ = changes.changed() => return End::Changed,
            }
        }
    }

    fn start(
        &self,
        job: Job,
        connection: &Arc<Connection>,
        permits: &Arc<Semaphore>,
        results: &Results,
    ) {
        let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
            // The caller may have gone.
            let _ = job.reply.send(Err(ErrorKind::Full.with("too many are under way")));
            return;
        };
        let running = Running {
            shared: Arc::clone(&self.shared),
            connection: Arc::clone(connection),
            address: self.inbox.address.clone(),
            _permit: permit,
        };
        let results = results.clone();
        tokio::spawn(async move {
            if let Some(result) = running.run(job).await {
                // The connection may have been given up.
                let _ = results.send(result);
            }
        });
    }

    /// Returns why the connection is to be given up, if it is.
    fn note(&mut self, result: Option<Error>) -> Option<Error> {
        let is_over = result.as_ref().is_some_and(|error| ends_connection(error.kind));
        // What concerns single keys says nothing about the server.
        let of_keys = [ErrorKind::Moving, ErrorKind::WrongType];
        // A command that looks goes on, to name all rights that are missing.
        let is_named = |kind: ErrorKind| {
            of_keys.contains(&kind)
                || kind == ErrorKind::Permission && !self.shared.config.is_member
        };
        let is_failure = result.as_ref().is_some_and(|error| !is_named(error.kind));
        let opens = self.breaker.note(!is_failure);
        result.filter(|_| is_over || opens)
    }

    /// Leaves the server alone. Returns for how long.
    fn down(&mut self, error: Error) -> Duration {
        self.inbox.set_up(false);
        self.shared.stats.note_broken();
        self.shared.note_down(error);
        if self.inbox.address.is_some() {
            self.shared.router.refresh.notify_one();
        }
        let members = self.shared.members.lock().last().members;
        self.breaker.open(members, fastrand::f64())
    }
}

/// A call under way.
struct Running {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    address: Option<Address>,
    _permit: OwnedSemaphorePermit,
}

impl Running {
    /// How the call has ended; `None` if another node was named.
    async fn run(self, job: Job) -> Option<Option<Error>> {
        let sent = monotonic();
        let left = job.deadline.saturating_duration_since(sent);
        let result = timeout(left, self.connection.call(&job.call, job.is_asking)).await;
        let took = monotonic() - sent;
        let result: Result<Value, Error> = match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => match self.named(&error) {
                Some((address, is_asking)) => {
                    self.shared.router.redirect(job, &address, is_asking);
                    return None;
                }
                None => Err(self.connection.error_of(&error)),
            },
            Err(_) => Err(ErrorKind::Timeout.with(format!("no reply after {left:?}"))),
        };
        if result.is_ok() {
            self.shared.stats.note_time(job.call.operation, took);
            self.shared.note_round_trip(took);
        }
        let error = result.as_ref().err().cloned();
        // The caller may have gone.
        let _ = job.reply.send(result);
        Some(error)
    }

    /// The node that a node of a cluster names in its place.
    fn named(&self, error: &RedisError) -> Option<(Address, bool)> {
        let own = self.address.as_ref()?;
        let (address, _) = error.redirect_node()?;
        Some((redirected(address, own)?, error.code() == Some("ASK")))
    }
}

/// Connects, and probes with a heartbeat, which writes. A node of a cluster may not have the keys
/// of that, and a command that only reads sends none. `None`: see [`connect_primary`].
async fn open_probed(shared: &Shared, address: Option<&Address>) -> Result<Option<Opened>, Error> {
    let config = shared.redis.load_full();
    let open = async {
        let opened = connect_primary(address, &config, &shared.config).await?;
        let Some(opened) = opened else { return Ok(None) };
        let place = address.map(Address::to_string).unwrap_or_default();
        shared.note_server(&place, &opened.info);
        if address.is_none() && shared.is_member() {
            let (heartbeat, sent) = shared.heartbeat_call();
            let reply = opened.connection.call(&heartbeat, false).await.map_err(|error| {
                let error = opened.connection.error_of(&error);
                shared.note_heartbeat_error(&error);
                error
            })?;
            let heartbeat = shared.note_heartbeat(reply, sent);
            heartbeat.ok_or_else(|| ErrorKind::Protocol.with("heartbeat"))?;
        }
        Ok(Some(opened))
    };
    let late = |_| Err(ErrorKind::Timeout.with("the server is not ready in time"));
    timeout(config.connect_timeout(), open).await.unwrap_or_else(late)
}

/// Whether another connection may lead to a server that is well. A client that stayed would stay
/// with a demoted primary for ever.
const fn ends_connection(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Connection
            | ErrorKind::Settings
            | ErrorKind::Authentication
            | ErrorKind::ReadOnly
            | ErrorKind::Loading
            | ErrorKind::MasterDown
            | ErrorKind::ClusterDown
    )
}

/// A server that is ready for operations.
#[derive(Debug)]
pub(super) struct Opened {
    pub connection: Connection,
    pub driver: Driver,
    pub info: ServerInfo,
}

/// Connects to the primary at `address`, or to that of the settings: each time again, because the
/// role of a server changes. `None`: the settings name a cluster of several primaries.
async fn connect_primary(
    address: Option<&Address>,
    config: &RedisConfig,
    own: &Config,
) -> Result<Option<Opened>, Error> {
    let connect = |address: Address| async move {
        Connection::connect(&address, config, own).await.map(|connected| (address, connected))
    };
    let (count, is_named) =
        (config.addresses.len(), address.is_none() && config.sentinel.is_none());
    let part = config.connect_timeout() / u32::try_from(count).unwrap_or(u32::MAX).max(1);
    let (address, (connection, driver, role)) = match (address, &config.sentinel) {
        (Some(address), _) => connect(address.clone()).await?,
        (None, Some(primary)) => connect(ask_sentinels(primary, config, own).await?).await?,
        (None, None) => first_response(&config.addresses, part, connect).await?,
    };
    match role {
        Role::Cluster { is_replica } if is_named => {
            let is_one_of_several = is_replica
                || match connection.slots(&address).await {
                    Ok(ranges) => router::nodes(&ranges).len() > 1,
                    // Alone it can be used as a server; else it says `MOVED`.
                    Err(_) => count > 1,
                };
            if is_one_of_several {
                return Ok(None);
            }
        }
        Role::Replica | Role::Cluster { is_replica: true } => {
            return Err(ErrorKind::ReadOnly.with(format!("{address} has the role of a replica")));
        }
        Role::Sentinel => {
            return Err(ErrorKind::Settings.with(format!(
                "{address} is a sentinel: set engine.sentinel to the name of the primary"
            )));
        }
        Role::Primary if is_named && count > 1 => {
            return Err(ErrorKind::Settings.with(format!(
                "engine.url names {count} servers, and {address} is neither of a cluster nor a \
                 sentinel: name one server"
            )));
        }
        Role::Primary | Role::Cluster { .. } => {}
    }
    let info = connection.prepare().await?;
    Ok(Some(Opened { connection, driver, info }))
}

/// What the first of the addresses responds that does. Each has `limit`: one that does not respond
/// is not to cost all of the time.
pub(super) async fn first_response<'a, T, F: Future<Output = Result<T, Error>>>(
    addresses: impl IntoIterator<Item = &'a Address>,
    limit: Duration,
    ask: impl Fn(Address) -> F,
) -> Result<T, Error> {
    let mut last = ErrorKind::Connection.with("no address is set");
    for address in addresses {
        match timeout(limit, ask(address.clone())).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => last = error,
            Err(_) => last = ErrorKind::Timeout.with(format!("{address} does not respond")),
        }
    }
    Err(last)
}

/// The address of the primary, from the first sentinel that has it.
pub(super) async fn ask_sentinels(
    primary: &str,
    config: &RedisConfig,
    own: &Config,
) -> Result<Address, Error> {
    let parts = u32::try_from(config.addresses.len()).unwrap_or(u32::MAX).saturating_add(1);
    let ask =
        |sentinel: Address| async move { ask_sentinel(&sentinel, primary, config, own).await };
    let asked = first_response(&config.addresses, config.connect_timeout() / parts, ask).await;
    asked.map_err(|error| ErrorKind::Sentinel.with(error.detail))
}

async fn ask_sentinel(
    sentinel: &Address,
    primary: &str,
    config: &RedisConfig,
    own: &Config,
) -> Result<Address, Error> {
    let (connection, _driver) = Connection::connect_sentinel(sentinel, config, own).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(primary);
    let reply = connection.request(command).await?;
    let unknown = || ErrorKind::Sentinel.with(format!("{sentinel} does not know {primary:?}"));
    let mut parts = Parts::of(reply).ok_or_else(unknown)?;
    let host = parts.text().ok_or_else(unknown)?;
    let port = parts.number().and_then(|port| u16::try_from(port).ok()).ok_or_else(unknown)?;
    let is_tls = matches!(sentinel, Address::Tcp { is_tls: true, .. });
    Ok(Address::Tcp { host, port, is_tls })
}
