//! The database file: opened exclusively, checked, migrated, and read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    TableError, WriteTransaction,
};

use super::error::{self, DiskError};
use super::tables::{BLOBS, BYTES, META, ORIGINS, SCHEMA, Tables, Totals, checksum};
use crate::store::persisted::{Blobs, Persisted};

/// Pages of the store that are held in memory.
const STORE_CACHE_BYTES: usize = 16 << 20;

/// Bytes of a file below which the store is never compacted at start.
const STORE_COMPACT_BYTES_MIN: u64 = 32 << 20;

/// An open database.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    database: Database,
    path: PathBuf,
}

/// A row as read.
pub(super) enum Row {
    Stored(Box<Persisted>, Blobs),
    /// Its checksum does not match: remove it.
    Broken,
}

impl DatabaseFile {
    /// Opens the file, or creates it if `may_begin`. Checks every page first, so that damage is
    /// found here and not by a request.
    pub(super) fn open(path: &Path, may_begin: bool) -> Result<Self, DiskError> {
        let io = |error: io::Error| DiskError::from(redb::Error::Io(error));
        if let Some(dir) = path.parent().filter(|_| may_begin) {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
        }
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(may_begin).mode(0o600).open(path).map_err(io)?;
        let is_new = file.metadata().map_err(io)?.len() == 0;
        let backend = FileBackend::new(file).map_err(DiskError::from)?;
        let database = Builder::new()
            .set_cache_size(STORE_CACHE_BYTES)
            .set_check_integrity_on_open(!is_new)
            .create_with_backend(backend)?;
        let file = Self { database, path: path.to_owned() };
        file.bring_up_to_date()?;
        Ok(file)
    }

    fn bring_up_to_date(&self) -> Result<(), DiskError> {
        match self.schema()? {
            Some(SCHEMA_VERSION) => Ok(()),
            Some(newer) if newer > SCHEMA_VERSION => Err(DiskError::Newer(format!(
                "its schema is version {newer}, and this courtesy knows {SCHEMA_VERSION}"
            ))),
            older => self.write(|tables, transaction| {
                migrate_from(older.unwrap_or(SCHEMA_VERSION), tables, transaction)
            }),
        }
    }

    /// `None` if no schema was ever written.
    fn schema(&self) -> Result<Option<u64>, DiskError> {
        let transaction = self.database.begin_read()?;
        match transaction.open_table(META) {
            Ok(meta) => Ok(meta.get(SCHEMA)?.map(|schema| schema.value())),
            Err(TableError::TableDoesNotExist(_))
                if transaction.list_tables()?.next().is_none() =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A number of the table of totals.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, DiskError> {
        let transaction = self.database.begin_read()?;
        Ok(transaction.open_table(META)?.get(name)?.map(|number| number.value()))
    }

    /// Runs `work` in one transaction; it is on the disk when this returns.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&mut Tables<'_>, &redb::WriteTransaction) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        let transaction = self.database.begin_write()?;
        let mut tables = Tables::open(&transaction)?;
        let done = work(&mut tables, &transaction)?;
        tables.finish()?;
        transaction.commit()?;
        Ok(done)
    }

    pub(super) fn read(&self, origin: &str) -> Result<Option<Row>, DiskError> {
        let transaction = self.database.begin_read()?;
        let origins = transaction.open_table(ORIGINS)?;
        let Some(row) = origins.get(origin)? else { return Ok(None) };
        let (_, sum, json) = row.value();
        let Some(persisted) = checked(origin, sum, json) else { return Ok(Some(Row::Broken)) };
        let table = transaction.open_table(BLOBS)?;
        let mut blobs = Blobs::new();
        for digest in persisted.digests() {
            let stored = table.get(&digest.0)?;
            match stored.and_then(|stored| error::decode_blob(stored.value(), &digest)) {
                Some(content) => blobs.insert(digest, content),
                None => return Ok(Some(Row::Broken)),
            };
        }
        Ok(Some(Row::Stored(Box::new(persisted), blobs)))
    }

    /// Calls `each` for every origin in order. Returns how many rows were broken and left out.
    pub(super) fn for_each(
        &self,
        mut each: impl FnMut(&str, Persisted) -> io::Result<()>,
    ) -> Result<io::Result<u64>, DiskError> {
        let transaction = self.database.begin_read()?;
        let mut broken = 0;
        for row in transaction.open_table(ORIGINS)?.iter()? {
            let (origin, value) = row?;
            let (_, sum, json) = value.value();
            match checked(origin.value(), sum, json)
                .map(|persisted| each(origin.value(), persisted))
            {
                Some(Ok(())) => {}
                Some(Err(error)) => return Ok(Err(error)),
                None => broken += 1,
            }
        }
        Ok(Ok(broken))
    }

    pub(super) fn totals(&self) -> Result<Totals, DiskError> {
        let transaction = self.database.begin_read()?;
        let bytes = transaction.open_table(META)?.get(BYTES)?.map_or(0, |bytes| bytes.value());
        Ok(Totals { entries: transaction.open_table(ORIGINS)?.len()?, bytes })
    }

    /// The number of files and captures.
    pub(super) fn blobs(&self) -> Result<u64, DiskError> {
        Ok(self.database.begin_read()?.open_table(BLOBS)?.len()?)
    }

    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// How many bytes of content fit without growing the file beyond `size_max`. The file grows by
    /// doubling, and half of it is needed for free space in pages and for the transaction that
    /// replaces them. One percent is ignored: the file is always a little larger than a power of
    /// two, and would stop at half of a limit that is one.
    pub(super) fn room(&self, size_max: u64) -> u64 {
        let bytes = self.bytes();
        let allows_large_reads = bytes.saturating_mul(2) <= size_max.saturating_add(size_max / 100);
        if allows_large_reads { u64::MAX } else { bytes.min(size_max) / 2 }
    }

    /// Compacts the file if most of it is unused. The work is in proportion to the content, so it
    /// is done only where there is little.
    pub(super) fn compact_if_worth_it(&mut self) -> Result<bool, DiskError> {
        let (file, content) = (self.bytes(), self.totals()?.bytes);
        if file < STORE_COMPACT_BYTES_MIN || content > file / 8 {
            return Ok(false);
        }
        self.compact()
    }

    pub(super) fn compact(&mut self) -> Result<bool, DiskError> {
        Ok(self.database.compact()?)
    }
}

fn checked(origin: &str, sum: &[u8; 32], json: &[u8]) -> Option<Persisted> {
    let whole = checksum(origin, json) == *sum;
    whole.then(|| serde_json::from_slice(json).ok()).flatten()
}

// Migrates older schemas, one step per version, all in one transaction: a process that is killed
// meanwhile has changed nothing.

/// The schema of [`super::tables`]. Raise it, and add a step below, whenever an older version would
/// read the tables wrongly. New members of the JSON need none.
pub(super) const SCHEMA_VERSION: u64 = 1;

/// Version 0, before any release: origin → JSON without a checksum or an order of writes, and files
/// as received.
pub(super) const ORIGINS_0: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("knowledge");
pub(super) const FILES_0: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("files");

pub(super) fn migrate_from(
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
