//! Encodes a file or a capture for the disk: compressed if that pays, and verified when read.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::super::persisted::Digest;
use crate::audit::limits::EVIDENCE_BYTES_MAX;

/// The first byte is the encoding of the rest.
const PLAIN: u8 = 0;
const GZIP: u8 = 1;

/// Content up to this size is stored uncompressed: a compressor clears half a megabyte before it
/// begins, and most files and captures are shorter.
const PLAIN_BYTES_MAX: usize = 1024;

pub(super) fn encode(content: &[u8]) -> Vec<u8> {
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
pub(super) fn decode(stored: &[u8], digest: &Digest) -> Option<Bytes> {
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
            let mut stored = encode(content);
            assert!(stored.len() <= content.len() + 1);
            assert_eq!(decode(&stored, &digest).as_deref(), Some(content));
            for at in [0, stored.len() / 2, stored.len() - 1] {
                stored[at] ^= 0x10;
                assert_ne!(decode(&stored, &digest).as_deref(), Some(&b"something else"[..]));
                let whole = decode(&stored, &digest);
                assert!(whole.is_none_or(|found| found == content), "a changed byte is noticed");
                stored[at] ^= 0x10;
            }
            assert_eq!(
                decode(&stored[..stored.len() - 1], &digest).filter(|it| it != content),
                None
            );
        }
    }
}
