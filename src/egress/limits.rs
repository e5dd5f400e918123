//! Limits that several files of `egress` share, with unit and source.

/// Exchanges on one HTTP/2 connection at one time: the least that RFC 9113 §6.5.2 advises origins
/// to allow. One more opens another connection.
pub const HTTP2_STREAMS_MAX: usize = 100;

/// Bytes of one body that wait to be sent, of a request or of a response.
pub const HTTP2_SEND_BUFFER_BYTES: usize = 16 << 10;

/// Bytes of an HTTP/1.1 response that are read at once at first. A slow client makes the proxy hold
/// three such pieces: one being sent, one that follows and one being read. One less than hyper's
/// buffer for them, which would double each time that it was filled.
pub const ORIGIN_READ_BYTES: usize = (8 << 10) - 1;

/// Bytes that may be read at once when the client has proved that it reads
/// ([`ORIGIN_READ_SMALL_BYTES`]): at most three such pieces are held when it stops. One less than
/// the buffer, as above.
pub const ORIGIN_READ_LARGE_BYTES: usize = (128 << 10) - 1;

/// The same for large responses over a few connections: two fifths less processor time for each
/// byte.
pub const ORIGIN_READ_LARGEST_BYTES: usize = 768 << 10;

/// Bytes of a response after which reads may grow: more than what the systems on either side hold
/// for a client that does not read. Larger reads cost less than half of the processor time.
pub const ORIGIN_READ_SMALL_BYTES: usize = 256 << 10;

/// Bytes of a request body that wait for the origin to take them. At so many, no more are read from
/// the client; one piece more, of what the client's connection may read at once, can be there.
pub const ORIGIN_WAITING_SMALL_BYTES: usize = 16 << 10;

/// The same when the origin has taken [`ORIGIN_READ_SMALL_BYTES`] and there is memory for it.
pub const ORIGIN_WAITING_BYTES_MAX: usize = 128 << 10;

/// Times that a worker borrows a connection to one origin between two sweeps, before it opens its
/// own: to wake another thread, and to be woken by it, costs about a thirtieth of a handshake.
pub const BORROWED_MAX: u32 = 32;

/// Headers of a head that hyper accepts by default. For so many it has room on the stack; for a
/// number that is set, even this one, it fills a buffer for each head.
pub const HYPER_HEADERS_MAX: usize = 100;

/// Connections of a worker to one origin that are kept although they serve only requests with the
/// loop tokens that they were opened with (those of the proxies that the requests came by): as many
/// as exchanges by default (`egress.max_per_origin`), because a client can make up tokens.
pub const LOOP_TOKEN_CONNECTIONS_MAX: usize = 8;
