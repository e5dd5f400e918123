//! Shared files are named by their digest.

/// The SHA-256 of a file.
pub type Sha256 = [u8; 32];

/// The digest of a content.
pub(super) fn digest_of(content: &[u8]) -> Sha256 {
    use sha2::Digest;
    sha2::Sha256::digest(content).into()
}

/// Whether the content has the digest.
pub fn has_digest(content: &[u8], sha256: &Sha256) -> bool {
    digest_of(content) == *sha256
}
