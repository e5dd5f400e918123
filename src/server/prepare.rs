//! The step before anything is opened: reads the files that settings name, and checks the
//! directories that the proxy writes to. It changes nothing, so `courtesy config check` runs the
//! same step as `courtesy serve`. All faults are reported.

use std::fmt;
use std::path::PathBuf;

use super::engine::{self, EngineError};
use crate::admin::{OPERATOR_TOKEN, Secret, TokenError, VIEWER_TOKEN};
use crate::audit::{self, OpenError};
use crate::ca::{self, Authority, CaError};
use crate::clients::{Clients, UsersError};
use crate::config::Settings;
use crate::egress::{self, ParentCredentialsError, Parents, RootsError, Tls};
use crate::engine::RedisConfig;
use crate::proxy::{ListenerTls, ListenerTlsError};
use crate::types::timestamp::Timestamp;

/// The contents of the files.
pub struct Prepared {
    pub(super) tls: Tls,
    pub(super) parents: Parents,
    pub(super) clients: Clients,
    /// TLS between clients and the proxy itself.
    pub(super) listener_tls: ListenerTls,
    /// How the engine is reached, if there is one.
    pub(super) engine: Option<RedisConfig>,
    /// The token of the admin listener, and that of those who may only look at its console.
    pub(super) secret: Option<Secret>,
    pub(super) viewer_secret: Option<Secret>,
    ca_invalidity: Option<String>,
}

impl Prepared {
    /// Why nothing can be intercepted: the CA has expired or is not valid yet.
    pub fn ca_invalidity(&self) -> Option<&str> {
        self.ca_invalidity.as_deref()
    }
}

/// Why no proxy can be built from the settings.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Roots(#[from] RootsError),
    #[error(transparent)]
    Audit(#[from] OpenError),
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Parent(#[from] ParentCredentialsError),
    #[error(transparent)]
    ListenerTls(#[from] ListenerTlsError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// All faults, in the order of the start; never empty.
#[derive(Debug)]
pub struct SetupErrors(pub Vec<SetupError>);

/// Reads the files that the settings name, and checks the audit directory and the CA in `ca`.
/// Changes nothing. An expired CA is no fault: the proxy starts without interception.
///
/// # Errors
///
/// All faults that prevent a start with these settings, except for addresses and directories that
/// another process uses.
pub fn prepare(
    settings: &Settings,
    ca: &ca::Source,
    now: Timestamp,
) -> Result<Prepared, SetupErrors> {
    let mut found = Vec::new();
    let prepared = read(settings, &mut found);
    note(audit::check(&settings.audit()), &mut found);
    let authority = note(Authority::check(ca, now), &mut found).flatten();
    let ca_invalidity = authority.and_then(|authority| authority.certificate().invalidity(now));
    finish(prepared.map(|prepared| Prepared { ca_invalidity, ..prepared }), found)
}

/// Reads the files that a reload reads again; adds faults to `found`.
pub(super) fn read(settings: &Settings, found: &mut Vec<SetupError>) -> Option<Prepared> {
    let tls = tls(settings, found);
    let parents = note(settings.egress.parents(), found);
    let clients = note(settings.clients(), found);
    let listener_tls = note(settings.listen.tls(), found);
    let mut secret = |file: &Option<PathBuf>, setting| {
        note(file.as_deref().map(|file| Secret::read(file, setting)).transpose(), found)
    };
    let viewer_secret = secret(&settings.admin.viewer_token_file, VIEWER_TOKEN);
    let secret = secret(&settings.admin.token_file, OPERATOR_TOKEN);
    let engine = note(engine::client(settings), found);
    Some(Prepared {
        tls: tls?,
        parents: parents?,
        clients: clients?,
        listener_tls: listener_tls?,
        engine: engine?,
        secret: secret?,
        viewer_secret: viewer_secret?,
        ca_invalidity: None,
    })
}

/// The TLS configuration towards origins.
pub(super) fn tls(settings: &Settings, found: &mut Vec<SetupError>) -> Option<Tls> {
    let tls = egress::tls_connector(settings.tls.roots, &settings.tls.extra_roots);
    let tls = tls.map_err(|errors| found.extend(errors.into_iter().map(SetupError::from)));
    Some(tls.ok()?.without_verification_for(&settings.tls.insecure_origins))
}

/// The value of a step; adds its fault to `found`.
pub(super) fn note<T, E: Into<SetupError>>(
    step: Result<T, E>,
    found: &mut Vec<SetupError>,
) -> Option<T> {
    step.map_err(|error| found.push(error.into())).ok()
}

/// The contents, if there are no faults.
pub(super) fn finish<T>(prepared: Option<T>, found: Vec<SetupError>) -> Result<T, SetupErrors> {
    match prepared {
        Some(prepared) if found.is_empty() => Ok(prepared),
        _ => Err(SetupErrors(found)),
    }
}

impl SetupError {
    /// The settings that may cause it.
    pub const fn settings(&self) -> &'static [&'static str] {
        match self {
            Self::Roots(_) => &["tls.extra_roots", "tls.roots"],
            Self::Audit(_) => &["audit.dir", "state_dir"],
            Self::Ca(_) => &["https.ca_cert", "https.ca_key", "state_dir"],
            Self::Users(_) => &["clients.users_file"],
            Self::Token(_) => &[OPERATOR_TOKEN, VIEWER_TOKEN],
            Self::Parent(_) => &["egress.parent_credentials_file"],
            Self::ListenerTls(_) => &["listen.tls_cert", "listen.tls_key"],
            Self::Engine(_) => &[
                "engine.url_file",
                "engine.password_file",
                "engine.ca",
                "engine.cert",
                "engine.key",
                "engine.seal_key_file",
            ],
        }
    }
}

impl SetupErrors {
    /// Each fault with its settings.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(with_sources)
    }
}

impl<E: Into<SetupError>> From<E> for SetupErrors {
    fn from(error: E) -> Self {
        Self(vec![error.into()])
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// One fault as is; several on a line each.
impl fmt::Display for SetupErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return f.write_str(&with_sources(only));
        }
        f.write_str("the proxy cannot start by these settings")?;
        self.lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for SetupErrors {}

fn with_sources(error: &SetupError) -> String {
    let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
    sources.map(ToString::to_string).fold(error.to_string(), |text, source| {
        // Some name their source themselves.
        if text.ends_with(&source) { text } else { format!("{text}: {source}") }
    })
}
