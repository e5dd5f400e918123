//! The way to a proxy as this machine has it: what the environment says already, and the files by
//! which clients trust our certificate authority.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::super::environment::{self, variable};
use super::super::exit::{Exit, Failure, OrExit};
use super::super::no_proxy::NoProxy;
use super::trust::{self, Inherited};
use super::{Trust, Way};
use crate::ca::Authority;
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::proxy::HttpsMode;

/// Writes the files, and makes the authority where there is none yet: clients may well be told of it
/// before the proxy has started.
pub fn way(proxy: SocketAddr, no_proxy: NoProxy, settings: &Settings) -> Result<Way, Failure> {
    let trust = match settings.https().mode {
        HttpsMode::Intercept => Some(trust(settings)?),
        HttpsMode::Classify => None,
    };
    let java_options = variable("JAVA_TOOL_OPTIONS").unwrap_or_default();
    Ok(Way { proxy, credentials: None, no_proxy, trust, java_options })
}

fn trust(settings: &Settings) -> Result<Trust, Failure> {
    let source = settings.ca(environment::credentials_directory().as_deref());
    let authority = Authority::open(&source, SystemClock.wall())?;
    let inherited = Inherited {
        bundle: variable("SSL_CERT_FILE").map(PathBuf::from),
        wgetrc: variable("WGETRC").map(PathBuf::from),
        home: variable("HOME").map(PathBuf::from),
    };
    let dir = settings.state_dir.join("clients");
    trust::prepare(&dir, &authority.bundle(), &inherited)
        .map_err(|error| anyhow::anyhow!("cannot write the files for clients to {}: {error}", dir.display()))
        .or_exit(Exit::InputOutput)
}
