//! Errors of the database file.

use std::io::{ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::audit::EVIDENCE_BYTES_MAX;
use crate::store::persisted::Digest;

/// Why the file cannot be used at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiskError {
    /// Another process uses it.
    Locked,
    /// A later version has written it. The file is not touched.
    Newer(String),
    /// The content is not what was written.
    Damaged(String),
    /// The disk is full, read-only or broken, which may pass.
    Io(String),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another courtesy process uses {}; set another state directory (--state-dir)", .0.display())]
    Locked(PathBuf),
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    #[error("{} was written by a newer courtesy: {why}; use that version, or move the file away", path.display())]
    Newer { path: PathBuf, why: String },
    #[error("{} is damaged: {why}; move it away, and a new one is created", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("cannot use {}: {why}", path.display())]
    Io { path: PathBuf, why: String },
    /// The reason that a running proxy has logged.
    #[error("{0}; the proxy continues without it, and retries from time to time")]
    Failing(String),
}

impl DiskError {
    pub(super) fn at(self, path: PathBuf) -> OpenError {
        match self {
            Self::Locked => OpenError::Locked(path),
            Self::Newer(why) => OpenError::Newer { path, why },
            Self::Damaged(why) => OpenError::Damaged { path, why },
            Self::Io(why) => OpenError::Io { path, why },
        }
    }
}

impl<E: Into<redb::Error>> From<E> for DiskError {
    fn from(error: E) -> Self {
        let error = error.into();
        let text = error.to_string();
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::Locked,
            redb::Error::UpgradeRequired(_) => Self::Newer(text),
            redb::Error::Io(cause) => match cause.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::InvalidData => Self::Damaged(text),
                _ => Self::Io(text),
            },
            redb::Error::Corrupted(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TableIsNotMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_) => Self::Damaged(text),
            _ => Self::Io(text),
        }
    }
}

/// Converts a panic of the database into an error: damaged pages can cause one, and neither a
/// request nor the writer thread may end with it. The caller discards the handle, so no half-done
/// change is seen.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, DiskError>) -> Result<T, DiskError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(DiskError::Io("the database panicked; the file may be damaged".into()))
    })
}

/// The state of the store on disk, for metrics and readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether a disk store is configured.
    pub enabled: bool,
    /// Why it cannot be used at present.
    pub failing: Option<String>,
    /// Origins in the file.
    pub entries: u64,
    /// Bytes of content, without the database's overhead.
    pub bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Origins written or removed by this process.
    pub writes: u64,
    /// Origins waiting to be written.
    pub pending: u64,
    /// Origins dropped from the full write queue.
    pub dropped: u64,
    /// Origins evicted to keep the file within its limit.
    pub evicted: u64,
    /// Origins whose stored data was invalid.
    pub broken: u64,
    /// How often the file failed.
    pub errors: u64,
    /// Lookups.
    pub loads: u64,
    /// Lookups that found the origin.
    pub load_hits: u64,
}

/// The first byte is the encoding of the rest.
const PLAIN: u8 = 0;
const GZIP: u8 = 1;

/// Content up to this size is stored uncompressed: a compressor clears half a megabyte before it
/// begins, and most files and captures are shorter.
const PLAIN_BYTES_MAX: usize = 1024;

pub(super) fn encode_blob(content: &[u8]) -> Vec<u8> {
    if content.len() <= PLAIN_BYTES_MAX {
        return plain(content);
    }
    let mut encoder = GzEncoder::new(vec![GZIP], Compression::fast());
    match encoder.write_all(content).and_then(|()| encoder.finish()) {
        Ok(gzip) if gzip.len() <= content.len() => gzip,
        _ => plain(content),
    }
}

fn plain(content: &[u8]) -> Vec<u8> {
    [&[PLAIN], content].concat()
}

/// The content, if it matches its digest.
pub(super) fn decode_blob(stored: &[u8], digest: &Digest) -> Option<Bytes> {
    let content = match stored.split_first()? {
        (&PLAIN, content) => content.to_vec(),
        (&GZIP, gzip) => {
            let mut content = Vec::new();
            GzDecoder::new(gzip).take(EVIDENCE_BYTES_MAX).read_to_end(&mut content).ok()?;
            content
        }
        _ => return None,
    };
    (Sha256::digest(&content)[..] == digest.0).then(|| content.into_boxed_slice().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back_or_nothing_does() {
        for content in
            [&b""[..], b"user-agent: *\n", &b"disallow: /\n".repeat(1000), &[0x5a; 70_000]]
        {
            let digest = Digest(Sha256::digest(content).into());
            let mut stored = encode_blob(content);
            assert!(stored.len() <= content.len() + 1);
            assert_eq!(decode_blob(&stored, &digest).as_deref(), Some(content));
            for at in [0, stored.len() / 2, stored.len() - 1] {
                stored[at] ^= 0x10;
                assert_ne!(decode_blob(&stored, &digest).as_deref(), Some(&b"something else"[..]));
                let whole = decode_blob(&stored, &digest);
                assert!(whole.is_none_or(|found| found == content), "a changed byte is noticed");
                stored[at] ^= 0x10;
            }
            assert_eq!(
                decode_blob(&stored[..stored.len() - 1], &digest).filter(|it| it != content),
                None
            );
        }
    }
}
