//! The run file: a running proxy writes the address of its admin listener to it, so that `courtesy
//! health` finds it even if the configuration file has changed or become wrong since.
//! There is no secret in it: the token itself stays in its own file.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::runtime::files;

/// Bytes of the run file, in which a running proxy says where its admin listener is: two paths and a few numbers.
const RUN_FILE_BYTES_MAX: usize = 16 << 10;

/// The file's name in the state directory.
pub const FILE_NAME: &str = "serve.json";

/// What a running proxy says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// Where its admin listener is; none: `listen.admin` is "off".
    pub admin: Option<SocketAddr>,
    /// The id of its process.
    pub pid: u32,
    /// The file of the token that the listener asks for, absolute.
    pub token_file: Option<PathBuf>,
    pub version: String,
}

/// The file of this process, removed when it is dropped. One that another process has written since
/// stays.
#[derive(Debug)]
pub struct Written {
    path: PathBuf,
    content: Vec<u8>,
}

impl RunFile {
    /// What this process writes.
    pub fn of_this_process(admin: Option<SocketAddr>, token_file: Option<&Path>) -> Self {
        // Readers may have another working directory.
        let token_file =
            token_file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.into()));
        Self {
            admin,
            pid: std::process::id(),
            token_file,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Puts it into the state directory, whole: a reader sees all of it or the former one.
    ///
    /// # Errors
    ///
    /// What the system says of the directory.
    pub fn write(&self, state_dir: &Path) -> io::Result<Written> {
        let path = path(state_dir);
        let next = path.with_extension("json.new");
        let content = serde_json::to_vec(self)?;
        files::remove(&next)?;
        files::write_new(&next, &content, 0o644)?;
        fs::rename(&next, &path)?;
        Ok(Written { path, content })
    }

    /// The one in a state directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// What the system says, and [`ErrorKind::InvalidData`] where it is no run file.
    pub fn read(state_dir: &Path) -> io::Result<Option<Self>> {
        match files::read(&path(state_dir), RUN_FILE_BYTES_MAX) {
            Ok(content) => Ok(Some(serde_json::from_slice(&content)?)),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a process with its number runs on this machine. Another program may have been given the
    /// number since, and inside another container the proxy's is not seen.
    pub fn is_running(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // No permission to signal it: it is there.
        pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if files::read(&self.path, RUN_FILE_BYTES_MAX).is_ok_and(|content| content == self.content)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where it is.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_port(port: u16) -> RunFile {
        RunFile::of_this_process(Some(([127, 0, 0, 1], port).into()), Some(Path::new("token")))
    }

    #[test]
    fn it_is_read_as_it_was_written_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(RunFile::read(dir.path()).unwrap(), None);
        let written = with_port(3129).write(dir.path()).unwrap();
        let read = RunFile::read(dir.path()).unwrap().unwrap();
        assert_eq!(read, with_port(3129));
        assert!(read.token_file.as_ref().unwrap().is_absolute() && read.is_running());
        drop(written);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn that_of_a_later_process_stays_and_that_of_a_dead_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let first = with_port(3129).write(dir.path()).unwrap();
        fs::write(dir.path().join("serve.json.new"), "half of").unwrap();
        let _second = with_port(4129).write(dir.path()).unwrap();
        drop(first);
        assert_eq!(RunFile::read(dir.path()).unwrap(), Some(with_port(4129)));
    }

    #[test]
    fn what_is_no_run_file_is_an_error_and_no_address() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(path(dir.path()), "{\"admin\":").unwrap();
        assert!(RunFile::read(dir.path()).is_err());
        assert_eq!(RunFile::read(&dir.path().join("missing")).unwrap(), None);
        let gone = RunFile { pid: i32::MAX.cast_unsigned(), ..with_port(1) };
        assert!(!gone.is_running());
    }
}
