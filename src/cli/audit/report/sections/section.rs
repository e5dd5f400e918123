//! A section of a report, and what several of them print.

use super::super::words::{number, plural};
use super::table::Table;
use crate::audit::read::report::{AgentKey, OriginKey, Top};

/// A part of the report under one heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: &'static str,
    /// Sentences before the table.
    pub notes: Vec<String>,
    /// Whether the notes need attention.
    pub is_urgent: bool,
    pub table: Table,
    /// A sentence after it.
    pub foot: Option<String>,
}

/// The origin of a row.
pub fn origin(key: &OriginKey) -> String {
    key.origin.clone()
}

/// The product token of a row.
pub fn agent(key: &AgentKey) -> String {
    key.agent.clone().unwrap_or_else(|| "(none)".into())
}

/// The footer: records that are not in the rows.
pub fn foot<R>(top: &Top<R>) -> Option<String> {
    let mut sentences = Vec::new();
    if top.others > 0 {
        let more = top.distinct.saturating_sub(top.rows.len() as u64);
        sentences.push(format!("And {} more with {}.", number(more), plural(top.others, "record")));
    }
    if top.is_approximate() {
        sentences.push(format!(
            "There are more than are counted exactly: a number may be short by up to {}.",
            number(top.undercount_at_most)
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
