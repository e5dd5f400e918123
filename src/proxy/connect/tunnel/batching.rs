//! When to let bytes gather. A stream that comes as fast as it can is cheapest in few large portions: to
//! move each piece as soon as it is there wakes us, and both systems, many times as often. But an exchange of
//! messages is not to wait, and is told from a stream by this: one side says little at a time, or the other
//! has its say in between. (A message as long as a stream is one, and the next may wait for a moment.)

/// Bytes that come one way without a word the other way, before they are taken for a stream and let gather.
const STREAM_BYTES_MIN: usize = 1 << 20;

/// In pieces of so many bytes, at the least: what comes more slowly is moved as it comes.
const STREAM_PIECE_BYTES_MIN: usize = 16 << 10;

/// What comes in one direction.
#[derive(Debug, Default)]
pub struct Gathering {
    /// Bytes since little was there.
    piece: usize,
    /// Bytes of the pieces before it, as long as they made a stream.
    stream: usize,
}

impl Gathering {
    /// So many bytes have come, the first ones since the other side spoke or not.
    pub const fn came(&mut self, bytes: usize, is_reply: bool) {
        if is_reply {
            (self.piece, self.stream) = (0, 0);
        }
        self.piece += bytes;
    }

    /// Whether it is to gather where little more is there.
    pub const fn is_stream(&self) -> bool {
        self.piece >= STREAM_PIECE_BYTES_MIN && self.stream + self.piece >= STREAM_BYTES_MIN
    }

    /// Little more is there, or nothing: whether it is to gather before it is looked for again.
    pub const fn is_drained(&mut self) -> bool {
        let gathers = self.is_stream();
        self.stream =
            if self.piece >= STREAM_PIECE_BYTES_MIN { self.stream + self.piece } else { 0 };
        self.piece = 0;
        gathers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = STREAM_PIECE_BYTES_MIN;
    const PIECES: usize = STREAM_BYTES_MIN / PIECE;

    /// How many pieces come before one gathers; each comes in portions.
    fn pieces_until_it_gathers(pieces: impl IntoIterator<Item = (usize, bool)>) -> Option<usize> {
        let mut gathering = Gathering::default();
        let gathers = pieces.into_iter().position(|(bytes, is_reply)| {
            gathering.came(1, is_reply);
            gathering.came(bytes - 1, false);
            gathering.is_drained()
        });
        gathers.map(|before| before + 1)
    }

    #[test]
    fn a_stream_gathers_and_an_exchange_of_messages_never_does() {
        let streams = [PIECE, PIECE + 1, 10 * PIECE];
        for bytes in streams {
            let enough = STREAM_BYTES_MIN.div_ceil(bytes);
            assert_eq!(
                pieces_until_it_gathers(vec![(bytes, false); 2 * PIECES]),
                Some(enough),
                "{bytes}"
            );
        }
        assert_eq!(
            pieces_until_it_gathers(vec![(PIECE - 1, false); 9 * PIECES]),
            None,
            "little at a time"
        );
        assert_eq!(
            pieces_until_it_gathers(vec![(STREAM_BYTES_MIN - 1, true); 99]),
            None,
            "one asks"
        );
        let interrupted = (0..9 * PIECES).map(|number| (PIECE, number % (PIECES - 1) == 0));
        assert_eq!(pieces_until_it_gathers(interrupted), None, "asked before it was a stream");
    }

    #[test]
    fn what_was_a_stream_begins_anew_when_little_comes_or_the_other_side_speaks() {
        let mut gathering = Gathering::default();
        for (little, is_reply) in [(1, false), (PIECE, true)] {
            gathering.came(STREAM_BYTES_MIN, false);
            assert!(gathering.is_drained());
            gathering.came(PIECE, false);
            assert!(gathering.is_drained(), "it goes on");
            gathering.came(little, is_reply);
            assert!(!gathering.is_drained());
        }
    }
}
