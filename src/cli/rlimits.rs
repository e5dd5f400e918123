//! What the system grants this process: as many descriptors as it may have, and no file of its memory
//! when it dies, because the key of the CA is in it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// The limits as they were before, for a command that is started from here: that one has not asked for them
/// to do without a core file, and a program of old may look at every descriptor that it could have.
#[derive(Clone, Debug)]
pub struct Rlimits {
    core: Rlimit,
    files: Rlimit,
}

impl Rlimits {
    /// Takes all descriptors that may be had, and forbids core files. What the system refuses is said.
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

    /// Has a command begun that inherits what this process had before.
    pub fn lend<T>(&self, begin: impl FnOnce() -> T) -> T {
        // What cannot be given back, the command lives without.
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
