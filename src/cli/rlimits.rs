//! The resource limits of this process (setrlimit(2)): as many descriptors as it may have, and no core
//! file, because the key of the CA would be in it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// The limits as they were before, for a command that is started from here: it may need a core file, and
/// an old program may close every descriptor up to its limit, one by one.
#[derive(Clone, Debug)]
pub struct Rlimits {
    core: Rlimit,
    files: Rlimit,
}

impl Rlimits {
    /// Takes all descriptors that may be had, and forbids core files. What the system refuses is logged.
    pub fn raise() -> Self {
        let before = Self { core: getrlimit(Resource::Core), files: getrlimit(Resource::Nofile) };
        let Rlimit { maximum, .. } = before.files;
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
            warn!("the limit on open files stays at {}: {error}", shown(before.files.current));
        }
        let none = Rlimit { current: Some(0), maximum: before.core.maximum };
        if let Err(error) = setrlimit(Resource::Core, none) {
            warn!("a core file of this process would have the key of the CA in it: {error}");
        }
        before
    }

    /// Starts a command with the limits that this process had before.
    pub fn lend<T>(&self, begin: impl FnOnce() -> T) -> T {
        // An error leaves the command with the limits of this process.
        let _ = setrlimit(Resource::Core, self.core);
        let _ = setrlimit(Resource::Nofile, self.files);
        let begun = begin();
        Self::raise();
        begun
    }
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string())
}
