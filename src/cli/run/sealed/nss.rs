//! The user's NSS databases, which Chromium reads, with the proxy's authority added: copies, made by
//! certutil(1) where it is there, that are mounted over them. The user's own are not changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tracing::warn;

use super::super::super::environment;
use super::mounts::Mount;

/// Below the home directory: that of all versions, and that of newer ones (XDG).
const DATABASES: [&str; 2] = [".pki/nssdb", ".local/share/pki/nssdb"];

/// Bytes of a database that is copied: far more than certificates take.
const DATABASE_BYTES_MAX: u64 = 64 << 20;

/// The mounts; copies are made in `dir`. What cannot be done is logged: the variables are left.
pub fn mounts(authorities: &[PathBuf], dir: &Path) -> Vec<Mount> {
    let Some(home) = environment::variable("HOME") else { return Vec::new() };
    let databases = DATABASES.iter().map(|database| Path::new(&home).join(database));
    let found = databases.filter(|it| it.join("cert9.db").is_file()).enumerate();
    let made = found.filter_map(|(number, database)| {
        let copy = dir.join(format!("nssdb-{number}"));
        match copy_with(&database, &copy, authorities) {
            Ok(target) => Some(Mount { source: copy, target }),
            Err(error) => {
                warn!("{} stays as it is: {error}", database.display());
                None
            }
        }
    });
    made.collect()
}

fn copy_with(from: &Path, to: &Path, authorities: &[PathBuf]) -> io::Result<PathBuf> {
    fs::create_dir(to)?;
    let mut left = DATABASE_BYTES_MAX;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let bytes = entry.metadata()?.len();
        left = left.checked_sub(bytes).ok_or_else(|| io::Error::other("it is too large"))?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    for (number, authority) in authorities.iter().enumerate() {
        add(to, number, authority)?;
    }
    from.canonicalize()
}

/// Adds one as trusted for servers (`C,,`).
fn add(database: &Path, number: usize, authority: &Path) -> io::Result<()> {
    let mut certutil = Command::new("certutil");
    certutil.args(["-A", "-n", &format!("courtesy-{number}"), "-t", "C,,", "-i"]).arg(authority);
    certutil.arg("-d").arg(format!("sql:{}", database.display()));
    let output = certutil.stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("certutil is not there (libnss3-tools)"),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("certutil: {}", said.lines().next().unwrap_or_default())))
}
