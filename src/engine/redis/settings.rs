//! Where the servers are, and how they are reached.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use url::Url;

use crate::engine::clock::EngineClock;
use crate::engine::format::SealKey;
use crate::engine::{FileDigest, digest_of};
use crate::runtime::clock::SystemClock;
use crate::runtime::files::{self, Found};
use crate::runtime::{NAMED_FILE_BYTES_MAX, crypto_provider};

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
    /// The server, nodes of a cluster, or sentinels; of several one has to respond.
    pub addresses: Vec<Address>,
    /// The name of the primary; the addresses are those of sentinels then.
    pub sentinel: Option<String>,
    pub user: Option<String>,
    pub password: Option<Password>,
    /// How servers are verified; required for addresses with TLS. See [`super::tls_config`].
    pub tls: Option<TlsConfig>,
    /// Proxies with the same one share.
    pub prefix: String,
    /// The longest time for one operation.
    pub timeout: Duration,
    pub seal_key: Option<SealKey>,
    /// For tests: the time that decides, in place of the server's.
    pub clock: Option<Arc<dyn EngineClock>>,
}

/// Time for fourteen round trips of the default `engine.timeout`, and for the handshakes of TCP and
/// TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

impl RedisConfig {
    /// The longest time to connect, until the server is ready for operations.
    pub fn connect_timeout(&self) -> Duration {
        self.timeout.max(CONNECT_TIMEOUT)
    }

    /// Whether both name the same servers.
    pub(super) fn has_servers_of(&self, other: &Self) -> bool {
        (&self.addresses, &self.sentinel) == (&other.addresses, &other.sentinel)
    }

    /// Whether what is in effect would stay as it is.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let parts = |it: &Self| {
            let Self { addresses, sentinel, user, password, tls, .. } = it.clone();
            (addresses, sentinel, user, password, tls, it.seal_key.clone(), it.timeout)
        };
        parts(self) == parts(other)
    }

    /// The default settings for one server.
    pub fn at(address: Address) -> Self {
        Self {
            addresses: vec![address],
            sentinel: None,
            user: None,
            password: None,
            tls: None,
            prefix: "courtesy".to_owned(),
            timeout: Duration::from_millis(50),
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

/// Why there is no configuration. The message names the setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    #[error("engine.ca: {0}")]
    Authorities(String),
    #[error("engine.cert: {0}")]
    Certificate(String),
    #[error("engine.key: {0}")]
    Key(String),
}

/// How servers are verified, and who we are to them, as the files said it.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    pub(super) client: Arc<ClientConfig>,
    /// The digests of the files: of the authorities, the certificate and its key.
    pub digests: [Option<FileDigest>; 3],
}

/// Two are equal if they are of the same files.
impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        self.digests == other.digests
    }
}

/// Trusts the authorities in the file `ca`, or those of the system. With a certificate and its key,
/// in PEM, this client is known by it.
pub fn tls_config(
    ca: Option<&Path>,
    client: Option<(&Path, &Path)>,
) -> Result<TlsConfig, TlsConfigError> {
    let mut digests = [None; 3];
    let [ca_digest, certificate_digest, key_digest] = &mut digests;
    let config =
        ClientConfig::builder_with_details(Arc::new(crypto_provider()), Arc::new(SystemClock))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsConfigError::Authorities(error.to_string()))?
            .with_root_certificates(authorities(ca, ca_digest)?);
    let config = match client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config
            .with_client_auth_cert(
                certificates(certificate, certificate_digest)?,
                private_key(key, key_digest)?,
            )
            .map_err(|error| TlsConfigError::Certificate(error.to_string()))?,
    };
    Ok(TlsConfig { client: Arc::new(config), digests })
}

fn authorities(
    ca: Option<&Path>,
    digest: &mut Option<FileDigest>,
) -> Result<RootCertStore, TlsConfigError> {
    let fault = |reason: String| TlsConfigError::Authorities(reason);
    let mut roots = RootCertStore::empty();
    match ca {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            for certificate in read_certificates(file, digest).map_err(fault)? {
                roots.add(certificate).map_err(|error| fault(error.to_string()))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(fault("no certificate of an authority".to_owned()));
    }
    Ok(roots)
}

fn certificates(
    file: &Path,
    digest: &mut Option<FileDigest>,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    read_certificates(file, digest).map_err(TlsConfigError::Certificate)
}

fn read_certificates(
    file: &Path,
    digest: &mut Option<FileDigest>,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = files::read(file, NAMED_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    *digest = Some(digest_of(&pem));
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("no certificate in PEM form in it".to_owned());
    }
    Ok(certificates)
}

fn private_key(
    file: &Path,
    digest: &mut Option<FileDigest>,
) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    let fault = |reason: String| TlsConfigError::Key(reason);
    match files::read_of_group(file).map_err(|error| fault(error.to_string()))? {
        Found::Exposed => Err(fault(
            "others can read it: its mode must be 0600, or 0640 for its group".to_owned(),
        )),
        Found::Content(pem) => {
            *digest = Some(digest_of(&pem));
            PrivateKeyDer::from_pem_slice(&pem).map_err(|error| fault(error.to_string()))
        }
    }
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
