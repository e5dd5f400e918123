//! Migrates older schemas, one step per version, all in one transaction: a process that is killed
//! meanwhile has changed nothing.

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::super::convert::Blobs;
use super::super::persisted::Persisted;
use super::error::DiskError;
use super::tables::{SCHEMA, Tables};

/// The schema of [`super::tables`]. Raise it, and add a step below, whenever an older version would
/// read the tables wrongly. New members of the JSON need none.
pub(super) const SCHEMA_VERSION: u64 = 1;

/// Version 0, before any release: origin → JSON without a checksum or an order of writes, and files
/// as received.
pub(super) const ORIGINS_0: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("knowledge");
pub(super) const FILES_0: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("files");

pub(super) fn from(
    version: u64,
    tables: &mut Tables<'_>,
    transaction: &WriteTransaction,
) -> Result<(), DiskError> {
    if version < 1 {
        to_1(tables, transaction)?;
    }
    tables.set_number(SCHEMA, SCHEMA_VERSION)
}

/// Leaves out what cannot be read: the origin is fetched again.
fn to_1(tables: &mut Tables<'_>, transaction: &WriteTransaction) -> Result<(), DiskError> {
    {
        let origins = transaction.open_table(ORIGINS_0)?;
        let files = transaction.open_table(FILES_0)?;
        for row in origins.iter()? {
            let (origin, json) = row?;
            let Ok(persisted) = serde_json::from_slice::<Persisted>(json.value()) else { continue };
            let mut blobs = Blobs::new();
            for digest in persisted.digests() {
                if let Some(content) = files.get(&digest.0)? {
                    blobs.insert(digest, content.value().to_vec().into());
                }
            }
            tables.put(origin.value(), &persisted, &blobs)?;
        }
    }
    transaction.delete_table(ORIGINS_0)?;
    transaction.delete_table(FILES_0)?;
    Ok(())
}
