//! The file of a state directory: its folder, its tables, its clock.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use rustix::fs::{Access, FlockOperation, access, flock, statfs};

use crate::engine::clock::Micros;
use crate::engine::error::{Error, ErrorKind};
use crate::runtime::clock::{Boottime, Clock, SystemClock, monotonic};

/// The folder of the file within a state directory. Everything of a file of SQLite (its log, its
/// index) is moved together, or rows of an old file come up in a new one.
const FOLDER: &str = "state";
const FILE: &str = "state.db";
const LOG: &str = "state.db-wal";
/// Held while a damaged folder is set aside.
const LOCK: &str = "state.lock";
/// `user_version` of the tables below.
const FORMAT: i64 = 1;
/// How long a transaction is tried to begin: as long as its operations are waited for.
const BEGIN_MAX: Duration = Duration::from_secs(1);
/// How long another process's transaction is waited for at once, by sleeps of a random length: with
/// SQLite's own, which double, ten times as many transactions wait for 8 ms.
const BUSY_TRIES: i32 = 90;
const BUSY_SLEEP_MICROS: std::ops::Range<u64> = 100..1000;

const TABLES: &str = "
    CREATE TABLE origin (origin TEXT PRIMARY KEY, token INTEGER NOT NULL, changed INTEGER NOT NULL,
        sha256 BLOB NOT NULL, known BLOB NOT NULL) STRICT;
    CREATE INDEX origin_changed ON origin (changed);
    CREATE TABLE file (sha256 BLOB PRIMARY KEY, used INTEGER NOT NULL, content BLOB NOT NULL) STRICT;
    CREATE INDEX file_used ON file (used);
    CREATE TABLE lane (host TEXT NOT NULL, name TEXT NOT NULL, next INTEGER NOT NULL,
        reach INTEGER NOT NULL, PRIMARY KEY (host, name)) STRICT, WITHOUT ROWID;
    CREATE INDEX lane_next ON lane (next);
    CREATE TABLE hold (host TEXT PRIMARY KEY, until INTEGER NOT NULL, status INTEGER NOT NULL,
        cause TEXT NOT NULL, streak INTEGER NOT NULL, seq INTEGER NOT NULL,
        process TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX hold_seq ON hold (seq);
    CREATE TABLE lease (origin TEXT PRIMARY KEY, token INTEGER NOT NULL, ends INTEGER NOT NULL,
        holder TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE presence (host TEXT NOT NULL, process TEXT NOT NULL, seen INTEGER NOT NULL,
        PRIMARY KEY (host, process)) STRICT, WITHOUT ROWID;
    CREATE TABLE process (id TEXT PRIMARY KEY, pid INTEGER NOT NULL, node TEXT NOT NULL,
        boot TEXT NOT NULL, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE clock (boot TEXT NOT NULL, offset INTEGER NOT NULL, seen INTEGER NOT NULL,
        epoch INTEGER NOT NULL) STRICT;
    CREATE TABLE left (is_whole INTEGER NOT NULL) STRICT;
    INSERT INTO left VALUES (1);
";

/// An open file.
#[derive(Debug)]
pub(super) struct StateFile {
    pub connection: Connection,
    folder: PathBuf,
    /// Device and inode: another file may have been put in its place.
    identity: (u64, u64),
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LocalFileError {
    #[error("{} was written by a newer courtesy; use that version, or move the directory away", .0.display())]
    Newer(PathBuf),
    #[error("{} is on a network file system, where two machines would ruin it; set another state directory (--state-dir)", .0.display())]
    Network(PathBuf),
    #[error("cannot use {}: {source}", path.display())]
    Io { source: io::Error, path: PathBuf },
    #[error("cannot use {}: {source}", path.display())]
    Sql { source: rusqlite::Error, path: PathBuf },
}

impl From<LocalFileError> for Error {
    fn from(error: LocalFileError) -> Self {
        ErrorKind::Persistence.with(error.to_string())
    }
}

/// What an error of SQLite means.
pub(super) fn fault(error: &rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Busy,
        _ => ErrorKind::Persistence,
    };
    kind.with(error.to_string())
}

/// Whether the file is damaged: nothing else may set it aside, least of all a full disk or a lock.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    let is_corrupt = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    );
    is_corrupt || error.to_string().contains("no such table")
}

impl StateFile {
    /// Opens the file of `state_dir`, which is made if need be. One that is damaged is set aside,
    /// with its folder.
    pub(super) fn open(state_dir: &Path) -> Result<Self, LocalFileError> {
        let folder = state_dir.join(FOLDER);
        let io = |error| LocalFileError::Io { source: error, path: folder.clone() };
        DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(io)?;
        if is_network(state_dir).map_err(io)? {
            return Err(LocalFileError::Network(folder));
        }
        if !folder.join(FILE).exists() {
            make(state_dir, &folder, 0)?;
        }
        match Self::open_in(&folder) {
            Err(LocalFileError::Sql { source: error, .. }) if is_damage(&error) => {
                let is_damaged = || {
                    let opened = Self::open_in(&folder);
                    matches!(opened, Err(LocalFileError::Sql { source, .. }) if is_damage(&source))
                };
                Self::begin_anew(state_dir, &error.to_string(), is_damaged)
            }
            opened => opened,
        }
    }

    /// Another one in the place of this one, which an operation has found damaged.
    pub(super) fn replaced(self, state_dir: &Path) -> Result<Self, LocalFileError> {
        let path = self.folder.join(FILE);
        let is_damaged = || identity(&path).is_ok_and(|identity| identity == self.identity);
        Self::begin_anew(state_dir, "an operation has failed by it", is_damaged)
    }

    /// Sets the folder aside, with all that is in it, if it still `is_damaged` once no other process does so,
    /// and begins a new one.
    fn begin_anew(
        state_dir: &Path,
        why: &str,
        is_damaged: impl FnOnce() -> bool,
    ) -> Result<Self, LocalFileError> {
        let folder = state_dir.join(FOLDER);
        let io = |error| LocalFileError::Io { source: error, path: folder.clone() };
        let lock = File::create(state_dir.join(LOCK)).map_err(io)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| io(error.into()))?;
        if is_damaged() {
            let date = SystemClock.wall().millis();
            let aside = state_dir.join(format!("{FOLDER}.damaged-{date}"));
            fs::rename(&folder, &aside).map_err(io)?;
            tracing::error!(
                "{} was damaged ({why}); it is renamed to {}, and a new one is begun",
                folder.display(),
                aside.display()
            );
            make(state_dir, &folder, Boottime::now().micros.max(date * 1000))?;
        }
        Self::open_in(&folder)
    }

    fn open_in(folder: &Path) -> Result<Self, LocalFileError> {
        let path = folder.join(FILE);
        let identity = identity(&path)
            .map_err(|error| LocalFileError::Io { source: error, path: path.clone() })?;
        let sql = |error| LocalFileError::Sql { source: error, path: path.clone() };
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?;
        let format: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
        if format > FORMAT {
            return Err(LocalFileError::Newer(folder.to_owned()));
        }
        let file = Self { connection, folder: folder.to_owned(), identity };
        file.set_clock().map_err(sql)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Whether its path still leads to it.
    pub(super) fn is_in_place(&self) -> bool {
        identity(&self.folder.join(FILE)).is_ok_and(|identity| identity == self.identity)
    }

    /// Bytes of the log, which a checkpoint empties.
    pub(super) fn log_bytes(&self) -> u64 {
        fs::metadata(self.folder.join(LOG)).map_or(0, |metadata| metadata.len())
    }

    /// Bytes of what is kept, and of the file with its free pages.
    pub(super) fn bytes(&self) -> rusqlite::Result<(u64, u64)> {
        let number =
            |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        let (pages, size) = (number("page_count")?, number("page_size")?);
        Ok(((pages - number("freelist_count")?) * size, pages * size))
    }

    /// Gives so many free pages back to the system at most; 0: all.
    pub(super) fn vacuum(&self, pages: u32) -> rusqlite::Result<()> {
        // Stepped to its end: once executed it frees one page.
        let mut vacuum = self.connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    }

    /// Copies the log into the file: `PASSIVE` as far as no reader is in the way, `RESTART` and `TRUNCATE` all of it.
    pub(super) fn checkpoint(&self, kind: &str) -> rusqlite::Result<()> {
        self.connection.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |_| Ok(()))
    }

    /// Sets the clock, unless it goes on.
    fn set_clock(&self) -> rusqlite::Result<()> {
        let tx = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        let stored = tx
            .query_row("SELECT boot, offset, seen FROM clock", [], |row| {
                Ok(FileClock { boot: row.get(0)?, offset: row.get(1)?, seen: row.get(2)? })
            })
            .optional()?;
        let date = SystemClock.wall().millis() * 1000;
        if let Some(FileClock { boot, offset, seen }) =
            stored.unwrap_or_default().after(&Boottime::now(), date)
        {
            let set = "UPDATE clock SET boot = ?1, offset = ?2, seen = ?3";
            tx.execute(set, (boot, offset, seen))?;
        }
        tx.commit()
    }
}

/// Where the file of a state directory is.
pub(super) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(FOLDER).join(FILE)
}

