//! Everything known of an origin except the file's bytes, as one text: [`Persisted`] as on disk,
//! followed by its captures. Digests do not compress, so they are left out and recomputed.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::super::convert::Blobs;
use super::super::persisted::{Digest, Persisted};

/// The length prefix of each block in bytes.
const LENGTH_BYTES: usize = size_of::<u32>();

/// `None` if a block is missing or too long.
pub(super) fn write(mut persisted: Persisted, blobs: &Blobs) -> Option<Vec<u8>> {
    let mut captures: Vec<Digest> = Vec::new();
    for digest in persisted.captures_mut() {
        let known = captures.iter().position(|known| known == digest);
        let number = known.unwrap_or(captures.len());
        if known.is_none() {
            captures.push(*digest);
        }
        *digest = Digest([u8::try_from(number).ok()?; 32]);
    }
    if let Some(good) = &mut persisted.good {
        good.file.sha256 = Digest([0; 32]);
    }
    let mut text = Vec::new();
    append(&mut text, &serde_json::to_vec(&persisted).ok()?)?;
    captures.iter().try_for_each(|digest| append(&mut text, blobs.get(digest)?))?;
    Some(text)
}

/// The inverse of [`write`]. `file` is the digest of the origin's robots.txt, if it has one.
pub(super) fn read(text: &[u8], file: Option<Digest>) -> Option<(Persisted, Blobs)> {
    let (json, mut rest) = piece(text)?;
    let mut persisted: Persisted = serde_json::from_slice(json).ok()?;
    let mut captures = Vec::new();
    while !rest.is_empty() {
        let capture;
        (capture, rest) = piece(rest)?;
        captures.push((Digest(Sha256::digest(capture).into()), Bytes::copy_from_slice(capture)));
    }
    for digest in persisted.captures_mut() {
        *digest = captures.get(usize::from(digest.0[0]))?.0;
    }
    if let Some(good) = &mut persisted.good {
        good.file.sha256 = file?;
    }
    Some((persisted, captures.into_iter().collect()))
}

fn append(text: &mut Vec<u8>, piece: &[u8]) -> Option<()> {
    text.extend(u32::try_from(piece.len()).ok()?.to_le_bytes());
    text.extend(piece);
    Some(())
}

/// The first block, and the rest.
fn piece(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = text.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}
