//! The first bytes of a text as one number, so that most rules or names are refused in one
//! comparison.

/// The number of those bytes.
const BYTES: usize = 8;

/// The first bytes of the paths that a rule can match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    bytes: u64,
    /// The mask of the bytes that count.
    mask: u64,
}

impl Head {
    /// For paths that begin with `prefix`.
    pub(super) fn of_prefix(prefix: &[u8]) -> Head {
        Head::of_first(head_number(prefix), prefix.len())
    }

    /// For paths that begin with a prefix of this number and length.
    pub(super) fn of_first(number: u64, length: usize) -> Head {
        let counted = BYTES.min(length);
        // Big-endian, so that the first bytes are the most significant.
        let mask = u64::MAX.checked_shl(8 * (BYTES - counted) as u32).unwrap_or(0);
        Head { bytes: number & mask, mask }
    }

    /// Whether a path with these first bytes may match.
    pub(super) fn admits(self, path: u64) -> bool {
        path & self.mask == self.bytes
    }

    /// Whether the number holds a whole prefix of this length.
    pub(super) fn is_all_of(length: usize) -> bool {
        length <= BYTES
    }
}

/// The first bytes, most significant first, so that numbers compare as the bytes do. A shorter text
/// is padded with zeros.
#[inline]
pub(super) fn head_number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or_else(|| number_of_few(bytes), |head| u64::from_be_bytes(*head))
}

fn number_of_few(bytes: &[u8]) -> u64 {
    let number = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            // Keeps the bytes that are equal at the same position in both.
            let beyond = 8 * (bytes.len() - size_of::<u32>()) as u32;
            u64::from(u32::from_be_bytes(*first)) << beyond | u64::from(u32::from_be_bytes(*last))
        }
        _ => bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    };
    number.checked_shl(8 * (BYTES - bytes.len()) as u32).unwrap_or(0)
}

/// How many of `sorted` numbers are not more than `number`.
#[inline]
pub(super) fn count_up_to(sorted: &[u64], number: u64) -> usize {
    /// A linear count is faster than bisection up to this many: no comparison depends on another.
    const COUNTED_MAX: usize = 16;
    let (mut from, mut to) = (0, sorted.len());
    while to - from > COUNTED_MAX {
        let middle = from + (to - from) / 2;
        if sorted[middle] <= number {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from + sorted[from..to].iter().filter(|other| **other <= number).count()
}

/// The same for the text in lower case, all bytes at once: the additions carry within a byte, never
/// into the next.
pub(super) fn folded_number(bytes: &[u8]) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; BYTES]);
    const HIGH_BITS: u64 = 0x80 * EACH;
    let number = head_number(bytes);
    let low_bits = number & !HIGH_BITS;
    let from_a = low_bits + (0x80 - b'A' as u64) * EACH;
    let after_z = low_bits + (0x7F - b'Z' as u64) * EACH;
    let upper = from_a & !after_z & !number & HIGH_BITS;
    number | upper >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_admits_what_begins_with_the_prefix_as_far_as_it_reaches() {
        for (prefix, path, admits) in [
            ("", "", true),
            ("", "/anything", true),
            ("/a", "/a", true),
            ("/a", "/abc/defgh", true),
            ("/a", "/", false),
            ("/a", "/b", false),
            ("/abcdefg", "/abcdefg", true),
            ("/abcdefg", "/abcdef", false),
            // The rest of the text is compared elsewhere.
            ("/abcdefgh", "/abcdefgx", true),
        ] {
            assert_eq!(
                Head::of_prefix(prefix.as_bytes()).admits(head_number(path.as_bytes())),
                admits,
                "{prefix} {path}"
            );
        }
    }

    #[test]
    fn numbers_compare_as_the_bytes_do() {
        let sorted = [
            "", "*", "a", "a-b", "ab", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh",
            "abcdefgi", "b",
        ];
        assert!(sorted.is_sorted_by(|a, b| head_number(a.as_bytes()) < head_number(b.as_bytes())));
    }

    #[test]
    fn numbers_are_counted_however_many_there_are() {
        for length in 0..70 {
            let sorted: Vec<u64> = (0..length).map(|n| 2 * (n / 3) + 1).collect();
            for number in 0..60 {
                assert_eq!(
                    count_up_to(&sorted, number),
                    sorted.partition_point(|other| *other <= number),
                    "{number} of {length}"
                );
            }
        }
    }

    #[test]
    fn a_folded_number_is_that_of_the_text_in_lower_case() {
        for byte in 0..=u8::MAX {
            for text in [vec![byte], vec![b'A', byte, b'Z'], vec![byte; 8]] {
                assert_eq!(
                    folded_number(&text),
                    head_number(&text.to_ascii_lowercase()),
                    "{text:?}"
                );
            }
        }
        assert_eq!(folded_number(b"GoogleBot-News"), head_number(b"googlebot"));
    }
}
