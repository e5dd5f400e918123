//! Bounds that several files of `egress` share, with unit and source.

/// Exchanges on one HTTP/2 connection at one time: what RFC 9113 §6.5.2 advises origins to allow at
/// the least. One more gets another connection.
pub const HTTP2_STREAMS_MAX: usize = 100;

/// The same for clients that are known to read, where there is memory for it.
pub const HTTP2_LARGE_WINDOW_BYTES: u32 = 256 << 10;

/// Bytes of one body that wait to be sent, a request's or an answer's.
pub const HTTP2_SEND_BUFFER_BYTES: usize = 16 << 10;

/// Bytes of an answer of HTTP/1.1 that are read at once in its beginning: three such pieces, one on its way
/// out, one that follows and one being read, are what a slow client makes us hold. One less than the
/// engine's room for them, which would double each time that it was filled.
pub const ORIGIN_READ_BYTES: usize = (8 << 10) - 1;

/// Bytes of it that may be read at once where the client has shown that it reads
/// ([`ORIGIN_READ_SMALL_BYTES`]): three such pieces are held at most where it stops. One less than room for
/// them, as above.
pub const ORIGIN_READ_LARGE_BYTES: usize = (128 << 10) - 1;

/// The same of long answers over a few connections ([`ORIGIN_BULKS_MAX`]): two fifths less of the processor's time for
/// each byte.
pub const ORIGIN_READ_BULK_BYTES: usize = 768 << 10;

/// How many connections read so at a time: where all their clients stop, 72 MiB are held. Each is closed
/// after its answer.
pub const ORIGIN_BULKS_MAX: usize = 32;

/// So long is that beginning: more than what the systems on either side hold for a client that does not
/// read. After it reads are larger, which costs less than half of the time.
pub const ORIGIN_READ_SMALL_BYTES: usize = 256 << 10;

/// How often a worker borrows a connection to one origin between two sweeps, before it opens its own: to wake
/// another thread, and to be woken by it, costs about a thirtieth of a handshake.
pub const BORROWED_MAX: u32 = 32;

/// The fields that the HTTP engine takes in a head if it is not told how many. For so many it has room
/// on the stack, which for a number that it is told, and be it this one, it fills each time.
pub const ENGINES_FIELDS_MAX: usize = 100;
