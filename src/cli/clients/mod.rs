//! Sets clients up to use the proxy and to trust its authority, by environment variables. The
//! variables are a pure function of a [`ClientSetup`]; [`set_up`] finds out what it holds on this
//! machine and writes the [`trust_files`]; [`print`] formats variables for shells and programs.
//!
//! No variable works for all clients, and some clients follow none: `courtesy doctor` tries them.

pub mod print;
mod trust_files;
mod variables;

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::environment::{self, NoProxy, variable};
use super::exit::{Exit, Failure, OrExit};
use super::temporary_dir::{Purpose, TemporaryDir, is_passable};
use crate::ca::Authority;
use crate::config::Settings;
use crate::proxy::HttpsMode;
use crate::runtime::clock::{Clock, SystemClock};
use trust_files::Inherited;
pub use trust_files::TrustFiles;
pub use variables::{ClientSetup, Variable, reachable, variables};

/// The client setup of this machine: reads the environment, and writes the files that make clients
/// trust the proxy's certificate authority. Makes the authority if there is none yet: clients may be
/// set up before the proxy is started.
pub fn set_up(
    proxy: SocketAddr,
    no_proxy: NoProxy,
    settings: &Settings,
) -> Result<ClientSetup, Failure> {
    set_up_in(&settings.state_dir.join("clients"), proxy, no_proxy, settings)
}

/// The same for one command, whose programs may become another user: where others cannot read the files
/// of the state directory, they have copies among the temporary files, as long as what is returned with
/// them lives. The authority's key stays where it is.
pub fn set_up_for_command(
    proxy: SocketAddr,
    no_proxy: NoProxy,
    settings: &Settings,
) -> Result<(ClientSetup, Option<TemporaryDir>), Failure> {
    let kept = settings.state_dir.join("clients");
    if is_passable(&settings.state_dir) {
        let setup = set_up(proxy, no_proxy.clone(), settings)?;
        if is_open_to_others(&kept) {
            return Ok((setup, None));
        }
    }
    let Ok(files) = TemporaryDir::new_passable(Purpose::Clients) else {
        // Other users cannot read these, which most commands never become.
        return Ok((set_up(proxy, no_proxy, settings)?, None));
    };
    // A store for Java takes a large part of a second to make: the one that is there goes with it.
    trust_files::copy_store(&kept, files.path());
    let setup = set_up_in(files.path(), proxy, no_proxy, settings)?;
    trust_files::copy_store(files.path(), &kept);
    open_to_others(files.path())
        .map_err(|error| not_written(files.path(), &error))
        .or_exit(Exit::InputOutput)?;
    Ok((setup, Some(files)))
}

/// Whether every user can read what the variables name: not after a umask such as 077.
fn is_open_to_others(dir: &Path) -> bool {
    let is_readable = |path: PathBuf| {
        path.metadata().is_ok_and(|found| {
            let needed = if found.is_dir() { 0o005 } else { 0o004 };
            found.permissions().mode() & needed == needed
        })
    };
    let Ok(mut entries) = std::fs::read_dir(dir) else { return false };
    is_passable(dir) && entries.all(|entry| entry.is_ok_and(|entry| is_readable(entry.path())))
}

/// Whatever the umask has taken.
fn open_to_others(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let is_dir = path.is_dir();
        std::fs::set_permissions(
            &path,
            Permissions::from_mode(if is_dir { 0o755 } else { 0o644 }),
        )?;
        if is_dir {
            open_to_others(&path)?;
        }
    }
    Ok(())
}

/// What a client needs no file for: nothing of HTTPS where it is intercepted.
pub fn without_files(proxy: SocketAddr, no_proxy: NoProxy) -> ClientSetup {
    ClientSetup {
        proxy,
        credentials: None,
        no_proxy,
        trust: None,
        java_options: variable("JAVA_TOOL_OPTIONS").unwrap_or_default(),
        php_scan_dir: String::new(),
    }
}

fn set_up_in(
    dir: &Path,
    proxy: SocketAddr,
    no_proxy: NoProxy,
    settings: &Settings,
) -> Result<ClientSetup, Failure> {
    let trust = match settings.https().mode {
        HttpsMode::Intercept => Some(trust(dir, settings)?),
        HttpsMode::Classify => None,
    };
    let java_options = variable("JAVA_TOOL_OPTIONS").unwrap_or_default();
    let bundle = trust.as_ref().map(|trust| trust.bundle.as_path());
    let php_scan_dir =
        trust_files::prepare_php(dir, bundle, &variable("PHP_INI_SCAN_DIR").unwrap_or_default())
            .map_err(|error| not_written(dir, &error))
            .or_exit(Exit::InputOutput)?;
    Ok(ClientSetup { proxy, credentials: None, no_proxy, trust, java_options, php_scan_dir })
}

fn not_written(dir: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot write the files for clients to {}: {error}", dir.display())
}

fn trust(dir: &Path, settings: &Settings) -> Result<TrustFiles, Failure> {
    let source = settings.ca(environment::credentials_directory().as_deref());
    let authority = Authority::open(&source, SystemClock.wall())?;
    let inherited = Inherited {
        bundle: variable("SSL_CERT_FILE").map(PathBuf::from),
        wgetrc: variable("WGETRC").map(PathBuf::from),
        home: variable("HOME").map(PathBuf::from),
    };
    trust_files::prepare_files(dir, &authority.bundle(), &inherited)
        .map_err(|error| not_written(dir, &error))
        .or_exit(Exit::InputOutput)
}
