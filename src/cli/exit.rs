//! The exit codes of commands: those of sysexits.h where it has one.

use std::io::ErrorKind;
use std::process::ExitCode;

use crate::admin::control::ControlError;
use crate::admin::{self, TokenError};
use crate::audit::OpenError;
use crate::audit::read::ScanError;
use crate::ca::CaError;
use crate::clients::UsersError;
use crate::config::InvalidSettings;
use crate::egress::RootsError;
use crate::engine::LocalFileError;
use crate::server::{self, SetupError, SetupErrors};
use crate::store::disk;

/// The exit codes, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; `check`: allowed.
    Done,
    /// A clean no: `check`: disallowed.
    No,
    /// The command line was not understood.
    Usage,
    /// `check`: robots.txt could not be had.
    Undecided,
    /// Unavailable: an address in use, a locked store.
    Unavailable,
    /// Input or output.
    InputOutput,
    /// Permission.
    Permission,
    /// The configuration cannot be used.
    Configuration,
    /// `run`: the exit code of the command; `reload`: that of a `serve` with the same settings.
    Command(u8),
}

/// An error to be printed, with its exit code.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub error: anyhow::Error,
}

impl Failure {
    /// Whether the reader of the output has closed it.
    pub fn is_broken_pipe(&self) -> bool {
        let error = self.error.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    }

    /// The remedy if this user may not read or write a file, or bind a port.
    pub fn remedy(&self) -> Option<String> {
        let denied = std::io::Error::from(rustix::io::Errno::ACCESS).to_string();
        if self.exit != Exit::Permission || !format!("{:#}", self.error).contains(&denied) {
            return None;
        }
        let is_socket = self.error.is::<server::BindError>() || self.error.is::<admin::BindError>();
        Some(if is_socket {
            "ports below 1024 are for root: choose another, have systemd hand the socket over (Sockets=), or give \
             the service AmbientCapabilities=CAP_NET_BIND_SERVICE"
                .into()
        } else {
            let user = rustix::process::geteuid().as_raw();
            format!(
                "user {user} may not do that: run it as the user of the proxy, or change the owner or mode"
            )
        })
    }
}

/// Adds an exit code to an error.
pub trait OrExit<T> {
    /// Turns an error into a failure with the exit code `exit`.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    /// Turns an error into a failure with the exit code `exit`.
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure { exit, error: error.into() })
    }
}

impl Exit {
    /// The exit code of an I/O error.
    fn of_io(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => Self::Permission,
            _ => Self::InputOutput,
        }
    }

    /// The exit code of the process.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::Undecided => 3,
            Self::Unavailable => 69,
            Self::InputOutput => 74,
            Self::Permission => 77,
            Self::Configuration => 78,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<InvalidSettings> for Failure {
    fn from(refusal: InvalidSettings) -> Self {
        let is_denied = refusal.0.iter().any(|diagnostic| diagnostic.is_denied);
        let exit = if is_denied { Exit::Permission } else { Exit::Configuration };
        Self { exit, error: refusal.into() }
    }
}

impl From<&OpenError> for Exit {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::Locked(_) => Self::Unavailable,
            OpenError::Io { source, .. } | OpenError::Key { source, .. } => Self::of_io(source),
        }
    }
}

/// An error whose exit code is known by its kind.
macro_rules! failures {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self { exit: Exit::from(&error), error: error.into() }
            }
        }
    )+};
}

failures!(OpenError, disk::OpenError, CaError, UsersError, TokenError);

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        Self { exit: Exit::of_io(&error.source), error: error.into() }
    }
}

impl From<&disk::OpenError> for Exit {
    fn from(error: &disk::OpenError) -> Self {
        match error {
            disk::OpenError::Missing(_)
            | disk::OpenError::File(LocalFileError::Newer(_) | LocalFileError::Network(_)) => {
                Self::Unavailable
            }
            disk::OpenError::File(LocalFileError::Io { .. } | LocalFileError::Sql { .. }) => {
                Self::InputOutput
            }
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Store(error) => error.into(),
            ControlError::Tell(error) => error.into(),
            ControlError::Io(ref denied) if denied.kind() == ErrorKind::PermissionDenied => {
                Self { exit: Exit::Permission, error: error.into() }
            }
            other => Self { exit: Exit::Unavailable, error: other.into() },
        }
    }
}

impl From<&CaError> for Exit {
    fn from(error: &CaError) -> Self {
        match error {
            CaError::Exposed { .. } => Self::Permission,
            CaError::Io { source, .. } => Self::of_io(source),
            CaError::Certificate(_) => Self::InputOutput,
            CaError::Unusable { .. } | CaError::Mismatch { .. } | CaError::NotOurs { .. } => {
                Self::Configuration
            }
        }
    }
}

impl From<&UsersError> for Exit {
    fn from(error: &UsersError) -> Self {
        match error {
            UsersError::Exposed(_) => Self::Permission,
            UsersError::Io { source, .. } => Self::of_io(source),
            UsersError::Missing(_) | UsersError::Invalid { .. } => Self::Configuration,
        }
    }
}

impl From<&TokenError> for Exit {
    fn from(error: &TokenError) -> Self {
        match error {
            TokenError::Exposed { .. } => Self::Permission,
            TokenError::Io { source, .. } => Self::of_io(source),
            TokenError::Invalid { .. } => Self::Configuration,
        }
    }
}

impl From<&RootsError> for Exit {
    fn from(error: &RootsError) -> Self {
        match error.kind {
            Some(ErrorKind::PermissionDenied) => Self::Permission,
            _ => Self::Configuration,
        }
    }
}

impl From<&SetupError> for Exit {
    fn from(error: &SetupError) -> Self {
        match error {
            SetupError::Audit(error) => error.into(),
            SetupError::Ca(error) => error.into(),
            SetupError::Users(error) => error.into(),
            SetupError::Token(error) => error.into(),
            SetupError::Roots(error) => error.into(),
            SetupError::Engine(_) | SetupError::ListenerTls(_) | SetupError::Parent(_) => {
                Self::Configuration
            }
        }
    }
}

/// The exit code of several faults: that of the first.
impl From<SetupErrors> for Failure {
    fn from(errors: SetupErrors) -> Self {
        let exit = errors.0.first().map_or(Exit::Configuration, Exit::from);
        Self { exit, error: errors.into() }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::AddrInUse => Exit::Unavailable,
            _ => Exit::of_io(&error),
        };
        Self { exit, error: error.into() }
    }
}
