//! Why a parent proxy has made no connection.

use std::time::Duration;

/// What a parent did in place of a connection. It says nothing of the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentFailure {
    /// Scheme, host and port of the parent, without credentials.
    pub parent: String,
    /// The status that it answered with, if it did so by HTTP.
    pub status: Option<u16>,
    /// After how long it may be asked again: as it says, or when its back-off ends.
    pub retry_after: Option<Duration>,
    /// Whether it has refused the request as one that had been through it before.
    pub is_loop: bool,
}

/// Why a parent opened no tunnel to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelFailure {
    /// In words.
    pub reason: String,
    pub fault: Fault,
    /// The status of its answer to CONNECT.
    pub status: Option<u16>,
    /// Its `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Whether it says that the request had been through it before.
    pub is_loop: bool,
}

/// What is at fault when a parent has made no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The parent itself: other targets would fail as well.
    Parent,
    /// The parent refuses the name and password, or requires some.
    Credentials,
    /// The parent refuses CONNECT to this port, or to this host.
    Port,
    /// The parent has answered: it does not connect to this target, or not now.
    Target,
    /// The parent or the target: there was no answer. A target that takes no connections must not
    /// have the parent taken for one that is down.
    Unknown,
}

impl TunnelFailure {
    /// The parent itself is at fault.
    pub fn parent(reason: impl Into<String>) -> Self {
        Self::new(Fault::Parent, reason)
    }

    /// There was no answer.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::new(Fault::Unknown, reason)
    }

    /// Without a status.
    pub fn new(fault: Fault, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault, status: None, retry_after: None, is_loop: false }
    }
}
