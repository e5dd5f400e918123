//! Bounds of the pace that are no settings.

use std::time::Duration;

/// Origins whose pace is remembered at one time.
pub const LANES_MAX: usize = 1_000_000;

/// How long a document's visit lasts.
pub const VISIT_LENGTH: Duration = Duration::from_secs(30);

/// Requests of one visit.
pub const VISIT_REQUESTS_MAX: u32 = 256;

/// Clients with a visit at one time. Documents of further ones begin none.
pub const VISITS_MAX: usize = 65_536;