/// Begins a transaction, however busy others are, as long as its operations are waited for: what is
/// refused would start by this process's own count.
pub(super) fn begin(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    let end = monotonic() + BEGIN_MAX;
    loop {
        let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        let is_busy = |error: &rusqlite::Error| fault(error).kind == ErrorKind::Busy;
        if monotonic() >= end || !begun.as_ref().is_err_and(is_busy) {
            return begun;
        }
    }
}

/// The time of a file is that since the boot, which no date moves, and an offset that goes on over
/// boots. It never goes back behind what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FileClock {
    /// The boot; empty where it has no name.
    boot: String,
    offset: i64,
    seen: Micros,
}

impl FileClock {
    /// The clock as it is set at an open; `None`: it goes on. After a boot there is the date alone, or
    /// what was seen: late, never early. Without a name of the boot it goes on as long as it can.
    fn after(&self, boottime: &Boottime, date: Micros) -> Option<Self> {
        let boot = boottime.boot.clone().unwrap_or_default();
        let is_same = self.boot == boot || self.boot.is_empty() || boot.is_empty();
        let is_set = self.seen > 0;
        if is_set && is_same && boottime.micros.saturating_add_signed(self.offset) >= self.seen {
            return None;
        }
        let seen = date.max(self.seen);
        let offset = i128::from(seen) - i128::from(boottime.micros);
        Some(Self { boot, offset: i64::try_from(offset).unwrap_or(i64::MAX), seen })
    }
}

