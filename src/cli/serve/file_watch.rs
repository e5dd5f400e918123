//! Polls files once a second for changes. A poll is one call for each file, and sees what
//! notifications of the kernel do not: a file behind a changed link, as Kubernetes updates a
//! ConfigMap, and one on a network file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

/// The interval of polls, for which a changed file must also have stayed the same before it is
/// read.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The polls within that time, until two of them find the same.
const SETTLE_POLLS: u32 = 10;

/// Watches the files of the configuration by polling.
pub struct FileWatch {
    files: Vec<PathBuf>,
    /// The state in which they were read.
    read: Vec<Identity>,
    /// The state at the last poll.
    seen: Vec<Identity>,
}

/// The metadata that changes with a file's content, links followed. `None`: it does not exist.
type Identity = Option<Marks>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileWatch {
    /// Watches `files` for changes from now on.
    pub fn new(files: Vec<PathBuf>) -> Self {
        let read: Vec<_> = files.iter().map(|file| identity(file)).collect();
        Self { files, seen: read.clone(), read }
    }

    /// Waits until a file differs from when it was read, and has stayed the same for an interval: a
    /// half-written one is not read.
    pub async fn changed(&mut self) {
        self.changed_within(WATCH_INTERVAL).await;
    }

    async fn changed_within(&mut self, interval: Duration) {
        loop {
            sleep(interval).await;
            if self.poll() {
                return;
            }
        }
    }

    /// Waits until no file has changed for a moment, or for a second: the signal to read them does not say
    /// whether they are being written.
    pub async fn settled(&mut self) {
        for _ in 0..SETTLE_POLLS {
            sleep(WATCH_INTERVAL / SETTLE_POLLS).await;
            let now: Vec<_> = self.files.iter().map(|file| identity(file)).collect();
            if std::mem::replace(&mut self.seen, now) == self.seen {
                return;
            }
        }
    }

    fn poll(&mut self) -> bool {
        let now: Vec<_> = self.files.iter().map(|file| identity(file)).collect();
        let has_settled = now == self.seen;
        self.seen = now;
        has_settled && self.seen != self.read
    }

    /// Marks that the files are about to be read: later writes are changes.
    pub fn note_reading(&mut self) {
        *self = Self::new(std::mem::take(&mut self.files));
    }

    /// Watches these files from now on; the state of those already watched stays.
    pub fn follow(&mut self, files: Vec<PathBuf>) {
        let mut next = Self::new(files);
        for (at, file) in next.files.iter().enumerate() {
            if let Some(known) = self.files.iter().position(|it| it == file) {
                next.read[at].clone_from(&self.read[known]);
            }
        }
        *self = next;
    }
}

fn identity(file: &Path) -> Identity {
    let metadata = fs::metadata(file).ok()?;
    Some(Marks {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_change_is_reported_when_it_has_settled_and_until_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = FileWatch::new(vec![file.clone()]);
        assert!(!watch.poll());
        fs::write(&file, "half wri").unwrap();
        assert!(!watch.poll());
        fs::write(&file, "half written").unwrap();
        assert!(!watch.poll(), "it was still being written");
        assert!(watch.poll());
        watch.note_reading();
        assert!(!watch.poll());
        fs::remove_file(&file).unwrap();
        assert!(!watch.poll());
        assert!(watch.poll());
    }

    /// As Kubernetes updates a ConfigMap: the directory behind a link becomes another.
    #[test]
    fn a_file_behind_a_link_to_another_place_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for version in ["1", "2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("config.toml"), "same size").unwrap();
        }
        symlink(at("1"), at("data")).unwrap();
        symlink("data/config.toml", at("config.toml")).unwrap();
        let mut watch = FileWatch::new(vec![at("config.toml")]);
        symlink(at("2"), at("next")).unwrap();
        fs::rename(at("next"), at("data")).unwrap();
        assert!(!watch.poll());
        assert!(watch.poll());
    }

    #[test]
    fn what_changed_while_it_was_read_is_still_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("a"), dir.path().join("b"));
        let mut watch = FileWatch::new(vec![file.clone()]);
        watch.note_reading();
        fs::write(&file, "written after it was read").unwrap();
        watch.follow(vec![other, file]);
        assert!(watch.poll());
    }
}
