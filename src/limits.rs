//! Every bound that is not a setting, with its unit and its source. Bounds that are settings have
//! their defaults in `config/courtesy.toml`.

/// Octets of a host name without its trailing dot (RFC 1035 §2.3.4).
pub const HOST_OCTETS_MAX: usize = 253;

/// Octets of a URL that a denial record keeps. With the other bounds, and every octet of the texts
/// escaped at its worst, a record stays under [`RECORD_LINE_OCTETS_MAX`].
pub const RECORD_URL_OCTETS_MAX: usize = 8 << 10;

/// Octets of a User-Agent that a denial record keeps.
pub const RECORD_USER_AGENT_OCTETS_MAX: usize = 2 << 10;

/// Octets of a path pattern that a denial record keeps.
pub const RECORD_PATTERN_OCTETS_MAX: usize = 2 << 10;

/// Octets of one denial record, its line end included: what readers need to hold.
pub const RECORD_LINE_OCTETS_MAX: usize = 64 << 10;

/// Records that wait for the writer; a request that would be one more waits itself.
pub const RECORDS_WAITING_MAX: usize = 1024;

/// Octets at the end of the record file that are searched for the last whole record at start.
pub const RECORD_TAIL_OCTETS_MAX: u64 = 4 << 20;
