//! The pace of origins beyond a restart: one row for each lane with a time ahead, and a mark by
//! which a process knows whether the one before ended in order.

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::Disk;
use super::error::guarded;
use super::file::DatabaseFile;
use crate::pace::KeptLane;
use crate::types::origin::{Origin, split_url};
use crate::types::timestamp::Timestamp;

/// Origin → when it was written, and what its lane is to be, as JSON.
const PACE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("pace");

/// In the table of totals: 1 after an end in order, 0 while a process runs.
const PACE_IS_WHOLE: &str = "pace_is_whole";

/// Ends the hold of `origin`; whether there was one. Its delays stay.
pub(super) fn forget_hold(
    transaction: &WriteTransaction,
    origin: &str,
) -> Result<bool, super::DiskError> {
    let mut table = transaction.open_table(PACE)?;
    let row = table.get(origin)?.map(|row| row.value().to_vec());
    let kept = row.and_then(|row| serde_json::from_slice::<(Timestamp, KeptLane)>(&row).ok());
    let Some((at, lane)) = kept.filter(|(_, lane)| lane.hold.is_some()) else { return Ok(false) };
    let row = serde_json::to_vec(&(at, KeptLane { hold: None, ..lane })).expect("plain values");
    table.insert(origin, row.as_slice())?;
    Ok(true)
}

/// What the process before has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPace {
    pub rows: Vec<(Origin, Vec<u8>)>,
    /// The rows are all there is to know: the process ended in order, or there was none.
    pub is_whole: bool,
}

impl Disk {
    /// Reads what the process before has left, and marks that one runs. `None`: the store cannot
    /// be used.
    pub fn begin_pace(&self) -> Option<KeptPace> {
        self.pace_file(|file| {
            let mark = file.number(PACE_IS_WHOLE)?;
            let mut kept = KeptPace { rows: Vec::new(), is_whole: mark != Some(0) };
            file.write(|tables, transaction| {
                tables.set_number(PACE_IS_WHOLE, 0)?;
                for row in transaction.open_table(PACE)?.iter()? {
                    let (origin, row) = row?;
                    if let Ok((origin, _)) = split_url(origin.value().as_bytes()) {
                        kept.rows.push((origin, row.value().to_vec()));
                    }
                }
                Ok(())
            })?;
            Ok(kept)
        })
    }

    /// Replaces all rows; `is_whole` at an end in order. Blocks until they are on the disk.
    pub fn keep_pace(&self, rows: &[(Origin, Vec<u8>)], is_whole: bool) {
        self.pace_file(|file| {
            file.write(|tables, transaction| {
                transaction.delete_table(PACE)?;
                let mut table = transaction.open_table(PACE)?;
                for (origin, row) in rows {
                    table.insert(&*origin.to_string(), row.as_slice())?;
                }
                tables.set_number(PACE_IS_WHOLE, u64::from(is_whole))
            })
        });
    }

    /// Runs `work` on the file, if there is one. An error makes it as if there was none: it costs
    /// time, and no early start.
    fn pace_file<T>(
        &self,
        work: impl FnOnce(&DatabaseFile) -> Result<T, super::DiskError>,
    ) -> Option<T> {
        let file = self.shared.state().file.clone()?;
        match guarded(|| work(&file)) {
            Ok(done) => Some(done),
            Err(error) => {
                let error = error.at(self.shared.config.path.clone());
                tracing::warn!("the pace of origins does not outlive the process: {error}");
                None
            }
        }
    }
}
