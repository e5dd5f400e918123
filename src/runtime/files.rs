//! Files that an operator names: read whole, but no more of them than any that is meant has, and without
//! waiting for what never comes. A path may be wrong, and then be that of a device, a pipe or a log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, CWD, FsWord, OFlags, PROC_SUPER_MAGIC, accessat, statfs};

use crate::runtime::clock;

/// How long a pipe may take to bring all of it: its writer is another command of the same line.
const PIPE_WAIT: Duration = Duration::from_secs(5);

/// The kind of a file system that sysfs has, as statfs(2) names it.
const SYSFS_MAGIC: FsWord = 0x6265_6572;

/// Reads at most `max` bytes from a file.
///
/// # Errors
///
/// [`ErrorKind::FileTooLarge`] where there is more; [`ErrorKind::TimedOut`] where a pipe does not bring its end in
/// five seconds; whatever the system says otherwise.
pub fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    read_opened(open(path)?, max)
}

/// The same, of text in UTF-8.
///
/// # Errors
///
/// As [`read`], and [`ErrorKind::InvalidData`].
pub fn read_text(path: &Path, max: usize) -> io::Result<String> {
    text(read(path, max)?)
}

/// Opens a file for [`read_opened`]. That waits for nothing, even where nobody has opened a pipe's other end.
///
/// # Errors
///
/// What the system says.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// As [`read`], of a file that is [`open`] already.
///
/// # Errors
///
/// As [`read`].
pub fn read_opened(file: File, max: usize) -> io::Result<Vec<u8>> {
    read_within(file, max, PIPE_WAIT)
}

/// What bytes say in UTF-8.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] where they are none.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Whether files could be made in a directory, or the directory itself and those above it where there is
/// none. Nothing is made.
///
/// # Errors
///
/// What the system would say of the attempt, as far as it can be known before.
pub fn check_makeable(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let is_missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    // A link that leads nowhere is in the way of a directory.
    let there =
        dir.ancestors().find(|at| !at.symlink_metadata().is_err_and(|error| is_missing(&error)));
    let there = there.unwrap_or(Path::new("/"));
    if !fs::metadata(there)?.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    // The kernel's own file systems say that they can be written, and make no directory.
    if [PROC_SUPER_MAGIC, SYSFS_MAGIC].contains(&statfs(there)?.f_type) {
        return Err(io::Error::new(ErrorKind::Unsupported, "it is in a file system of the kernel"));
    }
    Ok(accessat(CWD, there, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())?)
}

/// Whether a file could be opened for reading and writing, where there is one.
///
/// # Errors
///
/// What the system would say of the attempt.
pub fn check_writable(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(accessat(CWD, file, Access::READ_OK | Access::WRITE_OK, AtFlags::empty())?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn read_within(file: File, max: usize, wait: Duration) -> io::Result<Vec<u8>> {
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let until = clock::monotonic() + wait;
    let mut content = Vec::new();
    let mut limited = (&file).take(max as u64 + 1);
    loop {
        if is_pipe {
            wait_for(&file, until.saturating_duration_since(clock::monotonic()))?;
        }
        match limited.read_to_end(&mut content) {
            Ok(_) if content.len() > max => {
                let problem = format!("it has more than {max} bytes, the most that is read of it");
                return Err(io::Error::new(ErrorKind::FileTooLarge, problem));
            }
            Ok(_) => return Ok(content),
            // What has come is in `content`.
            Err(error) if error.kind() == ErrorKind::WouldBlock && is_pipe => {}
            Err(error) => return Err(error),
        }
    }
}

/// Until a pipe has something to read, or has ended.
fn wait_for(file: &File, wait: Duration) -> io::Result<()> {
    let wait =
        Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&wait)) {
        Ok(0) => Err(io::Error::new(
            ErrorKind::TimedOut,
            "it is a pipe, and its writer does not come to an end",
        )),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn no_more_is_read_than_may_be() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        let error = read(&file, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has more than 4 bytes, the most that is read of it");
        assert_eq!(read(Path::new("/dev/zero"), 1000).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(Path::new("/dev/null"), 1000).unwrap(), b"");
        assert_eq!(read(dir.path(), 1000).unwrap_err().kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let nobody_writes = read_within(open(&pipe).unwrap(), 10, SOON).unwrap_err();
        assert_eq!(nobody_writes.kind(), ErrorKind::TimedOut);

        let opened = open(&pipe).unwrap();
        let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
        writer.write_all(b"123").unwrap();
        let never_ends = read_within(opened, 10, SOON).unwrap_err();
        assert_eq!(never_ends.kind(), ErrorKind::TimedOut);

        let opened = open(&pipe).unwrap();
        let mut other = OpenOptions::new().write(true).open(&pipe).unwrap();
        drop(writer);
        let writing = std::thread::spawn(move || {
            other.write_all(b"123").unwrap();
            other.write_all(b"45").unwrap();
        });
        assert_eq!(read_opened(opened, 5).unwrap(), b"12345");
        writing.join().unwrap();
    }
}
