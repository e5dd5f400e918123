//! Shared files are named by their digest.

/// The SHA-256 of a file.
pub type Sha256 = [u8; 32];

/// Whether the content has the digest.
pub fn has_digest(content: &[u8], sha256: &Sha256) -> bool {
    use sha2::Digest;
    sha2::Sha256::digest(content)[..] == sha256[..]
}
