//! The client setup of this machine: reads the environment, and writes the files that make clients
//! trust the proxy's certificate authority.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::super::environment::{self, variable};
use super::super::exit::{Exit, Failure, OrExit};
use super::super::no_proxy::NoProxy;
use super::php;
use super::setup::{ClientSetup, TrustFiles};
use super::trust_files::{self, Inherited};
use crate::ca::Authority;
use crate::config::Settings;
use crate::proxy::HttpsMode;
use crate::runtime::clock::{Clock, SystemClock};

/// Writes the files, and makes the authority if there is none yet: clients may be set up before the
/// proxy is started.
pub fn set_up(
    proxy: SocketAddr,
    no_proxy: NoProxy,
    settings: &Settings,
) -> Result<ClientSetup, Failure> {
    let dir = settings.state_dir.join("clients");
    let trust = match settings.https().mode {
        HttpsMode::Intercept => Some(trust(&dir, settings)?),
        HttpsMode::Classify => None,
    };
    let java_options = variable("JAVA_TOOL_OPTIONS").unwrap_or_default();
    let bundle = trust.as_ref().map(|trust| trust.bundle.as_path());
    let php_scan_dir =
        php::prepare(&dir, bundle, &variable("PHP_INI_SCAN_DIR").unwrap_or_default())
            .map_err(|error| not_written(&dir, &error))
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
    trust_files::prepare(dir, &authority.bundle(), &inherited)
        .map_err(|error| not_written(dir, &error))
        .or_exit(Exit::InputOutput)
}
