//! A fetch of the queue: the clients that wait for it, and whether it waits or runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use tokio::sync::oneshot;

use crate::store::fetch::Progress;
use crate::types::client_key::ClientKey;

/// The bounds of concurrent fetches.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Running fetches.
    pub max: usize,
    /// Fetches waiting for a permit.
    pub queue_max: usize,
    /// How long a fetch that requests wait for runs undisturbed while others wait.
    pub busy_wait: Duration,
}

/// Why a fetch ends without having run, or before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// No request waits for it any more.
    Abandoned,
    /// Others need its permit, or too many wait.
    Busy,
    /// The queue has dropped it: an internal error, or the proxy shuts down.
    Aborted,
}

/// Signals to a fetch that it has to stop, and why.
pub type CancelSignal = oneshot::Receiver<CancelReason>;

/// The number of a fetch.
pub type Id = u64;

/// A client's turn at a permit, for a fetch that it waits for.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: Id,
    pub(super) client: ClientKey,
}

#[derive(Debug)]
pub(super) struct Fetch {
    /// The client that caused it.
    pub(super) client: ClientKey,
    /// The waiting clients, each with its number of requests.
    pub(super) waiting: Vec<(ClientKey, usize)>,
    pub(super) stage: Stage,
    pub(super) progress: Arc<Progress>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Has not requested a permit yet, or waits for none any more.
    Idle,
    Queued(oneshot::Sender<PermitResult>),
    Running {
        /// The client whose share it counts against.
        client: ClientKey,
        since: Instant,
        /// `None` once it has been cancelled.
        cancel: Option<oneshot::Sender<CancelReason>>,
    },
}

/// The outcome of requesting a permit.
pub enum PermitRequestOutcome {
    Granted(CancelSignal),
    Queued(oneshot::Receiver<PermitResult>),
    Refused,
}

/// A permit, or why there is none.
pub type PermitResult = Result<CancelSignal, CancelReason>;

impl Fetch {
    /// The client that holds its permit, unless it has none or has been cancelled.
    pub(super) fn holder(&self) -> Option<&ClientKey> {
        match &self.stage {
            Stage::Running { client, cancel: Some(_), .. } => Some(client),
            _ => None,
        }
    }
}

impl Turn {
    /// Whether the fetch still waits for a permit, and the client for the fetch.
    pub(super) fn is_pending(&self, fetches: &HashMap<Id, Fetch>) -> bool {
        fetches.get(&self.id).is_some_and(|fetch| {
            matches!(fetch.stage, Stage::Queued(_))
                && fetch.waiting.iter().any(|(key, _)| *key == self.client)
        })
    }
}
