//! Database files of earlier versions, and files edited by other programs; for tests.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable};

use super::error;
use super::file::{FILES_0, ORIGINS_0};
use super::tables::{BLOBS, META, ORIGINS, SCHEMA};
use crate::store::persisted::Digest;

/// Rewrites the file at `path` in the schema of version 0. Returns the number of origins.
pub(in crate::store) fn version_0(path: &Path) -> Result<usize, redb::Error> {
    let old = path.with_extension("0");
    let mut count = 0;
    {
        let (now, before) = (Database::open(path)?, Database::create(&old)?);
        let (from, to) = (now.begin_read()?, before.begin_write()?);
        for row in from.open_table(ORIGINS)?.iter()? {
            let (origin, value) = row?;
            to.open_table(ORIGINS_0)?.insert(origin.value(), value.value().2)?;
            count += 1;
        }
        for row in from.open_table(BLOBS)?.iter()? {
            let (digest, stored) = row?;
            let content =
                error::decode_blob(stored.value(), &Digest(*digest.value())).unwrap_or_default();
            to.open_table(FILES_0)?.insert(digest.value(), &*content)?;
        }
        to.open_table(META)?.insert(SCHEMA, 0)?;
        to.commit()?;
    }
    std::fs::rename(old, path)?;
    Ok(count)
}

/// Edits the JSON of an origin without its checksum. Returns whether that changed it.
pub(in crate::store) fn edit(
    path: &Path,
    origin: &str,
    from: &str,
    to: &str,
) -> Result<bool, redb::Error> {
    let database = Database::open(path)?;
    let transaction = database.begin_write()?;
    let changed = {
        let mut origins = transaction.open_table(ORIGINS)?;
        let row = origins.get(origin)?.map(|row| {
            let (turn, sum, json) = row.value();
            (turn, *sum, String::from_utf8_lossy(json).into_owned())
        });
        let Some((turn, sum, json)) = row else { return Ok(false) };
        let edited = json.replace(from, to);
        origins.insert(origin, (turn, &sum, edited.as_bytes()))?;
        edited != json
    };
    transaction.commit()?;
    Ok(changed)
}
