//! A control group of its own for a process, with so much memory and no more (cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A group with a limit; removed when dropped. Its processes have ended by then.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    peak: &'static str,
}

/// How a version of control groups names things.
struct Version {
    limit: &'static str,
    peak: &'static str,
}

const V1: Version = Version { limit: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes" };
const V2: Version = Version { limit: "memory.max", peak: "memory.peak" };

impl Group {
    /// One of so many bytes below the group of this process; none where it may not make any, as when it is not root.
    pub fn of(bytes: usize) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, own) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            match controllers {
                "memory" => Self::below(&Path::new("/sys/fs/cgroup/memory").join(own), &V1, bytes),
                "" => Self::below(&Path::new("/sys/fs/cgroup").join(own), &V2, bytes),
                _ => None,
            }
        })
    }

    fn below(parent: &Path, version: &Version, bytes: usize) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("courtesy-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self { path, peak: version.peak };
        fs::write(group.path.join(version.limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// A line of shell by which a process enters it, before it becomes another program.
    pub fn enter(&self) -> String {
        format!("echo $$ > '{}'", self.path.join("cgroup.procs").display())
    }

    /// The most bytes that it ever had.
    #[track_caller]
    pub fn peak(&self) -> usize {
        let text = fs::read_to_string(self.path.join(self.peak)).expect("a file of the group");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has been waited for may be in it for another moment.
        for _ in 0..1000 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }
}
