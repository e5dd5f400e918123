//! Which proxies wrote the lines of a report.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::audit::{Content, Notice};

/// Proxies, and versions of the program, that a report names of a log.
const REPORT_NODES_MAX: usize = 100;

/// The proxies that wrote the lines of the period: a few are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writers {
    /// Their names (`audit.node`), in order; at most `REPORT_NODES_MAX`.
    pub nodes: BTreeSet<String>,
    /// Versions of courtesy that were started in the period, in order; at most as many.
    pub versions: BTreeSet<String>,
    /// Lines that name none, as earlier versions wrote them.
    pub unnamed_lines: u64,
}

impl Writers {
    pub(super) fn pass(&mut self, content: &Content) {
        match content.node() {
            None => self.unnamed_lines += 1,
            Some(node) => note(&mut self.nodes, node.as_str()),
        }
        if let Content::Notice(Notice::Started(started)) = content {
            note(&mut self.versions, &started.version);
        }
    }
}

/// Adds `text`. In a full set, the first texts in order stay, so that the order of lines does not matter.
fn note(texts: &mut BTreeSet<String>, text: &str) {
    if texts.contains(text) {
        return;
    }
    texts.insert(text.to_owned());
    if texts.len() > REPORT_NODES_MAX {
        texts.pop_last();
    }
}
