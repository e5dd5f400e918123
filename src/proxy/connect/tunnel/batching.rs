//! When to wait for more bytes before moving any. A stream at full speed is cheapest in few large
//! portions: moving each piece at once wakes this process, and both systems, many times as often.
//! An exchange of messages must not wait. It differs from a stream in that one side sends little at
//! a time, or the sides alternate. (A message as long as a stream counts as one: the next may wait
//! a millisecond.)

/// Bytes one way, with none the other way, from which on they are a stream and may be batched.
const STREAM_BYTES_MIN: usize = 1 << 20;

/// Bytes that each piece of a stream has at least. Slower data is moved at once.
const STREAM_PIECE_BYTES_MIN: usize = 16 << 10;

/// The traffic in one direction.
#[derive(Debug, Default)]
pub struct Batching {
    /// Bytes since the socket was drained.
    piece: usize,
    /// Bytes of the pieces before this one, while each was large enough for a stream.
    stream: usize,
}

impl Batching {
    /// Counts bytes that were moved. `is_reply`: the other side sent since this one last did.
    pub const fn note_moved(&mut self, bytes: usize, is_reply: bool) {
        if is_reply {
            (self.piece, self.stream) = (0, 0);
        }
        self.piece += bytes;
    }

    /// Whether this is a stream, which may be batched.
    pub const fn is_stream(&self) -> bool {
        self.piece >= STREAM_PIECE_BYTES_MIN && self.stream + self.piece >= STREAM_BYTES_MIN
    }

    /// Ends a piece, as the socket is (nearly) drained. True: wait before the next read.
    pub const fn end_piece(&mut self) -> bool {
        let is_stream = self.is_stream();
        self.stream =
            if self.piece >= STREAM_PIECE_BYTES_MIN { self.stream + self.piece } else { 0 };
        self.piece = 0;
        is_stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = STREAM_PIECE_BYTES_MIN;
    const PIECES: usize = STREAM_BYTES_MIN / PIECE;

    /// The number of the first piece after which to wait; each piece comes in two portions.
    fn pieces_until_batched(pieces: impl IntoIterator<Item = (usize, bool)>) -> Option<usize> {
        let mut batching = Batching::default();
        let batched = pieces.into_iter().position(|(bytes, is_reply)| {
            batching.note_moved(1, is_reply);
            batching.note_moved(bytes - 1, false);
            batching.end_piece()
        });
        batched.map(|before| before + 1)
    }

    #[test]
    fn a_stream_is_batched_and_an_exchange_of_messages_never_is() {
        let streams = [PIECE, PIECE + 1, 10 * PIECE];
        for bytes in streams {
            let enough = STREAM_BYTES_MIN.div_ceil(bytes);
            assert_eq!(
                pieces_until_batched(vec![(bytes, false); 2 * PIECES]),
                Some(enough),
                "{bytes}"
            );
        }
        assert_eq!(
            pieces_until_batched(vec![(PIECE - 1, false); 9 * PIECES]),
            None,
            "little at a time"
        );
        assert_eq!(
            pieces_until_batched(vec![(STREAM_BYTES_MIN - 1, true); 99]),
            None,
            "one side asks"
        );
        let interrupted = (0..9 * PIECES).map(|number| (PIECE, number % (PIECES - 1) == 0));
        assert_eq!(pieces_until_batched(interrupted), None, "replies before it is a stream");
    }

    #[test]
    fn a_stream_starts_anew_after_a_small_piece_or_a_reply() {
        let mut batching = Batching::default();
        for (little, is_reply) in [(1, false), (PIECE, true)] {
            batching.note_moved(STREAM_BYTES_MIN, false);
            assert!(batching.end_piece());
            batching.note_moved(PIECE, false);
            assert!(batching.end_piece(), "it goes on");
            batching.note_moved(little, is_reply);
            assert!(!batching.end_piece());
        }
    }
}
