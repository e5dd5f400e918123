//! How values are stored: a byte for the format, and deflated text with a dictionary that is part
//! of the format.
//!
//! ```text
//! known   format · token (8 bytes, big endian) · seal (32 bytes, or none) · text
//! file    format · text
//! ```
//!
//! The first bit of the format says whether there is a seal.

use std::borrow::Cow;
use std::path::Path;
use std::{fmt, io};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha256 as Hash};

use super::{FileDigest, LeaseToken};
use crate::runtime::files::{self, Found};
use crate::types::origin::Origin;
use crate::types::sanitize::hex;

/// The format of values. A proxy reads this one and the one before, of which there is none yet.
pub const FORMAT: u8 = 1;
/// The bit of the format byte that says that a seal follows the token.
const SEALED: u8 = 0x80;
const HEAD_BYTES: usize = 9;

/// Words and names that occur in what is known of an origin and in robots.txt files, the most
/// frequent last. It is part of the format: another dictionary is another format.
const DICTIONARY: &[u8] = include_bytes!("dictionary");

/// What is wrong with a stored value. It is as absent, and replaced by the next that is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("unknown format")]
    Format,
    #[error("wrong seal")]
    Seal,
    #[error("not deflated text, or too long")]
    Text,
}

/// What is known of an origin, as it is stored under `key`.
pub fn encode_known(
    key: &[u8],
    token: LeaseToken,
    text: &[u8],
    seal: Option<&SealKey>,
) -> Option<Vec<u8>> {
    let format = FORMAT | if seal.is_some() { SEALED } else { 0 };
    let mut value = vec![format];
    value.extend(token.0.to_be_bytes());
    let text = deflate(text)?;
    if let Some(seal) = seal {
        value.extend(seal.of(key, &[&value, &text]));
    }
    value.extend(text);
    Some(value)
}

/// The token of a stored value, and the text if that is whole, sealed where seals are required, and
/// of at most `max` bytes. `None` if there is no token either.
pub fn decode_known(
    key: &[u8],
    value: &[u8],
    seal: Option<&SealKey>,
    max: usize,
) -> Option<(LeaseToken, Result<Vec<u8>, Damage>)> {
    let (head, rest) = value.split_first_chunk::<HEAD_BYTES>()?;
    let (format, token) = head.split_first()?;
    let token = LeaseToken(u64::from_be_bytes(token.try_into().ok()?));
    Some((token, text_of(key, (*format, head), rest, seal, max)))
}

fn text_of(
    key: &[u8],
    (format, head): (u8, &[u8]),
    rest: &[u8],
    seal: Option<&SealKey>,
    max: usize,
) -> Result<Vec<u8>, Damage> {
    if format & !SEALED != FORMAT {
        return Err(Damage::Format);
    }
    let (found, text) = if format & SEALED == 0 {
        (None, rest)
    } else {
        let (found, text) = rest.split_first_chunk::<SEAL_BYTES>().ok_or(Damage::Format)?;
        (Some(found), text)
    };
    if let Some(seal) = seal
        && !found.is_some_and(|found| seal.is_of(found, key, &[head, text]))
    {
        return Err(Damage::Seal);
    }
    inflate(text, max).ok_or(Damage::Text)
}

/// A file as it is stored.
pub fn encode_file(content: &[u8]) -> Option<Vec<u8>> {
    let text = deflate(content)?;
    Some([&[FORMAT][..], &text].concat())
}

/// The content of a stored file of at most `max` bytes.
pub fn decode_file(value: &[u8], max: usize) -> Result<Vec<u8>, Damage> {
    let (format, text) = value.split_first().ok_or(Damage::Format)?;
    if *format != FORMAT {
        return Err(Damage::Format);
    }
    inflate(text, max).ok_or(Damage::Text)
}

/// The most bytes that `text` takes when it is stored: what deflate cannot compress grows a little.
pub const fn stored_max(text: usize) -> usize {
    HEAD_BYTES + SEAL_BYTES + text + text / 8 + 64
}

