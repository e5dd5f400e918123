//! Replaces the values in the queries of recorded URLs, which may be secrets, by keyed hashes
//! (HMAC-SHA-256, cut): `?q=~3b1f0c9d2a7e4458`. Equal values have equal hashes, so records can
//! still be grouped by them; without the key, values cannot be guessed by trial.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::audit::limits::RECORD_URL_BYTES_MAX;
use crate::runtime::crypto_provider::provider;
use crate::runtime::secret_file::{self, Found};
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
        match secret_file::read(&path) {
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
        match secret_file::read(&path) {
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

    /// `recorded`, as [`super::Record::url`] has it, without the values of its query. Names and
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
    let random = provider().secure_random;
    random.fill(&mut key).map_err(|_| io::Error::other("the system provides no random numbers"))?;
    let unfinished = path.with_extension("key.tmp");
    secret_file::remove(&unfinished)?;
    secret_file::write_new(&unfinished, &key, 0o600)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use crate::audit::Record;

    fn redactor() -> Redactor {
        Redactor::new(&[7; KEY_BYTES])
    }

    /// Each hash as a `#`.
    fn shape(url: &str) -> String {
        let mut parts = url.split('~');
        let mut shape = parts.next().unwrap().to_owned();
        for part in parts {
            assert!(
                part[..16].bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
                "{url}"
            );
            shape.push('#');
            shape.push_str(&part[16..]);
        }
        shape
    }

    #[test]
    fn values_go_and_names_stay() {
        for (url, expected) in [
            ("http://a.example/?q=secret&page=2&q=", "http://a.example/?q=#&page=#&q="),
            ("http://a.example/p?secret", "http://a.example/p?#"),
            ("http://a.example/p?a&b=1&&=x&c=d=e?f", "http://a.example/p?#&b=#&&=#&c=#"),
            ("http://a.example/p?", "http://a.example/p?"),
            ("http://a.example/p;x=1", "http://a.example/p;x=1"),
            ("a.example:443", "a.example:443"),
        ] {
            assert_eq!(shape(&redactor().url(url)), expected);
        }
    }

    #[test]
    fn a_url_as_it_was_received_loses_its_values_too() {
        let received = |bytes: &[u8]| shape(&redactor().url(&Record::text(bytes)));
        let e = "é".as_bytes();
        assert_eq!(
            received(&[b"http://a.example/", e, b"?", e, b"=<x>&\\"].concat()),
            "http://a.example/é?é=#&#"
        );
        assert_eq!(received("http://a.example/a…?q=é…&r".as_bytes()), "http://a.example/a…?q=#&#");
        // Whatever looks like the mark of a cut loses what is behind it.
        let forged = received("http://a.example/?q=é&r=1…[7 octets, s=secret".as_bytes());
        assert_eq!(forged, "http://a.example/?q=#&r=#…[7 octets, #]");
        let long = ["http://a.example/?q=é&secret=".as_bytes(), &[b's'; 9000]].concat();
        assert_eq!(received(&long), "http://a.example/?q=#&secret=#…[9030 octets, #]");
    }

    #[test]
    fn equal_values_look_equal_under_one_key_and_not_under_another() {
        let one = redactor().url("http://a.example/?q=1&r=1&s=2");
        let hashes: Vec<_> = one.split('~').skip(1).map(|part| &part[..16]).collect();
        assert_eq!(hashes[0], hashes[1]);
        assert_ne!(hashes[0], hashes[2]);
        assert_ne!(one, Redactor::new(&[8; KEY_BYTES]).url("http://a.example/?q=1&r=1&s=2"));
    }

    #[test]
    fn a_long_url_keeps_its_length_and_loses_the_digest_that_would_tell() {
        let long = format!("http://a.example/?q={}", "s".repeat(9000));
        let recorded = Record::url(long.as_bytes());
        assert_eq!(shape(&redactor().url(&recorded)), "http://a.example/?q=#…[9020 octets, #]");
        let many = format!("http://a.example/?{}", "a&".repeat(4000));
        let redacted = redactor().url(&Record::url(many.as_bytes()));
        assert!(redacted.contains("…[8018 octets, ~"), "{redacted}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_value_survives_and_the_bound_holds(
            pairs in prop::collection::vec(("[a-z]{0,3}", "[A-Z%+=?]{4,9}"), 1..200),
            padding in 0..9000usize,
        ) {
            let query: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let url = format!("http://a.example/{}?{}", "p".repeat(padding), query.join("&"));
            let redacted = redactor().url(&Record::url(url.as_bytes()));
            prop_assert!(!redacted.bytes().any(|byte| byte.is_ascii_uppercase()), "{}", redacted);
            // `…[8192 octets, ~0123456789abcdef]` at most is added.
            prop_assert!(redacted.len() <= RECORD_URL_BYTES_MAX + 50);
        }
    }

    #[test]
    fn the_key_is_made_once_for_nobody_else_and_a_bad_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(KEY_NAME);
        let redacted =
            || Redactor::open(dir.path()).map(|redactor| redactor.url("http://a.example/?1"));
        let first = redacted().unwrap();
        assert_eq!(redacted().unwrap(), first);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(redacted().unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        let refused = redacted().unwrap_err().to_string();
        assert!(refused.contains("5 bytes") && refused.contains("remove it"), "{refused}");
        fs::remove_file(&path).unwrap();
        assert_ne!(redacted().unwrap(), first);
    }
}
