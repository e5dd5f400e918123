//! Replaces the values in the queries of recorded URLs, which may be secrets, by keyed hashes
//! (HMAC-SHA-256, cut): `?q=~3b1f0c9d2a7e4458`. Equal values have equal hashes, so records can
//! still be grouped by them; without the key, values cannot be guessed by trial.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::audit::RECORD_URL_BYTES_MAX;
use crate::runtime::crypto_provider;
use crate::runtime::files::{self, Found};
use crate::types::sanitize::hex;

/// In the directory of records.
const KEY_NAME: &str = "redact.key";
const KEY_BYTES: usize = 32;

/// Of the 32 bytes of a hash: enough that no two values of a log meet by chance.
const HASH_BYTES: usize = 8;

/// What replaces values, and the key that it does so under.
#[derive(Clone)]
pub struct Redactor {
    keyed: Hmac<Sha256>,
}

impl Redactor {
    /// With the key of the records in `dir`, which is made at its first use. The directory is locked.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(KEY_NAME);
        match files::read_secret(&path) {
            Ok(Found::Content(key)) => Self::checked(&path, &key),
            Ok(Found::Exposed) => {
                Err(bad(&path, "others may read it; take that right away with chmod 600"))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_key(dir, &path).map(|key| Self::new(&key))
            }
            Err(error) => Err(bad(&path, &error.to_string())),
        }
    }

    /// Whether the key can be used, where there is one; none is made.
    pub fn check(dir: &Path) -> io::Result<()> {
        let path = dir.join(KEY_NAME);
        match files::read_secret(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            _ => Self::open(dir).map(drop),
        }
    }

    fn checked(path: &Path, key: &[u8]) -> io::Result<Self> {
        let key: &[u8; KEY_BYTES] = key
            .try_into()
            .map_err(|_| bad(path, &format!("it has {} bytes and not {KEY_BYTES}", key.len())))?;
        Ok(Self::new(key))
    }

    fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self { keyed: Hmac::new_from_slice(key).expect("a key of any length is one") }
    }

    /// `recorded`, as [`Record::url`](super::denial_record::Record::url) has it, without the values of its query. Names and
    /// their order stay; a part without `=` is a value. An unkeyed digest of the part that was cut
    /// off would let values be guessed, so it is replaced, too.
    pub fn url(&self, recorded: &str) -> String {
        // A URL as it was received may have that character itself; the mark is at the end.
        let cut = recorded.rsplit_once('…').and_then(|(kept, mark)| Some((kept, bytes_of(mark)?)));
        let (kept, cut) = cut.map_or((recorded, None), |(kept, bytes)| (kept, Some(bytes)));
        let (mut redacted, query) = match kept.split_once('?') {
            Some((before, query)) => (before.to_owned(), Some(query)),
            None => (kept.to_owned(), None),
        };
        for (index, part) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
            redacted.push(if index == 0 { '?' } else { '&' });
            let (name, value) = part.find('=').map_or(("", part), |at| part.split_at(at + 1));
            redacted.push_str(name);
            if !value.is_empty() {
                self.push_hash(value, &mut redacted);
            }
        }
        if cut.is_some() || redacted.len() > RECORD_URL_BYTES_MAX {
            redacted.truncate(redacted.floor_char_boundary(RECORD_URL_BYTES_MAX));
            let bytes = cut.unwrap_or(kept.len());
            let _ = write!(redacted, "…[{bytes} octets, ");
            self.push_hash(recorded, &mut redacted);
            redacted.push(']');
        }
        redacted
    }

    fn push_hash(&self, value: &str, text: &mut String) {
        let hash = self.keyed.clone().chain_update(value).finalize().into_bytes();
        text.push('~');
        text.push_str(&hex(&hash[..HASH_BYTES]));
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// How long a URL was that has been cut, by its mark `[9000 octets, …`.
fn bytes_of(mark: &str) -> Option<usize> {
    mark.strip_prefix('[')?.split(' ').next()?.parse().ok()
}

/// A key takes its name when it is whole on the disk: with half of one, or with another after a
/// power cut, equal values would no longer look equal.
fn make_key(dir: &Path, path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    let random = crypto_provider().secure_random;
    random.fill(&mut key).map_err(|_| io::Error::other("the system provides no random numbers"))?;
    let unfinished = path.with_extension("key.tmp");
    files::remove(&unfinished)?;
    files::write_new(&unfinished, &key, 0o600)?;
    fs::rename(&unfinished, path)?;
    File::open(dir)?.sync_all()?;
    Ok(key)
}

fn bad(path: &Path, why: &str) -> io::Error {
    let path = path.display();
    io::Error::new(
        ErrorKind::InvalidData,
        format!(
            "the key that query values are redacted with, {path}, cannot be used: {why}. Put it back as it was; \
             or remove it to have another made, after which the same value gets another hash"
        ),
    )
}
