//! The engine that the settings name, and what it shares.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tracing::info;

use crate::config::{Settings, parse_servers};
use crate::engine::{
    self, Address, Password, RedisConfig, RedisEngine, SealKey, SealKeyError, ServerUrl,
    TlsConfigError, tls_config,
};
use crate::runtime::clock::Clock;
use crate::runtime::secret_file::{self, Found};

/// Why no engine can be built from the settings.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{setting} {path}: {reason}")]
    File { setting: &'static str, path: String, reason: String },
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    #[error("engine.seal_key_file: {0}")]
    Seal(#[from] SealKeyError),
    #[error("engine.cert and engine.key name a certificate and its key: set both, or none")]
    Client,
    #[error("the engine has no thread: {0}")]
    Thread(std::io::Error),
}

/// What the settings say of the engine, with the files that they name; `None`: there is none.
pub(super) fn client(settings: &Settings) -> Result<Option<RedisConfig>, EngineError> {
    let section = &settings.engine;
    let servers: Vec<ServerUrl> = match (&section.url_file, &section.url) {
        (Some(file), _) => {
            let text = secret("engine.url_file", file)?;
            let fault = |reason| file_error("engine.url_file", file, reason);
            parse_servers(&text).map_err(fault)?
        }
        (None, Some(url)) => url.servers().to_vec(),
        (None, None) => return Ok(None),
    };
    let [first, ..] = servers.as_slice() else { return Ok(None) };
    let password = match &section.password_file {
        Some(file) => Some(Password::new(secret("engine.password_file", file)?)),
        None => first.password.clone(),
    };
    let client = match (&section.cert, &section.key) {
        (Some(certificate), Some(key)) => Some((certificate.as_path(), key.as_path())),
        (None, None) => None,
        _ => return Err(EngineError::Client),
    };
    let is_tls = |server: &ServerUrl| matches!(server.address, Address::Tcp { is_tls: true, .. });
    let tls = if servers.iter().any(is_tls) {
        Some(tls_config(section.ca.as_deref(), client)?)
    } else {
        None
    };
    Ok(Some(RedisConfig {
        user: section.user.clone().or_else(|| first.user.clone()),
        password,
        sentinel: section.sentinel.clone(),
        is_cluster: section.cluster,
        tls,
        prefix: section.prefix.clone(),
        timeout: section.timeout,
        connect_timeout: section.connect_timeout,
        seal_key: section.seal_key_file.as_deref().map(SealKey::read).transpose()?,
        clock: None,
        addresses: servers.into_iter().map(|server| server.address).collect(),
    }))
}

/// Starts the engine of `client`.
pub(super) fn start(
    settings: &Settings,
    client: RedisConfig,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<RedisEngine>, EngineError> {
    let name = settings.engine.name.clone().unwrap_or_else(|| own_name(settings));
    let servers: Vec<_> = client.addresses.iter().map(ToString::to_string).collect();
    info!(name, servers = servers.join(","), "proxies with the same engine act as one");
    let backoff_max = settings.pace.backoff_max + settings.pace.backoff_max / 10;
    let config = engine::Config {
        settings: shared_settings(settings),
        keep: settings.engine.keep,
        hold_max: settings.pace.max_retry_after.max(backoff_max),
        file_max: usize::try_from(settings.robots.max_size).unwrap_or(usize::MAX),
        ..engine::Config::named(name)
    };
    let engine = RedisEngine::start(config, client, Arc::clone(clock));
    engine.map(Arc::new).map_err(EngineError::Thread)
}

/// The addresses of the servers, which no request may reach; those whose names are known now.
pub(super) fn addresses(client: &RedisConfig) -> Vec<SocketAddr> {
    let of = |address: &Address| match address {
        Address::Tcp { host, port, .. } => {
            (host.as_str(), *port).to_socket_addrs().map(Iterator::collect).unwrap_or_default()
        }
        Address::Unix(_) => Vec::new(),
    };
    client.addresses.iter().flat_map(of).collect()
}

/// The name of the host and four random letters: two proxies on one host have different names.
fn own_name(settings: &Settings) -> String {
    let random = ulid::Ulid::new().to_string().to_lowercase();
    format!("{}-{}", settings.node(), &random[random.len() - 4..])
}

/// The digest of the settings that are to be the same for all proxies.
fn shared_settings(settings: &Settings) -> [u8; 32] {
    let Settings { robots, origins, outage, pace, exemptions, .. } = settings;
    let shared = serde_json::to_vec(&(robots, origins, outage, pace, exemptions));
    Sha256::digest(shared.expect("settings are made of plain values")).into()
}

fn secret(setting: &'static str, file: &Path) -> Result<String, EngineError> {
    match secret_file::read_text(file) {
        Ok(Found::Content(text)) => Ok(text.trim_end().to_owned()),
        Ok(Found::Exposed) => {
            let reason = "others than its owner can read it; chmod 600".to_owned();
            Err(file_error(setting, file, reason))
        }
        Err(error) => Err(file_error(setting, file, error.to_string())),
    }
}

fn file_error(setting: &'static str, file: &Path, reason: String) -> EngineError {
    EngineError::File { setting, path: file.display().to_string(), reason }
}
