//! Which octets occur in a text: enough to refuse most wildcard rules without a search.

/// A set of octets. Octets from 0x80 share a place with those below, so it may say that one is there
/// that is not, never the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OctetSet([u64; 2]);

impl OctetSet {
    pub(super) fn of<'a>(octets: impl Iterator<Item = &'a u8>) -> OctetSet {
        let (mut low, mut high) = (0, 0);
        for octet in octets {
            // Neither a branch nor a place in memory: the one of the two where it is not gets nothing.
            let is_high = u64::from(octet >> 6 & 1);
            high |= is_high << (octet & 63);
            low |= (is_high ^ 1) << (octet & 63);
        }
        OctetSet([low, high])
    }

    pub(super) fn includes(self, other: OctetSet) -> bool {
        self.0[0] & other.0[0] == other.0[0] && self.0[1] & other.0[1] == other.0[1]
    }
}
