//! The answers, the same from a running proxy and from the file that none uses.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use tokio::runtime::Handle;

use super::{ControlError, End, Question, Tell};
use crate::pace::Lanes;
use crate::store::disk::{Disk, Each, Offline, OpenError, Stats};
use crate::store::{Report, Store};
use crate::types::origin::{Origin, split_url};

/// Reads and changes the store: of a running proxy, or offline.
pub trait StoreAdmin {
    /// The amount of stored data.
    fn stats(&self) -> Result<Stats, ControlError>;
    /// What is stored of `origin`.
    fn get(&self, origin: &Origin) -> Result<Option<Report>, ControlError>;
    /// Removes what is stored of `origin`; returns whether there was anything.
    fn forget(&self, origin: &Origin) -> Result<bool, ControlError>;
    /// How many origins were left out, because what is kept of them does not hold.
    fn export(&self, each: Each<'_>) -> Result<u64, ControlError>;
}

/// Answers `question` item by item.
pub fn answer(
    question: &Question,
    store: &dyn StoreAdmin,
    tell: Tell<'_>,
) -> Result<End, ControlError> {
    match question {
        Question::StoreStats => item(store.stats()?, tell)?,
        Question::StoreGet { origin } => {
            if let Some(report) = store.get(&parse(origin)?)? {
                item(report, tell)?;
            }
        }
        Question::StoreForget { origin } => item(store.forget(&parse(origin)?)?, tell)?,
        Question::StoreExport => {
            let broken = store.export(&mut |report| tell(serde_json::to_value(report)?))?;
            return Ok(End { broken });
        }
    }
    Ok(End::default())
}

fn item(item: impl Serialize, tell: Tell<'_>) -> Result<(), ControlError> {
    tell(serde_json::to_value(item)?).map_err(ControlError::Tell)
}

fn parse(text: &str) -> Result<Origin, ControlError> {
    let wrong = |why| ControlError::Origin { origin: text.into(), why };
    let (origin, _) = split_url(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    Ok(origin)
}

fn exported(exported: Result<io::Result<u64>, OpenError>) -> Result<u64, ControlError> {
    exported?.map_err(ControlError::Tell)
}

/// A running proxy.
#[derive(Clone, Debug)]
pub struct Running {
    pub store: Arc<Store>,
    pub lanes: Arc<Lanes>,
}

/// It is asked on a thread that may wait.
impl StoreAdmin for Running {
    /// The amount of stored data.
    fn stats(&self) -> Result<Stats, ControlError> {
        Ok(disk(&self.store)?.stats()?)
    }

    /// What is stored of `origin`.
    fn get(&self, origin: &Origin) -> Result<Option<Report>, ControlError> {
        let look =
            async { (self.store.get(origin).await, self.store.get_from_engine(origin).await) };
        let (report, shared) = Handle::current().block_on(look);
        let is_shared = shared.as_ref().is_some_and(|it| it.known.is_some() || it.hold.is_some());
        let report = report.or_else(|| is_shared.then(|| Report::unknown(origin)));
        Ok(report.map(|report| Report { pace: self.lanes.view(origin), shared, ..report }))
    }

    /// Removes what is stored of `origin`; returns whether there was anything.
    fn forget(&self, origin: &Origin) -> Result<bool, ControlError> {
        let was_held = self.lanes.end_hold(origin);
        Ok(Handle::current().block_on(Store::forget(&self.store, origin)) || was_held)
    }

    fn export(&self, each: Each<'_>) -> Result<u64, ControlError> {
        exported(disk(&self.store)?.export(each))
    }
}

fn disk(store: &Store) -> Result<&Disk, ControlError> {
    store.disk().ok_or(ControlError::Disabled)
}

impl StoreAdmin for Offline {
    /// The amount of stored data.
    fn stats(&self) -> Result<Stats, ControlError> {
        Ok(self.stats()?)
    }

    /// What is stored of `origin`.
    fn get(&self, origin: &Origin) -> Result<Option<Report>, ControlError> {
        Ok(self.get(origin)?)
    }

    /// Removes what is stored of `origin`; returns whether there was anything.
    fn forget(&self, origin: &Origin) -> Result<bool, ControlError> {
        Ok(self.forget(origin)?)
    }

    fn export(&self, each: Each<'_>) -> Result<u64, ControlError> {
        exported(self.export(each))
    }
}
