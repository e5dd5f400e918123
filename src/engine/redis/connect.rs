//! Finds the server, by its address or by the sentinels, and connects to it.

use super::connection::{Connection, Driver, Role, ServerInfo};
use super::hash_slots;
use super::reply::Parts;
use super::settings::{Address, RedisConfig};
use crate::engine::config::Config;
use crate::engine::error::{Error, ErrorKind};

/// A server that is ready for operations.
#[derive(Debug)]
pub(super) struct Opened {
    pub connection: Connection,
    pub driver: Driver,
    pub info: ServerInfo,
}

/// Connects to the primary at `address`, or to that of the settings: each time again, because the
/// role of a server changes.
pub(super) async fn open(
    address: Option<&Address>,
    config: &RedisConfig,
    own: &Config,
) -> Result<Opened, Error> {
    let found;
    let address = match (address, &config.sentinel) {
        (Some(address), _) => address,
        (None, None) => config.addresses.first().ok_or_else(no_address)?,
        (None, Some(primary)) => {
            found = ask_sentinels(primary, config, own).await?;
            &found
        }
    };
    let (connection, driver, role) = Connection::connect(address, config, own).await?;
    match role {
        Role::Replica => {
            return Err(ErrorKind::ReadOnly.with(format!("{address} has the role of a replica")));
        }
        Role::Sentinel => {
            return Err(ErrorKind::Settings.with(format!(
                "{address} is a sentinel: set engine.sentinel to the name of the primary"
            )));
        }
        Role::ClusterPrimary if !config.is_cluster => check_alone(&connection, address).await?,
        Role::Primary | Role::ClusterPrimary => {}
    }
    let info = connection.prepare().await?;
    Ok(Opened { connection, driver, info })
}

/// Checks that a node of a cluster has all slots, so that it can be spoken to as a single server.
/// One that may not be asked says `MOVED` later.
async fn check_alone(connection: &Connection, address: &Address) -> Result<(), Error> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let Ok(reply) = connection.request(command).await else { return Ok(()) };
    let nodes = hash_slots::ranges(reply, address).map(|ranges| hash_slots::nodes(&ranges).len());
    match nodes {
        Some(count) if count > 1 => Err(ErrorKind::Settings.with(format!(
            "{address} is one of the {count} primaries of a cluster: set engine.cluster = true"
        ))),
        _ => Ok(()),
    }
}

fn no_address() -> Error {
    ErrorKind::Connection.with("no address is set")
}

/// The address of the primary, from the first sentinel that has it.
async fn ask_sentinels(
    primary: &str,
    config: &RedisConfig,
    own: &Config,
) -> Result<Address, Error> {
    let mut last = ErrorKind::Sentinel.with("no address of a sentinel is set");
    // Each has its part of the time: one that does not respond is not to cost all of it.
    let parts = u32::try_from(config.addresses.len()).unwrap_or(u32::MAX).saturating_add(1);
    for sentinel in &config.addresses {
        let asked = ask_sentinel(sentinel, primary, config, own);
        match tokio::time::timeout(config.connect_timeout / parts, asked).await {
            Ok(Ok(address)) => return Ok(address),
            Ok(Err(error)) => last = error,
            Err(_) => last = ErrorKind::Sentinel.with(format!("{sentinel} does not respond")),
        }
    }
    Err(ErrorKind::Sentinel.with(last.detail))
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
