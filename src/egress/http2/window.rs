//! Flow-control windows of streams (RFC 9113 §5.2).

/// Bytes that an origin may send on one stream before they are read (RFC 9113 §5.2): what a slow
/// client makes the proxy hold.
const SMALL_WINDOW_BYTES: u32 = 32 << 10;

/// The same for clients that are known to read, when there is memory for it.
const LARGE_WINDOW_BYTES: u32 = 256 << 10;

/// How much an origin may send on a stream before it is read. All streams of a connection have the
/// same window, so there are connections of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// For clients that have not shown yet that they read, and when memory is short.
    Small,
    /// For clients that are known to read, with memory for each stream.
    Large,
}

impl Window {
    /// Bytes of one stream.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Small => SMALL_WINDOW_BYTES,
            Self::Large => LARGE_WINDOW_BYTES,
        }
    }
}
