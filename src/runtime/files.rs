//! Reads files named by an operator: in full, but bounded in size and time. A path may be wrong and
//! name a device, a pipe or a log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, CWD, FsWord, OFlags, PROC_SUPER_MAGIC, accessat, statfs};

use super::{NAMED_FILE_BYTES_MAX, clock};

/// How long the writer of a pipe may take. It is usually another command of the same shell line.
const PIPE_WAIT: Duration = Duration::from_secs(5);

/// The magic number of sysfs in statfs(2).
const SYSFS_MAGIC: FsWord = 0x6265_6572;

/// Reads at most `max` bytes from a file.
///
/// # Errors
///
/// [`ErrorKind::FileTooLarge`] if it is longer; [`ErrorKind::TimedOut`] if a pipe does not end
/// within five seconds; otherwise the system's error.
pub fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    read_opened(open(path)?, max)
}

/// Reads UTF-8 text of at most `max` bytes.
///
/// # Errors
///
/// As [`read`], and [`ErrorKind::InvalidData`].
pub fn read_text(path: &Path, max: usize) -> io::Result<String> {
    text(read(path, max)?)
}

/// Opens a file for [`read_opened`] without blocking, even if a pipe has no writer yet.
///
/// # Errors
///
/// The system's error.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// As [`read`], of an open file.
///
/// # Errors
///
/// As [`read`].
pub fn read_opened(file: File, max: usize) -> io::Result<Vec<u8>> {
    read_within(file, max, PIPE_WAIT)
}

/// Converts bytes to UTF-8 text.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] if they are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Checks that files can be created in a directory or, if it does not exist, that it can be
/// created. Creates nothing.
///
/// # Errors
///
/// The error that the system would return, if it can be known in advance.
pub fn check_makeable(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let is_missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    // A dangling link prevents the creation of a directory.
    let there =
        dir.ancestors().find(|at| !at.symlink_metadata().is_err_and(|error| is_missing(&error)));
    let there = there.unwrap_or(Path::new("/"));
    if !fs::metadata(there)?.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    // Kernel file systems report that they are writable, but create no directory.
    if [PROC_SUPER_MAGIC, SYSFS_MAGIC].contains(&statfs(there)?.f_type) {
        return Err(io::Error::new(ErrorKind::Unsupported, "it is in a file system of the kernel"));
    }
    Ok(accessat(CWD, there, Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())?)
}

/// Checks that a file, if it exists, can be opened for reading and writing.
///
/// # Errors
///
/// The error that the system would return.
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
                let problem = format!("it is longer than {max} bytes, the most that is read");
                return Err(io::Error::new(ErrorKind::FileTooLarge, problem));
            }
            Ok(_) => return Ok(content),
            // The bytes read so far are in `content`.
            Err(error) if error.kind() == ErrorKind::WouldBlock && is_pipe => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until a pipe is readable or closed.
fn wait_for(file: &File, wait: Duration) -> io::Result<()> {
    let wait =
        Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&wait)) {
        Ok(0) => Err(io::Error::new(ErrorKind::TimedOut, "it is a pipe whose writer does not end")),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

// Reads and writes files that hold secrets: accessible to their owner only, and created without
// following links.

/// A file of secrets as found.
#[derive(Debug)]
pub enum Found<T> {
    Content(T),
    /// Accessible to others than its owner.
    Exposed,
}

/// Reads a file of secrets, bounded as by [`read`].
pub fn read_secret(file: &Path) -> io::Result<Found<Vec<u8>>> {
    read_unless(file, 0o077, NAMED_FILE_BYTES_MAX)
}

/// [`read`], of a file that its group may read, too: as Kubernetes gives the files of a Secret.
pub fn read_of_group(file: &Path) -> io::Result<Found<Vec<u8>>> {
    read_unless(file, 0o027, NAMED_FILE_BYTES_MAX)
}

/// Checks the mode of the open file, because the name may be another file's a moment later.
fn read_unless(file: &Path, exposed: u32, max: usize) -> io::Result<Found<Vec<u8>>> {
    let opened = open(file)?;
    if opened.metadata()?.permissions().mode() & exposed != 0 {
        return Ok(Found::Exposed);
    }
    read_opened(opened, max).map(Found::Content)
}

/// [`read`], of text.
pub fn read_secret_text(file: &Path) -> io::Result<Found<String>> {
    secret_text(read_secret(file)?)
}

/// [`read_text`], of at most `max` bytes.
pub fn read_long_text(file: &Path, max: usize) -> io::Result<Found<String>> {
    secret_text(read_unless(file, 0o077, max)?)
}

/// [`read_text`], of a file that its group may read, too.
pub fn read_text_of_group(file: &Path) -> io::Result<Found<String>> {
    secret_text(read_unless(file, 0o027, NAMED_FILE_BYTES_MAX)?)
}

fn secret_text(found: Found<Vec<u8>>) -> io::Result<Found<String>> {
    Ok(match found {
        Found::Content(content) => Found::Content(text(content)?),
        Found::Exposed => Found::Exposed,
    })
}

/// Creates a file, writes it and syncs it to disk. Fails if it exists, so that no other process can
/// have it open or have planted a link.
pub fn write_new(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    opened.write_all(content)?;
    opened.sync_all()
}

/// Removes a file, if it exists.
pub fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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
        assert_eq!(error.to_string(), "it is longer than 4 bytes, the most that is read");
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
