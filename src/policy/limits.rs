//! Bounds that several files of `policy` share, with unit and source.

use std::time::Duration;

/// The longest Retry-After that is honoured (RFC 9110 §10.2.3): a slip of the pen must not shut a
/// site out for a year.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// How far into the future something may have been learnt before the clock must have been set back
/// and what is known cannot be dated.
pub const CLOCK_SET_BACK_MAX: Duration = Duration::from_secs(5 * 60);
