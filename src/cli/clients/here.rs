//! The way to a proxy as this machine has it: what the environment says already, and the files by
//! which clients trust our certificate authority.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::super::environment::{self, variable};
use super::super::exit::{Exit, Failure, OrExit};
use super::super::no_proxy::NoProxy;
use super::trust::{self, Inherited};
use super::{Trust, Way, php};
use crate::ca::Authority;
use crate::config::Settings;
use crate::proxy::HttpsMode;
use crate::runtime::clock::{Clock, SystemClock};

/// Writes the files, and makes the authority where there is none yet: clients may well be told of it
/// before the proxy has started.
pub fn way(proxy: SocketAddr, no_proxy: NoProxy, settings: &Settings) -> Result<Way, Failure> {
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
    Ok(Way { proxy, credentials: None, no_proxy, trust, java_options, php_scan_dir })
}

fn not_written(dir: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot write the files for clients to {}: {error}", dir.display())
}

fn trust(dir: &Path, settings: &Settings) -> Result<Trust, Failure> {
    let source = settings.ca(environment::credentials_directory().as_deref());
    let authority = Authority::open(&source, SystemClock.wall())?;
    let inherited = Inherited {
        bundle: variable("SSL_CERT_FILE").map(PathBuf::from),
        wgetrc: variable("WGETRC").map(PathBuf::from),
        home: variable("HOME").map(PathBuf::from),
    };
    trust::prepare(dir, &authority.bundle(), &inherited)
        .map_err(|error| not_written(dir, &error))
        .or_exit(Exit::InputOutput)
}
