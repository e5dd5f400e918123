//! The heads of logs that the shared engine has seen.

use std::collections::BTreeSet;

use anyhow::anyhow;

use crate::audit::read::verify::GivenHead;
use crate::audit::read::{Log, Scan, ScanItem};
use crate::audit::{AnyLine, Head, read_log_id};
use crate::cli::engine_client::EngineClient;
use crate::cli::exit::{Exit, Failure};
use crate::config::Settings;
use crate::engine::{Engine, LogHead};
use crate::server::is_name_of;
use crate::types::LogId;
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

    /// The heads of `log`, by its identity; those of the proxies that have written its lines, by
    /// their nodes, which may be of other logs; of the log of the settings, those of their node,
    /// too, whatever its lines say.
    pub fn of(&self, log: &Log) -> Vec<GivenHead> {
        let Names { logs, nodes } = Names::of(log);
        let is_own = matches!(log, Log::Dir(dir) if *dir == self.settings.audit_dir());
        let own = is_own.then(|| self.settings.node().as_str().to_owned());
        let is_of = |name: &str| {
            let mut nodes = nodes.iter().chain(&own);
            nodes.any(|node| is_name_of(name, node))
                || is_own && self.settings.engine.name.as_deref() == Some(name)
        };
        let is_meant = |(name, head): &&(String, LogHead)| {
            head.log.is_some_and(|log| logs.contains(&log)) || is_of(name)
        };
        let given =
            |(_, head): &(String, LogHead)| GivenHead::witnessed(head_of(head)).of_log(head.log);
        self.heads.iter().filter(is_meant).map(given).collect()
    }
}

/// Nodes of a log that are kept apart: more than proxies that ever write to one.
const NODES_MAX: usize = 1000;

/// What the lines of a log name: itself, and the proxies that wrote it.
#[derive(Debug, Default)]
struct Names {
    logs: BTreeSet<LogId>,
    nodes: BTreeSet<String>,
}

impl Names {
    /// Of all lines; what cannot be read is a fault that verifying them reports.
    fn of(log: &Log) -> Self {
        let mut names = Self::default();
        if let Log::Dir(dir) = log {
            names.logs.extend(read_log_id(dir).ok().flatten());
        }
        let Ok(mut scan) = Scan::new(log.clone()) else { return names };
        loop {
            match scan.next() {
                Ok(Some(ScanItem::Lines(block))) => {
                    block.lines().for_each(|line| names.line(line.bytes));
                }
                Ok(Some(ScanItem::Rest(_))) | Err(_) => {}
                Ok(None) => return names,
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(AnyLine { log, node, .. }) = AnyLine::parse(line) else { return };
        self.logs.extend(log);
        if let Some(node) = node.filter(|node| !self.nodes.contains(node.as_str()))
            && self.nodes.len() < NODES_MAX
        {
            self.nodes.insert(node.to_string());
        }
    }
}

/// The identity of a log: as it is noted beside it, else as its lines name it last.
pub fn identity(log: &Log) -> Option<LogId> {
    let noted = match log {
        Log::Dir(dir) => read_log_id(dir).ok().flatten(),
        Log::Files(_) => None,
    };
    noted.or_else(|| Names::of(log).logs.pop_last())
}

/// As the readers of logs have it.
pub fn head_of(head: &LogHead) -> Head {
    Head { hash: hex(&head.hash), seq: head.number }
}
