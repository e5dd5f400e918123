//! Where the servers are, and how they are reached.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use super::tls_config::TlsConfig;
use crate::engine::clock::EngineClock;
use crate::engine::seal::SealKey;

/// The port of Redis, and that of its sentinels.
const PORT: u16 = 6379;

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Tcp { host: String, port: u16, is_tls: bool },
    Unix(PathBuf),
}

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// What `engine.url` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    pub address: Address,
    pub user: Option<String>,
    pub password: Option<Password>,
}

/// Why a text is no URL of a server. The message repeats none of it: it may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerUrlError {
    #[error("not a URL")]
    Malformed,
    #[error("its scheme is none of redis, rediss and redis+unix")]
    Scheme,
    #[error("it names no host")]
    Host,
    #[error("it names a database; the prefix keeps data sets apart")]
    Database,
    #[error("it names no socket")]
    Socket,
}

/// The settings of the client.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// The server; several nodes of a cluster, or sentinels, of which one has to respond.
    pub addresses: Vec<Address>,
    /// The name of the primary; the addresses are those of sentinels then.
    pub sentinel: Option<String>,
    pub is_cluster: bool,
    pub user: Option<String>,
    pub password: Option<Password>,
    /// How servers are verified; required for addresses with TLS. See [`super::tls_config`].
    pub tls: Option<TlsConfig>,
    /// Proxies with the same one share.
    pub prefix: String,
    /// The longest time for one operation.
    pub timeout: Duration,
    /// The longest time to connect, until the server is ready for operations.
    pub connect_timeout: Duration,
    pub seal_key: Option<SealKey>,
    /// For tests: the time that decides, in place of the server's.
    pub clock: Option<Arc<dyn EngineClock>>,
}

impl RedisConfig {
    /// Whether what is in effect would stay as it is.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let parts = |it: &Self| {
            let Self { addresses, sentinel, user, password, tls, .. } = it.clone();
            let times = (it.timeout, it.connect_timeout);
            (addresses, sentinel, user, password, tls, it.seal_key.clone(), times)
        };
        parts(self) == parts(other)
    }

    /// The default settings for one server.
    pub fn at(address: Address) -> Self {
        Self {
            addresses: vec![address],
            sentinel: None,
            is_cluster: false,
            user: None,
            password: None,
            tls: None,
            prefix: "courtesy".to_owned(),
            timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            seal_key: None,
            clock: None,
        }
    }
}

impl Password {
    /// The password with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let url = Url::parse(text).map_err(|_| ServerUrlError::Malformed)?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let address = match url.scheme() {
            "redis" => tcp(&url, false)?,
            "rediss" => tcp(&url, true)?,
            "redis+unix" if url.path().len() > 1 => Address::Unix(decoded(url.path()).into()),
            "redis+unix" => return Err(ServerUrlError::Socket),
            _ => return Err(ServerUrlError::Scheme),
        };
        Ok(Self {
            address,
            user: (!url.username().is_empty()).then(|| decoded(url.username())),
            password: url.password().map(|password| Password(decoded(password))),
        })
    }
}

fn tcp(url: &Url, is_tls: bool) -> Result<Address, ServerUrlError> {
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ServerUrlError::Host)?;
    if !matches!(url.path(), "" | "/" | "/0") {
        return Err(ServerUrlError::Database);
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Address::Tcp { host, port: url.port().unwrap_or(PORT), is_tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<String, ServerUrlError> {
        text.parse::<ServerUrl>().map(|url| format!("{} {:?}", url.address, url.user))
    }

    #[test]
    fn a_url_names_an_address() {
        let cases = [
            ("redis://engine", Ok("engine:6379 None")),
            ("redis://engine:7000/0", Ok("engine:7000 None")),
            ("rediss://[::1]:7000", Ok("[::1]:7000 None")),
            ("redis://cour%74esy:secret@engine", Ok("engine:6379 Some(\"courtesy\")")),
            ("redis+unix:///run/engine.sock", Ok("/run/engine.sock None")),
            ("redis+unix://", Err(ServerUrlError::Socket)),
            ("redis://engine/3", Err(ServerUrlError::Database)),
            ("http://engine", Err(ServerUrlError::Scheme)),
            ("engine:6379", Err(ServerUrlError::Scheme)),
            ("engine", Err(ServerUrlError::Malformed)),
        ];
        for (text, expected) in cases {
            assert_eq!(address(text), expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let url: ServerUrl = "rediss://courtesy:s%65cret@engine".parse().unwrap();
        assert_eq!(url.password, Some(Password::new("secret")));
        let config =
            RedisConfig { password: url.password.clone(), ..RedisConfig::at(url.address.clone()) };
        assert!(!format!("{url:?} {config:?} {}", url.address).contains("secret"));
    }
}
