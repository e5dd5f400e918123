//! Bounds that several files of `proxy` share, with unit and source.

use std::time::Duration;

/// How long the engine of an idle connection stays, for each request that the connection has made, and
/// how long at most. A new engine costs a sixth of a request: a client that sends request after request
/// hardly ever pays it.
pub const ENGINE_REST: Duration = Duration::from_millis(100);
pub const ENGINE_REST_MAX: Duration = Duration::from_secs(3);

/// Bytes for a client that wait in the system to be sent, beside those on their way (Linux:
/// TCP_NOTSENT_LOWAT): what a slow reader makes us take from the origin beyond our own buffers. Left to itself,
/// the system would take megabytes. As many as it sends as one piece: with half as many a large answer costs
/// a tenth more, with more it costs no less.
pub const CLIENT_UNSENT_BYTES_MAX: u32 = 64 << 10;

/// Bytes of a request target that the HTTP engine takes. RFC 9112 §3 asks for 8,000 at the least.
pub const TARGET_BYTES_MAX: usize = 65_534;

/// Bytes read at once from one direction of an upgraded connection.
pub const TUNNEL_BUFFER_BYTES: usize = 16 * 1024;

/// How long a proxy that shuts down waits for the first request of a client that has just connected.
pub const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// How long a connection that is being closed is read from, so that the last answer arrives.
pub const LINGER: Duration = Duration::from_secs(1);

/// Distinct origins that the summary of one run counts.
pub const ORIGINS_COUNTED_MAX: usize = 100_000;

/// Requests under way at once on one HTTP/2 connection of a client: what RFC 9113 §6.5.2 advises to allow at the
/// least.
pub const H2_STREAMS_MAX: u32 = 100;

/// The same where there is no memory for as many streams that are refused.
pub const H2_STREAMS_FEW: u32 = 10;

/// Bytes of a request's content that a client may send on one HTTP/2 stream before the origin takes them, and room
/// for all streams of the connection.
pub const H2_STREAM_WINDOW_BYTES: u32 = 64 << 10;
pub const H2_CONNECTION_WINDOW_BYTES: u32 = H2_STREAM_WINDOW_BYTES * H2_STREAMS_MAX;
