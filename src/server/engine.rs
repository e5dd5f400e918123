//! The engine that the settings name, and what it shares.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tracing::info;

use crate::config::{self, Settings, parse_servers};
use crate::engine::{
    self, Address, Engine, KeptRank, LocalConfig, LocalEngine, Password, Rank, RedisConfig,
    RedisEngine, SealKey, SealKeyError, ServerUrl, TlsConfigError, tls_config,
};
use crate::pace::hold::RETRY_AFTER_MAX;
use crate::runtime::clock::Clock;
use crate::runtime::files::{self, Found};

/// Random letters at the end of a name.
const LETTERS: usize = 4;

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
        tls,
        prefix: section.prefix.clone(),
        timeout: section.timeout,
        seal_key: section.seal_key_file.as_deref().map(SealKey::read).transpose()?,
        clock: None,
        addresses: servers.into_iter().map(|server| server.address).collect(),
    }))
}

/// An engine that looks at what the proxies share, and is no member; `None`: none is set. Its
/// operations may take as long as a connection may. With `scratch`, it is about keys of that name
/// below the prefix, which no proxy uses.
///
/// # Errors
///
/// A file that the settings name cannot be used.
pub fn observer(
    settings: &Settings,
    scratch: Option<&str>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<RedisEngine>>, EngineError> {
    let Some(mut client) = client(settings)? else { return Ok(None) };
    client.timeout = client.connect_timeout();
    if let Some(scratch) = scratch {
        client.prefix = format!("{}:{scratch}", client.prefix);
    }
    let name = own_name(settings);
    let config = engine::Config {
        is_member: false,
        settings: shared_settings(settings),
        ..engine::Config::named(name)
    };
    let engine = RedisEngine::start(config, client, Arc::clone(clock));
    engine.map(Arc::new).map(Some).map_err(EngineError::Thread)
}

/// Starts the engine of `client`; `rank_before`: what the process before has left of its rank. Without it,
/// of so many proxies as `engine.share` says, it is one of any rank.
pub(super) fn start(
    settings: &Settings,
    client: RedisConfig,
    rank_before: Option<KeptRank>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<RedisEngine>, EngineError> {
    let rank_before = rank_before.or_else(|| any_rank(settings.engine.share));
    // A process after a crash has the name of the one before, and takes over its rank.
    let kept = rank_before.as_ref().map(|kept| kept.name.clone());
    let kept = kept.filter(|name| is_name_of(name, settings.node().as_str()));
    let name = settings.engine.name.clone().or(kept).unwrap_or_else(|| own_name(settings));
    let servers: Vec<_> = client.addresses.iter().map(ToString::to_string).collect();
    info!(name, servers = servers.join(","), "proxies with the same engine act as one");
    let config = engine::Config { rank_before, ..config(settings, name) };
    let engine = RedisEngine::start(config, client, Arc::clone(clock));
    engine.map(Arc::new).map_err(EngineError::Thread)
}

/// The engine of the machine, which the processes of a state directory share.
pub(super) fn local(settings: &Settings, clock: &Arc<dyn Clock>) -> LocalEngine {
    let file = LocalConfig {
        state_dir: settings.shared_state_dir(),
        size_max: settings.store.max_size,
        clock: Arc::clone(clock),
    };
    LocalEngine::new(config(settings, settings.node().to_string()), file)
}

/// What every kind of engine has to know, for a process of this name.
fn config(settings: &Settings, name: String) -> engine::Config {
    engine::Config {
        settings: shared_settings(settings),
        hold_max: RETRY_AFTER_MAX,
        file_max: usize::try_from(settings.robots.max_size).unwrap_or(usize::MAX),
        process: format!("{:x}", ulid::Ulid::new().random() & 0xffff_ffff),
        ..engine::Config::named(name)
    }
}

/// The settings that name files of which `now` has other contents than `before`.
pub(super) fn changed_files(
    section: &config::Engine,
    before: &RedisConfig,
    now: &RedisConfig,
) -> Vec<&'static str> {
    let of_url = before.addresses != now.addresses || before.user != now.user;
    let of_password = before.password != now.password;
    let tls = |index: usize| {
        let digest = |it: &RedisConfig| it.tls.as_ref().map(|tls| tls.digests[index]);
        before.tls.is_some() && now.tls.is_some() && digest(before) != digest(now)
    };
    let (has_password, has_url) = (section.password_file.is_some(), section.url_file.is_some());
    let all = [
        ("engine.url_file", has_url && (of_url || of_password && !has_password)),
        ("engine.password_file", has_password && of_password),
        ("engine.ca", section.ca.is_some() && tls(0)),
        ("engine.cert", section.cert.is_some() && tls(1)),
        ("engine.key", section.key.is_some() && tls(2)),
        (
            "engine.seal_key_file",
            section.seal_key_file.is_some() && before.seal_key != now.seal_key,
        ),
    ];
    all.into_iter().filter(|(_, is_other)| *is_other).map(|(key, _)| key).collect()
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

/// The name of the node and four random letters: two proxies on one host have different names.
fn own_name(settings: &Settings) -> String {
    let random = ulid::Ulid::new().to_string().to_lowercase();
    format!("{}-{}", settings.node(), &random[random.len() - LETTERS..])
}

/// Whether the proxy of this name writes records with this node: it is named after it, with
/// random letters unless `engine.name` is set.
pub fn is_name_of(name: &str, node: &str) -> bool {
    let letters = name.strip_prefix(node).and_then(|rest| rest.strip_prefix('-'));
    name == node || letters.is_some_and(|letters| letters.len() == LETTERS)
}

/// The digest of the settings that are to be the same for all proxies.
fn shared_settings(settings: &Settings) -> [u8; 32] {
    let Settings { robots, origins, pace, exemptions, .. } = settings;
    let shared = serde_json::to_vec(&(robots, origins, pace, exemptions));
    Sha256::digest(shared.expect("settings are made of plain values")).into()
}

fn secret(setting: &'static str, file: &Path) -> Result<String, EngineError> {
    match files::read_text_of_group(file) {
        Ok(Found::Content(text)) => Ok(text.trim_end().to_owned()),
        Ok(Found::Exposed) => {
            let reason = "others than its owner and its group can read it; chmod 640".to_owned();
            Err(file_error(setting, file, reason))
        }
        Err(error) => Err(file_error(setting, file, error.to_string())),
    }
}

fn file_error(setting: &'static str, file: &Path, reason: String) -> EngineError {
    EngineError::File { setting, path: file.display().to_string(), reason }
}

/// A rank among so many proxies, of which nothing else is known; 0: none.
fn any_rank(proxies: u32) -> Option<KeptRank> {
    let highest = proxies.checked_sub(1)?;
    let rank = Rank { rank: fastrand::u32(..=highest), highest, is_settled: true };
    Some(KeptRank { name: String::new(), rank, clock_offset: 0 })
}

// This proxy among those that share the engine. Its rank is kept over a restart: one that starts while
// the engine is away goes on in its cells.

/// The engine, and the file that keeps the rank.
#[derive(Debug)]
pub(super) struct Membership {
    engine: Arc<dyn Engine>,
    file: Option<Arc<LocalEngine>>,
    name: String,
    /// What is in the file.
    kept: Option<KeptRank>,
}

/// Another distance between the clocks is worth a write.
const OFFSET_NOTICEABLE: u64 = 5000;

impl Membership {
    /// Of a process that has begun with `kept` of the file. The engine may have been reached since: its
    /// status says nothing of the file.
    pub(super) const fn new(
        engine: Arc<dyn Engine>,
        name: String,
        file: Option<Arc<LocalEngine>>,
        kept: Option<KeptRank>,
    ) -> Self {
        Self { engine, file, name, kept }
    }

    /// Writes the rank, where it has changed.
    pub(super) fn keep(&mut self) {
        let status = self.engine.status();
        let Some(rank) = status.rank.filter(|_| status.was_reached) else { return };
        let clock_offset = status.clock_offset.unwrap_or_default();
        let kept = KeptRank { name: self.name.clone(), rank, clock_offset };
        let is_other = self.kept.as_ref().is_none_or(|it| {
            it.rank != kept.rank || it.clock_offset.abs_diff(kept.clock_offset) > OFFSET_NOTICEABLE
        });
        if is_other {
            self.write(Some(kept));
        }
    }

    /// Gives the rank back: this proxy starts nothing more. Where the engine is away, the process after
    /// it goes on with the rank.
    pub(super) async fn leave(&mut self) {
        if self.engine.status().is_up {
            // Once it is given back, another may have it.
            self.write(None);
            let _ = self.engine.leave().await;
        }
    }

    fn write(&mut self, kept: Option<KeptRank>) {
        if let Some(file) = &self.file {
            file.keep_rank(kept.clone());
        }
        self.kept = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::engine::{Config, ManualEngineClock, MemoryEngine};
    use crate::runtime::clock::SystemClock;

    #[test]
    fn a_name_is_that_of_its_node_and_no_other() {
        let mut settings = Settings::default();
        settings.audit.node = Some("pod-7".parse().unwrap());
        assert!(is_name_of(&own_name(&settings), "pod-7"));
        settings.audit.node = None;
        settings.engine.name = Some("crawler".to_owned());
        assert!(is_name_of("crawler", settings.node().as_str()), "records name the proxy so, too");
        for (name, node, is_so) in [
            ("pod-7-ab1c", "pod-7", true),
            ("pod-7", "pod-7", true),
            ("pod-7-ab1c", "pod", false),
            ("pod-70-ab1c", "pod-7", false),
            ("pod-7-", "pod-7", false),
        ] {
            assert_eq!(is_name_of(name, node), is_so, "{name}");
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_compared_with_the_file_and_not_with_the_engine() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { state_dir: dir.path().to_owned(), ..Settings::default() };
        let file = || Arc::new(local(&settings, &(Arc::new(SystemClock) as Arc<dyn Clock>)));
        // It joins a cluster that is complete, and has reached it before this begins.
        let first =
            MemoryEngine::new(Config::named("a"), ManualEngineClock::starting_at(1_000_000));
        let third = first.beside(Config::named("c"));
        for engine in [&first, &first.beside(Config::named("b")), &third] {
            engine.heartbeat().await.unwrap();
        }
        assert_eq!(third.status().members, 3);
        Membership::new(Arc::new(third), "c".to_owned(), Some(file()), None).keep();
        let (_, _, rank) = file().begin_lanes().expect("the file can be used");
        let rank = rank.expect("a rank").rank;
        assert_eq!((rank.rank, rank.width()), (2, 4));
    }
}
