//! Removes old runs when a new one begins, so that their records do not fill the disk.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tracing::warn;
use ulid::Ulid;

use crate::audit::is_written;
use crate::types::timestamp::Timestamp;

/// How long the records of a run are kept, unless `--keep` says how many are.
const RUN_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A younger run is never removed: it may be about to open its log.
const RUN_AGE_MIN: Duration = Duration::from_secs(60);

/// Old runs that the start of another removes at most.
const RUNS_REMOVED_AT_ONCE: usize = 100;

/// Prefix of a run's directory while it is removed: the next run finds by it what was not removed
/// completely.
const GOING: &str = ".going-";

/// Removes runs in the directory `runs`, except the new one, `own`: all but the last `keep`, including
/// `own`; without a number, those older than thirty days. A run under way is kept, and so is anything
/// that is no run. A failure is only a warning.
pub fn remove(runs: &Path, own: &str, keep: Option<usize>, now: Timestamp) {
    let names = match names(runs) {
        Ok(names) => names,
        Err(error) => {
            return warn!(file = %runs.display(), "old runs cannot be looked for: {error}");
        }
    };
    let wanted = unwanted(names, own, keep, now);
    for name in wanted.iter().take(RUNS_REMOVED_AT_ONCE) {
        let dir = runs.join(name);
        if let Err(error) = remove_one(runs, name) {
            warn!(file = %dir.display(), "an old run cannot be removed: {error}");
        }
    }
}

/// The names of directories, links not followed.
fn names(runs: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

/// The names to remove, oldest first: the identifiers sort by time.
fn unwanted(names: Vec<String>, own: &str, keep: Option<usize>, now: Timestamp) -> Vec<String> {
    let (going, mut runs): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with(GOING));
    runs.retain(|name| name != own && begun(name).is_some());
    runs.sort_unstable();
    let is_older =
        |name: &str, than: Duration| begun(name).is_some_and(|begun| now.since(begun) > than);
    let kept = keep.map_or(0, |keep| keep.saturating_sub(1).min(runs.len()));
    runs.truncate(runs.len() - kept);
    let age = if keep.is_some() { RUN_AGE_MIN } else { RUN_KEPT_FOR };
    runs.retain(|name| is_older(name, age));
    going.into_iter().chain(runs).collect()
}

/// When a run began, from its identifier; `None` if the name is none.
fn begun(name: &str) -> Option<Timestamp> {
    let id = Ulid::from_string(name).ok().filter(|id| id.to_string() == name)?;
    let since_epoch = id.datetime().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).ok()?))
}

/// Renames the directory before removing it, so that no reader finds half of a run.
fn remove_one(runs: &Path, name: &str) -> io::Result<()> {
    let dir = runs.join(name);
    if name.starts_with(GOING) {
        return fs::remove_dir_all(dir);
    }
    if is_written(&dir.join("audit")) {
        return Ok(());
    }
    let going = runs.join(format!("{GOING}{name}"));
    fs::rename(dir, &going)?;
    fs::remove_dir_all(going)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::new_id;

    const NOW: u64 = 1_800_000_000_000;

    fn id(days_ago: u64) -> String {
        new_id(Timestamp::from_millis(NOW - days_ago * 24 * 3600 * 1000))
    }

    #[test]
    fn without_a_number_runs_older_than_thirty_days_are_removed() {
        let (own, old, young) = (id(0), id(31), id(29));
        let names = vec![own.clone(), young, old.clone(), "notes".into(), format!("{GOING}x")];
        assert_eq!(
            unwanted(names, &own, None, Timestamp::from_millis(NOW)),
            [format!("{GOING}x"), old]
        );
    }

    #[test]
    fn with_a_number_the_last_runs_and_those_just_begun_are_kept() {
        let (own, now) = (id(0), Timestamp::from_millis(NOW));
        let ids = [id(400), id(3), id(2), id(1), id(0), own.clone()];
        let of = |keep| unwanted(ids.to_vec(), &own, Some(keep), now);
        assert_eq!(of(3), ids[..3]);
        assert_eq!([of(1), of(0)], [ids[..4].to_vec(), ids[..4].to_vec()]);
        assert!(of(6).is_empty() && of(usize::MAX).is_empty());
    }
}
