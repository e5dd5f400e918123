//! The proxy that writes the log, where it serves the pages: what only it knows, and what an operator may have it do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::admin::control::{ControlError, Running, StoreAdmin, WaitReport};
use crate::admin::guard::Visitor;
use crate::admin::{Check, MonitoredParts, Reloads};
use crate::audit::{Notice, Operated, OperatedEvent, Operation};
use crate::store::{Report, Undecided};
use crate::types::origin::Origin;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// Bytes of what the log says of a subject.
const SUBJECT_BYTES_MAX: usize = 500;

/// A running proxy.
#[derive(Clone, Debug)]
pub struct RunningProxy {
    parts: Arc<MonitoredParts>,
    running: Running,
}

impl RunningProxy {
    /// Of these parts, with what its control socket can have it do.
    pub fn new(parts: Arc<MonitoredParts>, running: Running) -> Self {
        Self { parts, running }
    }

    /// Makes it a line of the log that a visitor looked or acted.
    pub fn note(&self, visitor: &Visitor, action: Operation, subject: Option<&str>) {
        let text = |text: &str| sanitize::text(text.as_bytes(), SUBJECT_BYTES_MAX);
        let notice = Notice::Operated(Operated {
            action,
            by: text(&visitor.name),
            event: OperatedEvent::It,
            node: None,
            prev: String::new(),
            seq: 0,
            subject: subject.map(text),
            time: self.parts.clock.wall(),
        });
        // One that is dropped is counted by the log, as every notice is.
        self.parts.audit.queue_notice(notice);
    }

    /// Whether it should be sent no more requests.
    pub fn is_stopping(&self) -> bool {
        self.parts.draining.load(Ordering::Relaxed)
    }

    /// How the settings were read again: how often, when last, and why not.
    pub fn reloads(&self) -> &Reloads {
        &self.parts.reloads
    }

    /// When the process began.
    pub fn started(&self) -> Timestamp {
        self.parts.started
    }

    /// Each part of it, and the trouble with it.
    pub fn checks(&self) -> Vec<Check> {
        Check::all(&self.parts)
    }

    /// What is known of an origin now. To be called where a thread may wait.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn origin(&self, origin: &Origin) -> Result<Option<Report>, ControlError> {
        self.running.get(origin)
    }

    /// Who waits, and why: of each kind at most `max`.
    pub fn waits(&self, max: usize) -> WaitReport {
        self.running.waits(max)
    }

    /// Forgets an origin: its robots.txt is fetched again at the next request. Whether anything was known. To be called
    /// where a thread may wait.
    ///
    /// # Errors
    ///
    /// The store cannot be changed.
    pub fn forget(&self, origin: &Origin) -> Result<bool, ControlError> {
        self.running.forget(origin)
    }

    /// Fetches a robots.txt now, whatever was known. To be called where a thread may wait.
    ///
    /// # Errors
    ///
    /// Why it is undecided after that.
    pub fn fetch(&self, origin: &Origin) -> Result<(), Undecided> {
        self.running.fetch(origin)
    }

    /// Reads the settings again; what came of it. To be called where a thread may wait.
    pub fn reload(&self) -> Option<Value> {
        self.running.reload()
    }
}
