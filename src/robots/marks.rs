//! Whether a path needs normalising, in one pass over eight bytes at a time: ordinary paths do not.

const EACH: u64 = u64::from_ne_bytes([1; size_of::<u64>()]);
const HIGH_BITS: u64 = 0x80 * EACH;

/// Whether a path is certainly its own normal form without dot segments: all its bytes are from `&`
/// to `~`, which excludes `%` and control bytes, and none of its segments begins with a dot. `path`
/// begins with `/`, and its first bytes are `head`.
#[inline]
pub(super) fn is_ordinary(path: &[u8], head: u64) -> bool {
    let Some(last) = path.last_chunk() else {
        // Pads with bytes that need no normalising.
        let padding =
            (u64::from(b'/') * EACH).checked_shr(8 * path.len() as u32).unwrap_or_default();
        return marks(head | padding, 0) & HIGH_BITS == 0;
    };
    let (mut found, mut before) = (0, 0);
    for bytes in path.as_chunks().0 {
        let bytes = u64::from_be_bytes(*bytes);
        found |= marks(bytes, before);
        before = bytes;
    }
    // The last chunks overlap, so some bytes are checked twice; the first one's predecessor is
    // known.
    found |= marks(u64::from_be_bytes(*last), 0);
    found & HIGH_BITS == 0
}

/// Has a high bit set if a byte may need normalising; not always at its position, because carries
/// propagate. `before` holds the preceding bytes.
const fn marks(bytes: u64, before: u64) -> u64 {
    let below = bytes.wrapping_sub(b'&' as u64 * EACH);
    let above = bytes | bytes.wrapping_add((0x7F - b'~' as u64) * EACH);
    let each_before = bytes >> 8 | before << (u64::BITS - 8);
    let other_than_dots_after_slash =
        (bytes ^ (b'.' as u64 * EACH)) | (each_before ^ (b'/' as u64 * EACH));
    below | above | other_than_dots_after_slash.wrapping_sub(EACH)
}

#[cfg(test)]
mod tests {
    use super::super::head;
    use super::*;

    #[test]
    fn what_asks_for_a_second_look_is_seen_wherever_it_stands() {
        for length in 1..50 {
            let plain = [b"/", vec![b'a'; length - 1].as_slice()].concat();
            for at in 1..length {
                let with = |bytes: &[u8]| {
                    let mut path = plain.clone();
                    path[at + 1 - bytes.len()..=at].copy_from_slice(bytes);
                    is_ordinary(&path, head::number(&path))
                };
                for byte in 0..=u8::MAX {
                    let is_plain = (b'&'..=b'~').contains(&byte);
                    let here = format!("{byte} at {at} of {length}");
                    assert_eq!(with(&[byte]), is_plain && (byte != b'.' || at > 1), "{here}");
                    assert_eq!(
                        with(&[b'/', byte]),
                        is_plain && byte != b'.',
                        "{here}, after a slash"
                    );
                }
            }
        }
    }
}
