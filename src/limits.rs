//! Every bound that is not a setting, with its unit and its source. Bounds that are settings have
//! their defaults in `config/courtesy.toml`.

use std::time::Duration;

/// Octets of a host name without its trailing dot (RFC 1035 §2.3.4).
pub const HOST_OCTETS_MAX: usize = 253;

/// The longest gap between two failed tries that still counts as one outage observed: who did not
/// look for longer does not know that the file was unreachable all the time (RFC 9309 §2.3.1.4).
pub const OUTAGE_GAP_MAX: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// Failed tries without which no outage has been observed, however long ago it began.
pub const OUTAGE_TRIES_MIN: u32 = 3;

/// The longest Retry-After that is honoured (RFC 9110 §10.2.3): a slip of the pen must not shut a
/// site out for a year.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// How far into the future something may have been learnt before the clock must have been set back
/// and what is known cannot be dated.
pub const CLOCK_SET_BACK_MAX: Duration = Duration::from_secs(5 * 60);

/// Octets of a robots.txt that are read: the default, and the least that RFC 9309 §2.5 permits.
pub const ROBOTS_TXT_OCTETS: usize = 500 * 1024;

/// How many octets longer than the decoded limit an encoded robots.txt may be. No honest gzip file
/// grows by more than its few headers.
pub const ENCODED_SURPLUS_OCTETS: usize = 16 * 1024;

/// Profiles under which one origin is remembered. More can only come of reloaded settings.
pub const PROFILES_PER_ORIGIN_MAX: usize = 16;

/// Octets of a robots.txt that are parsed where they arrived: a millisecond's work. More is done on
/// a thread that serves nobody.
pub const PARSED_INLINE_OCTETS_MAX: usize = 64 * 1024;