fn deflate(text: &[u8]) -> Option<Vec<u8>> {
    let mut deflater = Compress::new(Compression::default(), false);
    deflater.set_dictionary(DICTIONARY).ok()?;
    let mut output = Vec::with_capacity(stored_max(text.len()));
    let status = deflater.compress_vec(text, &mut output, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then_some(output)
}

/// The text, if it is whole and of at most `max` bytes. Memory grows as it is written.
fn inflate(deflated: &[u8], max: usize) -> Option<Vec<u8>> {
    let mut inflater = Decompress::new(false);
    inflater.set_dictionary(DICTIONARY).ok()?;
    let mut output = Vec::with_capacity((4 * deflated.len()).clamp(64, max.max(64)));
    loop {
        let input = usize::try_from(inflater.total_in()).ok()?;
        let before = (input, output.len());
        let status =
            inflater.decompress_vec(deflated.get(input..)?, &mut output, FlushDecompress::None);
        match status.ok()? {
            _ if output.len() > max => return None,
            Status::StreamEnd => {
                return (inflater.total_in() == deflated.len() as u64).then_some(output);
            }
            _ if output.len() == output.capacity() => output.reserve(output.len().max(64)),
            _ if before == (usize::try_from(inflater.total_in()).ok()?, output.len()) => {
                return None;
            }
            _ => {}
        }
    }
}

// The message authentication code of what is published of an origin, for engines that others can
// write to: HMAC-SHA256 over the key and the value, by the key in `engine.seal_key_file`. It has
// no part in a sealed run, which is `courtesy run --sealed`.

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
        let Found::Content(content) = files::read_of_group(file)? else {
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

// The keys of an engine, one hash tag for each lane: all that is shared of an origin, and of the
// lane that it shares with the other scheme of its host, is in one slot of a cluster.

/// The major format of keys and scripts. Another one is another data set.
const MAJOR: &str = "1";
/// A longer name of a group is stored as its digest.
const GROUP_BYTES_MAX: usize = 64;

/// The keys under one prefix.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// The keys of the proxies whose `engine.prefix` this is.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}:{MAJOR}") }
    }

    /// A key of an origin: `known` or `lease`.
    pub fn of(&self, origin: &Origin, name: &str) -> Vec<u8> {
        let (lane, scheme) = (origin.lane(), origin.scheme().as_str());
        let own = if *lane == *origin { String::new() } else { format!("{scheme}:") };
        format!("{}:{{{lane}}}:{own}{name}", self.prefix).into_bytes()
    }

    /// A key of the lane of an origin: `pace` or `presence`.
    pub fn of_lane(&self, origin: &Origin, name: &str) -> Vec<u8> {
        format!("{}:{{{}}}:{name}", self.prefix, origin.lane()).into_bytes()
    }

    /// The key of a file.
    pub fn file(&self, sha256: &FileDigest) -> Vec<u8> {
        format!("{}:file:{}", self.prefix, hex(sha256)).into_bytes()
    }

    /// The key of the process that has a name.
    pub fn name(&self, name: &str) -> Vec<u8> {
        self.cluster(&format!("name:{}", group_name(name)))
    }

    /// A key of the proxies themselves: `members`, `about`, `epoch` or `heads`.
    pub fn cluster(&self, name: &str) -> Vec<u8> {
        format!("{}:{{cluster}}:{name}", self.prefix).into_bytes()
    }
}

