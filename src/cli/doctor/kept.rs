//! What is kept: the records of denials, and what is known of origins. A look, and no more: whether
//! every line holds is for `courtesy audit verify`.

use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::super::audit::last_line::last_line;
use super::super::store::size;
use super::finding::Finding;
use crate::audit::read::Log;
use crate::audit::{is_written, read_head};
use crate::config::Settings;
use crate::store::disk::{Offline, OpenError, Stats};

/// Room on the disk under which `courtesy doctor` asks for more: a closed file of the log and its
/// compressed copy stand side by side for a moment, and so do two copies of a small store.
const DISK_FREE_NOTICE_BYTES: u64 = 256 << 20;

/// Whether the log can be written, and reaches the head that was noted.
pub fn records(settings: &Settings) -> Finding {
    let (dir, subject) = (settings.audit().dir, "denial records");
    let shown = dir.display();
    if !dir.exists() {
        return Finding::well(subject, format!("none in {shown} yet"));
    }
    if let Err(error) = access(&dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        let remedy = "give it to the user of the proxy, or choose another: audit.dir";
        return Finding::bad(subject, format!("{shown} cannot be written: {error}"), remedy);
    }
    let is_written = is_written(&dir);
    let noted = read_head(&dir);
    let last = match last_line(Log::Dir(dir.clone())) {
        Ok(last) => last.map_or(0, |last| last.head.seq),
        Err(error) => {
            return Finding::bad(subject, format!("{:#}", anyhow::Error::from(error)), VERIFY);
        }
    };
    let ends = format!("{shown}, up to line {last}");
    match noted {
        // Read before the lines, it is never ahead of them.
        Ok(Some((noted, _))) if noted.seq > last => {
            let said = format!("{ends}; line {} is known to have been written", noted.seq);
            Finding::bad(subject, said, VERIFY)
        }
        Ok(_) => {
            let now = if is_written { ", being written" } else { "" };
            with_room(subject, format!("{ends}{now}"), &dir)
        }
        Err(error) => {
            Finding::bad(subject, format!("{ends}; head.json cannot be used: {error}"), VERIFY)
        }
    }
}

const VERIFY: &str = "courtesy audit verify says what is missing";

/// Whether the store can be used.
pub fn store(settings: &Settings) -> Finding {
    let subject = "store of what is known of origins";
    let Some(config) = settings.disk() else {
        return Finding::well(subject, "off (store.enabled): a restart forgets");
    };
    let path = config.path.display();
    match Offline::open(&config.path).and_then(|file| file.stats()) {
        Ok(Stats { entries, file_bytes, .. }) => {
            let said = format!("{path}, {}, origins: {entries}", size(file_bytes));
            with_room(subject, said, &settings.state_dir)
        }
        Err(OpenError::Missing(_)) => Finding::well(subject, format!("none at {path} yet")),
        Err(OpenError::Locked(_)) => {
            Finding::well(subject, format!("{path} is in use by a running courtesy"))
        }
        Err(error) => {
            let remedy = "without it nothing is denied less, but a restart forgets";
            Finding::bad(subject, error.to_string(), remedy)
        }
    }
}

/// It is well as long as there is room on the disk.
fn with_room(subject: &str, said: String, dir: &Path) -> Finding {
    // A file system that does not tell is none to complain of.
    let Ok(disk) = statvfs(dir) else { return Finding::well(subject, said) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let said = format!("{said}; {} free", size(free));
    if free < DISK_FREE_NOTICE_BYTES {
        let remedy =
            "make room: denials go on without records when the disk is full (audit.on_failure)";
        Finding::bad(subject, said, remedy)
    } else {
        Finding::well(subject, said)
    }
}
