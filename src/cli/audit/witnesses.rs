//! The heads of logs that the shared engine has seen.

use anyhow::anyhow;

use super::last_line::last_line;
use crate::audit::Head;
use crate::audit::read::Log;
use crate::audit::read::verify::GivenHead;
use crate::cli::engine_client::EngineClient;
use crate::cli::exit::{Exit, Failure};
use crate::config::Settings;
use crate::engine::{Engine, LogHead};
use crate::server::is_name_of;
use crate::types::sanitize::hex;

/// The heads by the names of the proxies, in the order of these.
#[derive(Debug)]
pub struct Witnesses {
    pub heads: Vec<(String, LogHead)>,
    settings: Settings,
}

impl Witnesses {
    /// Asks the engine of the settings.
    pub fn ask(settings: Settings) -> Result<Self, Failure> {
        let observer = EngineClient::connect(&settings)?;
        let heads = observer.wait(observer.engine.heads());
        let heads = heads.map_err(|error| Failure {
            exit: Exit::Unavailable,
            error: anyhow!("the shared engine does not say which heads it has seen: {error}"),
        })?;
        Ok(Self { heads, settings })
    }

    /// The heads of the proxies that have written `log`, by the node of its last line; of the log
    /// of the settings, those of their node, too, whatever its lines say.
    pub fn of(&self, log: &Log) -> Vec<GivenHead> {
        // What cannot be read is a fault that reading the lines reports.
        let node = last_line(log.clone()).ok().flatten().and_then(|line| line.node);
        let is_own = matches!(log, Log::Dir(dir) if *dir == self.settings.audit_dir());
        let own = is_own.then(|| self.settings.node().as_str().to_owned());
        let is_of = |name: &str| {
            let mut nodes = [&node, &own].into_iter().flatten();
            nodes.any(|node| is_name_of(name, node))
                || is_own && self.settings.engine.name.as_deref() == Some(name)
        };
        let of_log = self.heads.iter().filter(|(name, _)| is_of(name));
        of_log.map(|(_, head)| GivenHead::witnessed(head_of(head))).collect()
    }
}

/// As the readers of logs have it.
pub fn head_of(head: &LogHead) -> Head {
    Head { hash: hex(&head.hash), seq: head.number }
}
