//! What was handed over of a log as one tar file, a dossier or a bundle, unpacked to be read. Its entries are a
//! stranger's: what is no plain file of a log below one directory is refused, and all of it is bounded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tar::{Archive, EntryType};

use super::block::LINES_NAME;
use super::dossier::{CHECKPOINT_NAME, MANIFEST_NAME};
use crate::audit::segment::HEAD_NAME;
use crate::audit::{BUNDLE_ENTRIES_MAX, segment};

/// How the names of such files end.
const ENDS: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

/// Bytes that one may have when it is unpacked.
const UNPACKED_BYTES_MAX: u64 = 16 << 30;

/// Its entries: evidence, the files of the log, and what is put beside them.
const ENTRIES_MAX: usize = 2 * BUNDLE_ENTRIES_MAX;

const GZIP_BEGIN: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD_BEGIN: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why it was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("its entry {0:?} is no plain file, or leads out of its directory")]
    Entry(PathBuf),
    #[error("it is too large")]
    TooLarge,
}

/// Whether a file is a tar file by its name, compressed or not: segments of a log are none.
pub fn is_packed(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ENDS.iter().any(|end| name.ends_with(end))
}

/// Unpacks what readers need of `file` into `dir`, which has nothing yet.
///
/// # Errors
///
/// It cannot be read or written, is too large, or has an entry that may not be.
pub fn unpack(file: &Path, dir: &Path) -> Result<(), UnpackError> {
    let mut archive = Archive::new(plain(BufReader::new(File::open(file)?))?);
    let mut left = UNPACKED_BYTES_MAX;
    for (count, entry) in archive.entries()?.enumerate() {
        if count >= ENTRIES_MAX {
            return Err(UnpackError::TooLarge);
        }
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        match entry.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous => {}
            _ => return Err(UnpackError::Entry(path)),
        }
        let Some(name) = name(&path) else { return Err(UnpackError::Entry(path)) };
        if !is_read(&name) {
            continue;
        }
        let to = dir.join(&name);
        fs::create_dir_all(to.parent().unwrap_or(dir))?;
        // A name that comes twice would be one thing here and another elsewhere.
        let mut output = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        left -= io::copy(&mut entry.by_ref().take(left), &mut output)?;
        if entry.read(&mut [0])? > 0 {
            return Err(UnpackError::TooLarge);
        }
    }
    Ok(())
}

/// The content of a file that may be compressed.
fn plain<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let begin = input.fill_buf()?;
    Ok(if begin.starts_with(&GZIP_BEGIN) {
        Box::new(MultiGzDecoder::new(input))
    } else if begin.starts_with(&ZSTANDARD_BEGIN) {
        Box::new(ZstandardReader(Some(zstandard(input)?)))
    } else {
        Box::new(input)
    })
}

/// The name of an entry below the directory; none where it leads out of it.
fn name(path: &Path) -> Option<PathBuf> {
    let mut name = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => name.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(name)
}

/// Whether readers look at a file of that name: at nothing that a log makes anew.
fn is_read(name: &Path) -> bool {
    let parts: Vec<_> = name.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    match parts[..] {
        [file] => {
            [LINES_NAME, MANIFEST_NAME, CHECKPOINT_NAME, HEAD_NAME].contains(&file)
                || segment::is_segment(name)
        }
        ["evidence", _, _] => true,
        _ => false,
    }
}

/// All frames of a file, one after the other.
struct ZstandardReader<R: Read>(Option<StreamingDecoder<R, FrameDecoder>>);

fn zstandard<R: Read>(input: R) -> io::Result<StreamingDecoder<R, FrameDecoder>> {
    StreamingDecoder::new(input).map_err(io::Error::other)
}

impl<R: BufRead> Read for ZstandardReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.0 {
            let read = frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let mut input = self.0.take().expect("it was there").into_inner();
            self.0 = if input.fill_buf()?.is_empty() { None } else { Some(zstandard(input)?) };
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tar::{Builder, Header};

    use super::*;

    const LINE: &[u8] = b"{}\n";

    fn header(kind: EntryType, bytes: usize) -> Header {
        let mut header = Header::new_gnu();
        header.set_size(bytes as u64);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        header
    }

    fn packed(entries: &[(&str, EntryType)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, kind) in entries {
            let content = if *kind == EntryType::Regular { LINE } else { b"" };
            let mut header = header(*kind, content.len());
            // As no honest program writes it.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            if kind.is_symlink() || kind.is_hard_link() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            tar.append(&header, content).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn unpacked(content: &[u8]) -> (tempfile::TempDir, Result<(), UnpackError>) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.tar");
        fs::write(&file, content).unwrap();
        let to = dir.path().join("to");
        fs::create_dir(&to).unwrap();
        let outcome = unpack(&file, &to);
        (dir, outcome)
    }

    #[test]
    fn what_leads_out_or_is_no_plain_file_is_refused() {
        for (name, kind) in [
            ("../lines.jsonl", EntryType::Regular),
            ("/lines.jsonl", EntryType::Regular),
            ("evidence/ab/../../../x", EntryType::Regular),
            ("lines.jsonl", EntryType::Symlink),
            ("evidence", EntryType::Symlink),
            ("lines.jsonl", EntryType::Link),
            ("lines.jsonl", EntryType::Fifo),
            ("lines.jsonl", EntryType::Char),
        ] {
            let (dir, outcome) = unpacked(&packed(&[(name, kind)]));
            assert!(matches!(outcome, Err(UnpackError::Entry(_))), "{name}: {outcome:?}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "{name}");
            assert_eq!(fs::read_dir(dir.path().join("to")).unwrap().count(), 0, "{name}");
        }
        let twice =
            packed(&[("lines.jsonl", EntryType::Regular), ("./lines.jsonl", EntryType::Regular)]);
        assert!(matches!(unpacked(&twice).1, Err(UnpackError::Io(_))));
    }

    #[test]
    fn what_no_reader_looks_at_stays_packed() {
        let (dir, outcome) = unpacked(&packed(&[
            ("./", EntryType::Directory),
            ("./lines.jsonl", EntryType::Regular),
            ("README.txt", EntryType::Regular),
            ("tiles/0/000", EntryType::Regular),
            ("log.lock", EntryType::Regular),
            ("denials-000000000001.jsonl.gz", EntryType::Regular),
            ("evidence/ab/abcd.txt.gz", EntryType::Regular),
        ]));
        outcome.unwrap();
        let to = dir.path().join("to");
        let mut names: Vec<_> =
            fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["denials-000000000001.jsonl.gz", "evidence", "lines.jsonl"]);
        assert_eq!(fs::read(to.join("evidence/ab/abcd.txt.gz")).unwrap(), LINE);
    }

    #[test]
    fn compressed_files_are_read_to_their_end() {
        let tar = packed(&[("lines.jsonl", EntryType::Regular)]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        let zstandard = |part: &[u8]| {
            ruzstd::encoding::compress_to_vec(part, ruzstd::encoding::CompressionLevel::Fastest)
        };
        let two_frames = [zstandard(&tar[..700]), zstandard(&tar[700..])].concat();
        for content in [gzip.finish().unwrap(), zstandard(&tar), two_frames] {
            let (dir, outcome) = unpacked(&content);
            outcome.unwrap();
            assert_eq!(fs::read(dir.path().join("to/lines.jsonl")).unwrap(), LINE);
        }
        let (_dir, outcome) = unpacked(&zstandard(&tar)[..40]);
        assert!(matches!(outcome, Err(UnpackError::Io(_))), "{outcome:?}");
    }
}
