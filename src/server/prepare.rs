//! The step before anything is opened: the files that settings name are read, and the places that the
//! proxy writes to are looked at. It changes nothing, so that `courtesy config check` does the same as
//! `courtesy serve` does at its start. All faults are found, not the first alone.

use std::fmt;

use crate::admin::{Secret, TokenError};
use crate::audit::{self, OpenError};
use crate::ca::{self, Authority, CaError};
use crate::clients::{Clients, UsersError};
use crate::config::Settings;
use crate::egress::{self, RootsError, Tls};
use crate::store::disk;
use crate::types::timestamp::Timestamp;

/// What was read.
pub struct Prepared {
    pub(super) tls: Tls,
    pub(super) clients: Clients,
    /// By what the operator is known to the admin listener.
    pub(super) secret: Option<Secret>,
    ca_invalidity: Option<String>,
}

impl Prepared {
    /// Why nothing could be intercepted: the CA has expired or is not valid yet.
    pub fn ca_invalidity(&self) -> Option<&str> {
        self.ca_invalidity.as_deref()
    }
}

/// Why the settings cannot become a proxy.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Roots(#[from] RootsError),
    #[error(transparent)]
    Audit(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] disk::OpenError),
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Everything that was found wrong, in the order of the start; never empty.
#[derive(Debug)]
pub struct SetupErrors(pub Vec<SetupError>);

/// Reads what the settings name, and looks at the audit directory and the CA in `ca`. Nothing is made or
/// changed. A CA that has expired is no fault: the proxy starts without interception.
///
/// # Errors
///
/// Everything that keeps a proxy from starting by these settings, apart from addresses that are in use and
/// directories that another process uses.
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

/// Reads what can be read anew while the proxy runs; the faults go to `found`.
pub(super) fn read(settings: &Settings, found: &mut Vec<SetupError>) -> Option<Prepared> {
    let tls = tls(settings, found);
    let clients = note(settings.clients(), found);
    let secret = note(settings.admin.token_file.as_deref().map(Secret::read).transpose(), found);
    Some(Prepared { tls: tls?, clients: clients?, secret: secret?, ca_invalidity: None })
}

/// How origins are verified.
pub(super) fn tls(settings: &Settings, found: &mut Vec<SetupError>) -> Option<Tls> {
    let tls = egress::tls_connector(settings.tls.roots, &settings.tls.extra_roots);
    let tls = tls.map_err(|errors| found.extend(errors.into_iter().map(SetupError::from)));
    Some(tls.ok()?.without_verification_for(&settings.tls.insecure_origins))
}

/// The value of a step, or its fault among those that were found.
pub(super) fn note<T, E: Into<SetupError>>(
    step: Result<T, E>,
    found: &mut Vec<SetupError>,
) -> Option<T> {
    step.map_err(|error| found.push(error.into())).ok()
}

/// What was read, where nothing is wrong.
pub(super) fn finish<T>(prepared: Option<T>, found: Vec<SetupError>) -> Result<T, SetupErrors> {
    match prepared {
        Some(prepared) if found.is_empty() => Ok(prepared),
        _ => Err(SetupErrors(found)),
    }
}

impl SetupError {
    /// The settings that it may come from.
    pub const fn settings(&self) -> &'static [&'static str] {
        match self {
            Self::Roots(_) => &["tls.extra_roots", "tls.roots"],
            Self::Audit(_) => &["audit.dir", "state_dir"],
            Self::Store(_) => &["state_dir"],
            Self::Ca(_) => &["https.ca_cert", "https.ca_key", "state_dir"],
            Self::Users(_) => &["clients.users_file"],
            Self::Token(_) => &["admin.token_file"],
        }
    }
}

impl SetupErrors {
    /// Each fault with what it comes from.
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

/// One fault as it is, several each on a line.
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