/// The time of the file within a transaction, and when its data began.
pub(super) fn now(tx: &Connection) -> rusqlite::Result<(Micros, Micros)> {
    let mut clock = tx.prepare_cached("SELECT offset, seen, epoch FROM clock")?;
    clock.query_row([], |row| {
        let (offset, seen): (i64, u64) = (row.get(0)?, row.get(1)?);
        let now = Boottime::now().micros.saturating_add_signed(offset).max(seen);
        Ok((now, row.get(2)?))
    })
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_handler(Some(wait_for_lock))?;
    // The last to close would sync four times, and each short run is the last one.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn wait_for_lock(tries: i32) -> bool {
    if tries >= BUSY_TRIES {
        return false;
    }
    sleep(Duration::from_micros(fastrand::u64(BUSY_SLEEP_MICROS)));
    true
}

/// Makes the folder whole under another name: where sixty processes make one in place, half of them
/// find it locked.
fn make(state_dir: &Path, folder: &Path, epoch: Micros) -> Result<(), LocalFileError> {
    let made = state_dir.join(format!("{FOLDER}.{}", ulid::Ulid::new()));
    let io = |error| LocalFileError::Io { source: error, path: made.clone() };
    DirBuilder::new().mode(0o700).create(&made).map_err(io)?;
    let path = made.join(FILE);
    let result = fill(&path, epoch);
    // Another process may have been faster.
    let renamed = fs::rename(&made, folder);
    if result.is_err() || renamed.is_err() {
        let _ = fs::remove_dir_all(&made);
    }
    result?;
    match renamed {
        Err(_) if folder.join(FILE).exists() => Ok(()),
        renamed => {
            renamed.map_err(|error| LocalFileError::Io { source: error, path: folder.to_owned() })
        }
    }
}