/// The name of a group as it is stored.
pub(super) fn group_name(name: &str) -> Cow<'_, str> {
    if name.len() <= GROUP_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("#{}", hex(&Hash::digest(name.as_bytes())[..16])))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use crate::types::origin::Scheme;

    const KEY: &[u8] = b"courtesy:1:{https://example.com}:known";

    /// Key, value, key of the seal, and the text.
    type Case<'a> = (&'a [u8], &'a [u8], Option<&'a SealKey>, Result<Vec<u8>, Damage>);

    /// Values in hexadecimal, which every later version must read.
    const PLAIN: &str = "010000000000000007832519482183cbe5b1b500";
    const SEALED_VALUE: &str = "810000000000000007bb63eb5121115e660fa65e81f281e9a7a8d75d91c6df73\
        de5524d5d85042912b832519482183cbe5b1b500";
    const FILE: &str = "01c3d9f42a28ca2c4b2c49d5e70200";

    fn seal_key(byte: u8) -> SealKey {
        SealKey::new(&[byte; 32])
    }

    #[test]
    fn what_the_first_version_wrote_is_read() {
        let text = br#"{"good":null,"site_up":true,"states":[]}"#;
        let bytes = |hex: &str| -> Vec<u8> {
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digits).collect()
        };
        let (plain, sealed, file) = (bytes(PLAIN), bytes(SEALED_VALUE), bytes(FILE));
        let known = Some((LeaseToken(7), Ok(text.to_vec())));
        assert_eq!(decode_known(KEY, &plain, None, 100), known);
        assert_eq!(decode_known(KEY, &sealed, Some(&seal_key(1)), 100), known);
        assert_eq!(decode_file(&file, 100).unwrap(), b"User-agent: *\nDisallow: /private/\n");
    }

    #[test]
    fn damage_has_a_name_and_the_token_is_there_nevertheless() {
        let (seal, other) = (seal_key(1), seal_key(2));
        let plain = encode_known(KEY, LeaseToken(7), b"text", None).unwrap();
        let sealed = encode_known(KEY, LeaseToken(7), b"text", Some(&seal)).unwrap();
        let text = Ok(b"text".to_vec());
        let cases: [Case<'_>; 7] = [
            (KEY, &plain, None, text.clone()),
            (KEY, &sealed, None, text.clone()),
            (KEY, &sealed, Some(&seal), text),
            (KEY, &plain, Some(&seal), Err(Damage::Seal)),
            (KEY, &sealed, Some(&other), Err(Damage::Seal)),
            (b"another key", &sealed, Some(&seal), Err(Damage::Seal)),
            (KEY, &plain[..plain.len() - 1], None, Err(Damage::Text)),
        ];
        for (index, (key, value, seal, text)) in cases.into_iter().enumerate() {
            assert_eq!(
                decode_known(key, value, seal, 100),
                Some((LeaseToken(7), text)),
                "case {index}"
            );
        }
        let unknown = [&[9][..], &plain[1..]].concat();
        assert_eq!(
            decode_known(KEY, &unknown, None, 100),
            Some((LeaseToken(7), Err(Damage::Format)))
        );
        assert_eq!(decode_known(KEY, &plain[..8], None, 100), None);
        assert_eq!(decode_file(b"", 100), Err(Damage::Format));
    }

    #[test]
    fn a_small_value_cannot_become_a_large_one() {
        let value = encode_file(&vec![b'a'; 1 << 20]).unwrap();
        assert!(value.len() < 10_000);
        assert_eq!(decode_file(&value, 1 << 20).unwrap().len(), 1 << 20);
        assert_eq!(decode_file(&value, (1 << 20) - 1), Err(Damage::Text));
    }

    proptest! {
        #[test]
        fn what_is_stored_comes_back(
            text in prop::collection::vec(any::<u8>(), 0..5000), token in any::<u64>(),
            is_sealed in any::<bool>(),
        ) {
            let seal = is_sealed.then(|| seal_key(3));
            let value = encode_known(KEY, LeaseToken(token), &text, seal.as_ref()).unwrap();
            prop_assert!(value.len() <= stored_max(text.len()));
            let decoded = decode_known(KEY, &value, seal.as_ref(), text.len());
            prop_assert_eq!(decoded, Some((LeaseToken(token), Ok(text.clone()))));
            let file = encode_file(&text).unwrap();
            prop_assert_eq!(decode_file(&file, text.len()), Ok(text));
        }

        #[test]
        fn no_bytes_panic_or_exceed_the_bound(
            value in prop::collection::vec(any::<u8>(), 0..300), max in 0_usize..400,
        ) {
            for format in [None, Some(FORMAT), Some(FORMAT | SEALED)] {
                let mut value = value.clone();
                if let (Some(first), Some(format)) = (value.first_mut(), format) {
                    *first = format;
                }
                if let Some((_, Ok(text))) = decode_known(KEY, &value, None, max) {
                    prop_assert!(text.len() <= max);
                }
                if let Ok(content) = decode_file(&value, max) {
                    prop_assert!(content.len() <= max);
                }
            }
        }

        #[test]
        fn a_changed_bit_of_a_sealed_value_shows(bit in 0_usize..8 * 60) {
            let seal = seal_key(4);
            let text: Vec<u8> = (0..=255).collect();
            let mut value = encode_known(KEY, LeaseToken(7), &text, Some(&seal)).unwrap();
            value[bit / 8] ^= 1 << (bit % 8);
            let decoded = decode_known(KEY, &value, Some(&seal), 1000);
            prop_assert!(decoded.unwrap().1.is_err());
        }
    }

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

    #[test]
    fn all_keys_of_a_lane_have_one_hash_tag() {
        let keys = Keys::new("courtesy");
        for (scheme, authority, tag, own) in [
            (Scheme::Https, "example.com:8443", "https://example.com:8443", ""),
            (Scheme::Http, "example.com:8080", "http://example.com:8080", ""),
            (Scheme::Http, "example.com:443", "http://example.com:443", ""),
            (Scheme::Https, "example.com", "https://example.com", ""),
            (Scheme::Http, "example.com", "https://example.com", "http:"),
        ] {
            let origin = Origin::from_authority(scheme, authority).unwrap();
            let known = String::from_utf8(keys.of(&origin, "known")).unwrap();
            assert_eq!(known, format!("courtesy:1:{{{tag}}}:{own}known"));
            let pace = String::from_utf8(keys.of_lane(&origin, "pace")).unwrap();
            assert_eq!(pace, format!("courtesy:1:{{{tag}}}:pace"));
        }
        assert_eq!(keys.cluster("epoch"), b"courtesy:1:{cluster}:epoch");
        let file = String::from_utf8(keys.file(&[0xab; 32])).unwrap();
        assert_eq!(file, format!("courtesy:1:file:{}", "ab".repeat(32)));
    }

    #[test]
    fn a_long_name_of_a_group_is_stored_as_its_digest() {
        assert_eq!(group_name("examplebot"), "examplebot");
        let (one, other) = ("x".repeat(65), "y".repeat(6500));
        assert_eq!(group_name(&one).len(), 33);
        assert_ne!(group_name(&one), group_name(&other));
    }
}
