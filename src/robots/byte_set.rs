//! The set of bytes that occur in a text: enough to refuse most wildcard rules without a search.

/// A set of bytes. Bytes from 0x80 share a bit with those below, so it may report one that is
/// absent, but never misses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet([u64; 2]);

impl ByteSet {
    pub(super) fn of<'a>(bytes: impl Iterator<Item = &'a u8>) -> ByteSet {
        let (mut low, mut high) = (0, 0);
        for byte in bytes {
            // Without a branch or a memory access: shifts by the excess produce zero in one of the
            // two halves.
            let is_high = u64::from(byte >> 6 & 1);
            high |= is_high << (byte & 63);
            low |= (is_high ^ 1) << (byte & 63);
        }
        ByteSet([low, high])
    }

    pub(super) fn includes(self, other: ByteSet) -> bool {
        self.0[0] & other.0[0] == other.0[0] && self.0[1] & other.0[1] == other.0[1]
    }
}
