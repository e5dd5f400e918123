//! What all queries of one `courtesy check` share.

use std::cell::OnceCell;

use super::agent::Agent;
use super::online::Online;
use super::pace::OperatorPace;
use crate::cli::exit::Failure;
use crate::config::{ProfileName, Settings};
use crate::proxy::Https;

/// The defaults of a query.
pub struct Defaults {
    pub agent: Agent,
    /// As given by --profile: takes precedence over settings for an agent or an origin.
    pub profile: Option<ProfileName>,
    pub configured_profile: ProfileName,
    /// The pace at any origin.
    pub pace: OperatorPace,
    /// Which origins are tunnelled.
    pub https: Https,
}

/// Created when the first file has to be fetched: offline queries need neither network nor CA
/// certificates.
pub struct LazyOnline {
    settings: Settings,
    online: OnceCell<Online>,
}

impl LazyOnline {
    /// For these settings; nothing is started yet.
    pub const fn new(settings: Settings) -> Self {
        Self { settings, online: OnceCell::new() }
    }

    /// The value, made at the first call.
    pub fn get(&self) -> Result<&Online, Failure> {
        if self.online.get().is_none() {
            let _ = self.online.set(Online::new(&self.settings)?);
        }
        Ok(self.online.get().expect("it has just been set"))
    }
}
