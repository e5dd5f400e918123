//! The message authentication code of what is published of an origin, for engines that others can
//! write to: HMAC-SHA256 over the key and the value, by the key in `engine.seal_key_file`. It has
//! no part in a sealed run, which is `courtesy run --sealed`.

use std::fmt;
use std::io;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::runtime::secret_file::{self, Found};

/// The length of a seal.
pub const SEAL_BYTES: usize = 32;
/// A shorter key could be guessed.
const KEY_BYTES_MIN: usize = 16;

/// The key of the seals, the same in all proxies.
#[derive(Clone)]
pub struct SealKey(Hmac<Sha256>);

/// Why there is no key. The message names what to change, and no content.
#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("others can read or write it: its mode must be 0600, or 0640 for its group")]
    Exposed,
    #[error("it has less than {KEY_BYTES_MIN} bytes")]
    Short,
}

impl SealKey {
    /// Reads `engine.seal_key_file`. Its content is the key, without a line end.
    pub fn read(file: &Path) -> Result<Self, SealKeyError> {
        let Found::Content(content) = secret_file::read_of_group(file)? else {
            return Err(SealKeyError::Exposed);
        };
        let key = content.trim_ascii_end();
        if key.len() < KEY_BYTES_MIN {
            return Err(SealKeyError::Short);
        }
        Ok(Self::new(key))
    }

    /// The key with these bytes.
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("a key of any length is one"))
    }

    /// The seal of a value in parts.
    pub(super) fn of(&self, key: &[u8], value: &[&[u8]]) -> [u8; SEAL_BYTES] {
        self.tag(key, value).finalize().into_bytes().into()
    }

    /// Whether the seal is that of the value; takes the same time if it is not.
    pub(super) fn is_of(&self, seal: &[u8; SEAL_BYTES], key: &[u8], value: &[&[u8]]) -> bool {
        self.tag(key, value).verify_slice(seal).is_ok()
    }

    /// The length of the key goes first: what is left of it cannot become part of the value.
    fn tag(&self, key: &[u8], value: &[&[u8]]) -> Hmac<Sha256> {
        let mut tag = self.0.clone();
        tag.update(&(key.len() as u64).to_be_bytes());
        tag.update(key);
        value.iter().for_each(|part| tag.update(part));
        tag
    }
}

/// Two are equal if they seal alike.
impl PartialEq for SealKey {
    fn eq(&self, other: &Self) -> bool {
        other.is_of(&self.of(b"", &[]), b"", &[])
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_seal_is_that_of_one_key_and_one_value() {
        let key = SealKey::new(b"0123456789abcdef");
        let seal = key.of(b"name", &[b"va", b"lue"]);
        assert!(key.is_of(&seal, b"name", &[b"value"]));
        assert!(!key.is_of(&seal, b"nam", &[b"evalue"]));
        assert!(!key.is_of(&seal, b"name", &[b"valuf"]));
        assert!(!SealKey::new(b"0123456789abcdeF").is_of(&seal, b"name", &[b"value"]));
    }

    #[test]
    fn a_key_file_is_for_its_owner_and_group_and_long_enough() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seal.key");
        let read = |content: &str, mode| {
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            SealKey::read(&file)
        };
        let key = read("0123456789abcdef\n", 0o600).unwrap();
        assert_eq!(key.of(b"a", &[]), SealKey::new(b"0123456789abcdef").of(b"a", &[]));
        assert_eq!(format!("{key:?}"), "SealKey");
        assert!(read("0123456789abcdef", 0o640).is_ok(), "as Kubernetes gives a Secret");
        for mode in [0o644, 0o660, 0o604] {
            assert!(
                matches!(read("0123456789abcdef", mode), Err(SealKeyError::Exposed)),
                "{mode:o}"
            );
        }
        assert!(matches!(read("0123456789abcde\n\n", 0o600), Err(SealKeyError::Short)));
        assert!(matches!(SealKey::read(&dir.path().join("none")), Err(SealKeyError::File(_))));
    }
}
