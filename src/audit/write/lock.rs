//! The lock of a directory of records: one process writes there; readers can check whether one
//! does.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::audit::private_file::private;
use crate::runtime::clock::monotonic;

/// The interval of attempts.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The lock file in the log's directory.
pub const NAME: &str = "lock";

/// Whether a process is writing the log in `dir`.
pub fn is_written(dir: &Path) -> bool {
    let Ok(lock) = File::open(dir.join(NAME)) else { return false };
    // Given back at once, but a writer that begins at this instant finds it taken: see `take`.
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The lock, to be held as long as anything there is written; `None` where another writer has it
/// for all of `max_wait`. A reader that checks holds it for an instant, so a single attempt does
/// not tell.
pub fn take(dir: &Path, max_wait: Duration) -> io::Result<Option<File>> {
    let lock = private().write(true).open(dir.join(NAME))?;
    let end = monotonic() + max_wait;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::WouldBlock) if monotonic() < end => std::thread::sleep(LOCK_INTERVAL),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
