//! Whether a path asks for a second look, in one pass, eight octets at a time: ordinary paths do not.

const EACH: u64 = u64::from_ne_bytes([1; size_of::<u64>()]);
const HIGH_BITS: u64 = 0x80 * EACH;

/// Whether a path is sure to be its own normal form, without dot segments: all its octets are from `&` to
/// `~`, which leaves out `%` and all control octets, and none of its segments begins with a dot. `path`
/// begins with `/`, and its first octets are `head`.
#[inline]
pub(super) fn is_ordinary(path: &[u8], head: u64) -> bool {
    let Some(last) = path.last_chunk() else {
        // In the place of what is not there stands what is nothing to look at.
        let padding =
            (u64::from(b'/') * EACH).checked_shr(8 * path.len() as u32).unwrap_or_default();
        return marks(head | padding, 0) & HIGH_BITS == 0;
    };
    let (mut found, mut before) = (0, 0);
    for octets in path.as_chunks().0 {
        let octets = u64::from_be_bytes(*octets);
        found |= marks(octets, before);
        before = octets;
    }
    // Some are looked at twice; the first of them has been seen behind the one before it.
    found |= marks(u64::from_be_bytes(*last), 0);
    found & HIGH_BITS == 0
}

/// Has a high bit if one of the octets asks for a second look; not always just where it stands, for what is
/// carried goes on. `before` are the octets before them.
const fn marks(octets: u64, before: u64) -> u64 {
    let below = octets.wrapping_sub(b'&' as u64 * EACH);
    let above = octets | octets.wrapping_add((0x7F - b'~' as u64) * EACH);
    let each_before = octets >> 8 | before << (u64::BITS - 8);
    let other_than_dots_after_slash =
        (octets ^ (b'.' as u64 * EACH)) | (each_before ^ (b'/' as u64 * EACH));
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
                let with = |octets: &[u8]| {
                    let mut path = plain.clone();
                    path[at + 1 - octets.len()..=at].copy_from_slice(octets);
                    is_ordinary(&path, head::number(&path))
                };
                for octet in 0..=u8::MAX {
                    let is_plain = (b'&'..=b'~').contains(&octet);
                    let here = format!("{octet} at {at} of {length}");
                    assert_eq!(with(&[octet]), is_plain && (octet != b'.' || at > 1), "{here}");
                    assert_eq!(
                        with(&[b'/', octet]),
                        is_plain && octet != b'.',
                        "{here}, after a slash"
                    );
                }
            }
        }
    }
}
