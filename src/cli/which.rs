//! Programs of this machine, found as a shell finds them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::environment;

/// The first executable file of this name on the `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = environment::variable("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
