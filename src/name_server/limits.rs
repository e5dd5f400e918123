//! Bounds of the name server, with unit and source.

use std::time::Duration;

/// Names that have an address: the addresses of 198.18.0.0/16, half of the block for benchmarks
/// (RFC 2544, RFC 6890), which is no origin's.
pub const VIRTUAL_ADDRESSES_MAX: usize = 1 << 16;

/// Seconds for which a client may keep an answer. Short, because the address of a name that was not
/// used for long may become that of another.
pub const TTL_SECONDS: u32 = 60;

/// Queries that are answered at one time; of more, those by UDP are dropped, and the client asks
/// again.
pub const QUERIES_MAX: usize = 256;

/// Bytes of a query by UDP that are read: the size that RFC 9715 advises, and more than a query
/// has.
pub const UDP_BYTES_MAX: usize = 1400;

/// How long a connection for queries may be without one (RFC 7766 §6.2.3: of the order of seconds).
pub const TCP_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
