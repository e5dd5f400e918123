//! Opens the CA that the settings name.

use crate::ca::{Authority, Source};
use crate::cli::environment;
use crate::cli::exit::Failure;
use crate::cli::flags::ConfigFlags;
use crate::runtime::clock::{Clock, SystemClock};

/// The CA of the settings.
pub fn source(config: &ConfigFlags) -> Result<Source, Failure> {
    let settings = config.load(None)?.settings;
    Ok(settings.ca(environment::credentials_directory().as_deref()))
}

/// The CA itself; the proxy's own is made if there is none.
pub fn open(config: &ConfigFlags) -> Result<Authority, Failure> {
    Ok(Authority::open(&source(config)?, SystemClock.wall())?)
}
