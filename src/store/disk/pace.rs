//! The pace of origins beyond a restart: one row for each lane with a time ahead, and a mark that
//! shows whether the process before this one ended in order.

use redb::{ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::Disk;
use super::error::guarded;
use super::file::DatabaseFile;
use crate::pace::KeptLane;
use crate::runtime::clock::Uptime;
use crate::types::origin::{Origin, split_url};
use crate::types::timestamp::Timestamp;

/// Origin → [`KeptRow`] as JSON.
const PACE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("pace");

/// In the table of totals: 1 after an end in order, 0 while a process runs.
const PACE_IS_WHOLE: &str = "pace_is_whole";

/// In the same table: how many proxies shared the engine.
const MEMBERS: &str = "members";

/// What the process before has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPace {
    pub rows: Vec<(Origin, KeptRow)>,
    /// The rows are all there is to know: the process ended in order, or there was none.
    pub is_whole: bool,
}

/// A lane as it was when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRow {
    pub at: Timestamp,
    /// The same, whatever becomes of the date.
    pub uptime: Option<Uptime>,
    pub lane: KeptLane,
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
                    let origin = split_url(origin.value().as_bytes()).map(|(origin, _)| origin);
                    match (origin, serde_json::from_slice(row.value())) {
                        (Ok(origin), Ok(row)) => kept.rows.push((origin, row)),
                        _ => kept.is_whole = false,
                    }
                }
                Ok(())
            })?;
            Ok(kept)
        })
    }

    /// Replaces all rows; `is_whole` where they are all there is to know. Blocks until they are on
    /// the disk.
    pub fn keep_pace(&self, rows: &[(Origin, KeptRow)], is_whole: bool) {
        self.pace_file(|file| {
            file.write(|tables, transaction| {
                transaction.delete_table(PACE)?;
                let mut table = transaction.open_table(PACE)?;
                for (origin, row) in rows {
                    table.insert(&*origin.to_string(), json(row).as_slice())?;
                }
                tables.set_number(PACE_IS_WHOLE, u64::from(is_whole))
            })
        });
    }

    /// How many proxies shared the engine when this was last written; 0: it is not known.
    pub fn members(&self) -> usize {
        let members = self.pace_file(|file| file.number(MEMBERS)).flatten();
        members.and_then(|members| usize::try_from(members).ok()).unwrap_or(0)
    }

    /// Writes how many proxies share the engine: a process that starts while that is away takes its
    /// share of the pace. Blocks until it is on the disk.
    pub fn keep_members(&self, members: usize) {
        let members = u64::try_from(members).unwrap_or(u64::MAX);
        self.pace_file(|file| file.write(|tables, _| tables.set_number(MEMBERS, members)));
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

/// Marks a new file that replaces a lost one: what the process before knew is not in it.
pub(super) fn note_loss(file: &DatabaseFile) -> Result<(), super::DiskError> {
    file.write(|tables, _| tables.set_number(PACE_IS_WHOLE, 0))
}

/// Ends the hold of `origin`; whether there was one. Its delays stay.
pub(super) fn forget_hold(
    transaction: &WriteTransaction,
    origin: &str,
) -> Result<bool, super::DiskError> {
    let mut table = transaction.open_table(PACE)?;
    let row = table.get(origin)?.map(|row| row.value().to_vec());
    let row = row.and_then(|row| serde_json::from_slice::<KeptRow>(&row).ok());
    let Some(mut row) = row.filter(|row| row.lane.hold.is_some()) else { return Ok(false) };
    row.lane.hold = None;
    table.insert(origin, json(&row).as_slice())?;
    Ok(true)
}

fn json(row: &KeptRow) -> Vec<u8> {
    serde_json::to_vec(row).expect("plain values")
}
