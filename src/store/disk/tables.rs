//! The tables, and the operations of one transaction. Files and captures are stored once, with a
//! count of the origins that use them, and removed with the last one.

use redb::{ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction};
use sha2::{Digest as _, Sha256};

use super::super::persisted::{Digest, Persisted};
use super::error::{self, DiskError};
use crate::store::persisted::Blobs;

/// Origin → number of its last write, SHA-256 of origin and JSON, [`Persisted`] as JSON.
pub(super) const ORIGINS: TableDefinition<'_, &str, (u64, &[u8; 32], &[u8])> =
    TableDefinition::new("origins");
/// Number of a write → its origin. Writes are numbered, so that a wrong clock cannot reorder them.
const TURNS: TableDefinition<'_, u64, &str> = TableDefinition::new("turns");
/// SHA-256 → a file or a capture, as `encode_blob` makes it.
pub(super) const BLOBS: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("blobs");
/// SHA-256 → the number of origins that use it.
const USES: TableDefinition<'_, &[u8; 32], u64> = TableDefinition::new("uses");
/// Totals and counters.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

pub(super) const SCHEMA: &str = "schema";
pub(super) const BYTES: &str = "octets";
const TURN: &str = "turn";

/// The open tables of one transaction.
pub(super) struct Tables<'a> {
    origins: Table<'a, &'static str, (u64, &'static [u8; 32], &'static [u8])>,
    turns: Table<'a, u64, &'static str>,
    blobs: Table<'a, &'static [u8; 32], &'static [u8]>,
    uses: Table<'a, &'static [u8; 32], u64>,
    meta: Table<'a, &'static str, u64>,
    bytes: u64,
    turn: u64,
}

/// The size of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Origins.
    pub entries: u64,
    /// Bytes of content, without the database's overhead.
    pub bytes: u64,
}

impl<'a> Tables<'a> {
    /// Opens the tables, and creates missing ones.
    pub(super) fn open(transaction: &'a WriteTransaction) -> Result<Self, DiskError> {
        let meta = transaction.open_table(META)?;
        let number = |name| meta.get(name).map(|found| found.map_or(0, |found| found.value()));
        let (bytes, turn) = (number(BYTES)?, number(TURN)?);
        Ok(Self {
            origins: transaction.open_table(ORIGINS)?,
            turns: transaction.open_table(TURNS)?,
            blobs: transaction.open_table(BLOBS)?,
            uses: transaction.open_table(USES)?,
            meta,
            bytes,
            turn,
        })
    }

    pub(super) fn put(
        &mut self,
        origin: &str,
        persisted: &Persisted,
        blobs: &Blobs,
    ) -> Result<(), DiskError> {
        let json =
            serde_json::to_vec(persisted).map_err(|error| DiskError::Io(error.to_string()))?;
        // Acquires new blobs before it releases old ones, so that those in common are not
        // rewritten.
        for digest in persisted.digests() {
            let Some(content) = blobs.get(&digest) else { continue };
            self.acquire(&digest, content)?;
        }
        self.remove(origin)?;
        self.turn += 1;
        self.bytes += row_bytes(origin, &json);
        self.origins.insert(origin, (self.turn, &checksum(origin, &json), json.as_slice()))?;
        self.turns.insert(self.turn, origin)?;
        Ok(())
    }

    /// Returns whether the origin was there.
    pub(super) fn remove(&mut self, origin: &str) -> Result<bool, DiskError> {
        let Some((turn, bytes, digests)) = self.origins.remove(origin)?.map(|row| {
            let (turn, _, json) = row.value();
            let digests = serde_json::from_slice(json).map(|known: Persisted| known.digests());
            (turn, row_bytes(origin, json), digests.unwrap_or_default())
        }) else {
            return Ok(false);
        };
        self.bytes = self.bytes.saturating_sub(bytes);
        self.turns.remove(turn)?;
        digests.iter().try_for_each(|digest| self.release(digest))?;
        Ok(true)
    }

    /// Removes the least recently written origins until the content fits. Returns how many.
    pub(super) fn evict(&mut self, bytes_max: u64) -> Result<u64, DiskError> {
        let mut evicted = 0;
        while self.bytes > bytes_max {
            let Some(oldest) = self.turns.first()?.map(|(_, origin)| origin.value().to_owned())
            else {
                break;
            };
            if !self.remove(&oldest)? {
                // A number without its row must not stay the oldest.
                self.turns.pop_first()?;
            }
            evicted += 1;
        }
        Ok(evicted)
    }

    pub(super) fn finish(mut self) -> Result<(), DiskError> {
        self.meta.insert(BYTES, self.bytes)?;
        self.meta.insert(TURN, self.turn)?;
        Ok(())
    }

    pub(super) fn totals(&self) -> Result<Totals, DiskError> {
        Ok(Totals { entries: self.origins.len()?, bytes: self.bytes })
    }

    pub(super) fn set_number(&mut self, name: &str, number: u64) -> Result<(), DiskError> {
        self.meta.insert(name, number)?;
        Ok(())
    }

    fn acquire(&mut self, digest: &Digest, content: &[u8]) -> Result<(), DiskError> {
        let uses = self.uses.get(&digest.0)?.map_or(0, |uses| uses.value());
        self.uses.insert(&digest.0, uses + 1)?;
        if uses == 0 {
            let stored = error::encode_blob(content);
            self.bytes += blob_bytes(&stored);
            self.blobs.insert(&digest.0, stored.as_slice())?;
        }
        Ok(())
    }

    fn release(&mut self, digest: &Digest) -> Result<(), DiskError> {
        let uses = self.uses.get(&digest.0)?.map_or(0, |uses| uses.value());
        if uses > 1 {
            self.uses.insert(&digest.0, uses - 1)?;
            return Ok(());
        }
        self.uses.remove(&digest.0)?;
        if let Some(stored) = self.blobs.remove(&digest.0)? {
            self.bytes = self.bytes.saturating_sub(blob_bytes(stored.value()));
        }
        Ok(())
    }
}

/// Includes the origin, so that a row under another key does not pass.
pub(super) fn checksum(origin: &str, json: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(origin).chain_update(b"\n").chain_update(json).finalize().into()
}

/// Includes keys, checksum and number.
const fn row_bytes(origin: &str, json: &[u8]) -> u64 {
    2 * origin.len() as u64 + 48 + json.len() as u64
}

/// Includes keys and use count.
const fn blob_bytes(stored: &[u8]) -> u64 {
    72 + stored.len() as u64
}