fn fill(path: &Path, epoch: Micros) -> Result<(), LocalFileError> {
    let io = |error| LocalFileError::Io { source: error, path: path.to_owned() };
    let sql = |error| LocalFileError::Sql { source: error, path: path.to_owned() };
    // SQLite gives its log and index the mode of the file.
    let file = File::create_new(path).map_err(io)?;
    file.set_permissions(Permissions::from_mode(0o600)).map_err(io)?;
    drop(file);
    let make = || {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "page_size", 8192)?;
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.execute_batch(TABLES)?;
        connection.execute("INSERT INTO clock VALUES ('', 0, 0, ?1)", [epoch])?;
        connection.pragma_update(None, "user_version", FORMAT)
    };
    make().map_err(sql)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The directory that the processes of a state directory share: itself or, where it cannot be written or
/// is on a network file system, `courtesy` in the `runtime` directory of this user. `None`: there is none.
pub fn shared_dir(state_dir: &Path, runtime: Option<&Path>) -> Option<PathBuf> {
    if is_usable(state_dir) {
        return Some(state_dir.to_owned());
    }
    let runtime = runtime?;
    let metadata = fs::metadata(runtime).ok()?;
    // One that others may write to could hold a file of theirs.
    let is_own =
        metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    let dir = runtime.join("courtesy");
    (is_own && is_usable(&dir)).then_some(dir)
}

/// Whether a directory, which is made if need be, is of this machine and can be written.
fn is_usable(dir: &Path) -> bool {
    let is_made = DirBuilder::new().recursive(true).mode(0o700).create(dir).is_ok();
    is_made
        && access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && !is_network(dir).unwrap_or(true)
}

/// File systems of other machines, by their numbers (statfs(2)): two machines have two memories of
/// the index of the log there, and ruin the file without an error.
fn is_network(dir: &Path) -> io::Result<bool> {
    const NETWORK: [u64; 9] = [
        0x6969,      // NFS
        0x517b,      // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB2
        0x0102_1997, // 9P
        0x6573_5546, // FUSE
        0x00c3_6400, // Ceph
        0x5346_414f, // AFS
        0x0bd0_0bd0, // Lustre
    ];
    let kind = statfs(dir)?.f_type;
    Ok(NETWORK
        .iter()
        .any(|network| *network == u64::try_from(kind).unwrap_or_default() & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Micros = 3_600_000_000;
    const DATE: Micros = 1_800_000_000_000_000;

    fn boottime(boot: &str, micros: Micros) -> Boottime {
        Boottime { boot: (!boot.is_empty()).then(|| boot.to_owned()), micros }
    }

    /// Its time when `boottime` is read.
    fn time(clock: &FileClock, boottime: &Boottime) -> Micros {
        boottime.micros.saturating_add_signed(clock.offset).max(clock.seen)
    }

    #[test]
    fn the_clock_of_a_file_goes_on_and_never_back() {
        let begun = FileClock::default().after(&boottime("a", HOUR), DATE).expect("it is set");
        assert_eq!(time(&begun, &boottime("a", HOUR)), DATE);
        let seen = FileClock { seen: DATE + HOUR, ..begun };
        for (case, boot, uptime, date, expected) in [
            ("an hour later, whatever the date", "a", 3 * HOUR, 0, None),
            ("the same without a name of the boot", "", 3 * HOUR, 0, None),
            ("another boot", "b", HOUR, DATE + 5 * HOUR, Some(DATE + 5 * HOUR)),
            ("another boot and a date of before", "b", HOUR, DATE, Some(DATE + HOUR)),
            ("another boot that has no name", "", HOUR / 2, DATE + 3 * HOUR, Some(DATE + 3 * HOUR)),
            ("the time since the boot goes back", "a", HOUR / 2, DATE, Some(DATE + HOUR)),
        ] {
            let now = boottime(boot, uptime);
            let after = seen.after(&now, date);
            assert_eq!(after.map(|clock| time(&clock, &now)), expected, "{case}");
        }
    }
}
