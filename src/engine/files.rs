//! Shared files are named by their digest.

use sha2::{Digest, Sha256 as Hash};

/// The SHA-256 of a file.
pub type Sha256 = [u8; 32];

/// Whether the content has the digest.
pub(super) fn has_digest(content: &[u8], sha256: &Sha256) -> bool {
    Hash::digest(content)[..] == sha256[..]
}
