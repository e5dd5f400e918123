//! Bounds of the pace that are no settings.

use std::time::Duration;

/// Bytes that the lanes of all origins may take, groups counted: some 400,000 lanes with one group.
/// Beyond, of the clients whose lanes take most, those lanes are forgotten that end first.
pub const LANES_BYTES_MAX: usize = 128 << 20;

/// The same of the lanes of addresses.
pub const ADDRESS_LANES_BYTES_MAX: usize = 16 << 20;

/// Lanes that are written at an end: of the clients with most of them, those with the longest times.
pub const KEPT_LANES_MAX: usize = 100_000;

/// A hold of this length is written when it begins.
pub const KEPT_HOLD_MIN: Duration = Duration::from_secs(30);

/// The longest delay that is believed of a written lane: the longest that any profile keeps.
pub const KEPT_DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the requests of a visit have no delay at an origin, after the start there.
pub const VISIT_LENGTH: Duration = Duration::from_secs(30);

/// Requests of one visit to one origin.
pub const VISIT_REQUESTS_MAX: u32 = 256;

/// Origins of one visit. Requests to further ones are paced as pages.
pub const VISIT_ORIGINS_MAX: usize = 64;

/// Visits of one client at a time; beyond, the oldest is forgotten.
pub const VISITS_PER_CLIENT_MAX: usize = 256;

/// Origins of all visits at a time. Beyond, of the clients with most of them, the oldest visits are
/// forgotten.
pub const VISITED_ORIGINS_MAX: usize = 65_536;

/// The most that each may have of `total` where these are wanted, so that those that want less have
/// all of it (max-min fairness).
pub(super) fn fair_share(mut wanted: Vec<usize>, total: usize) -> usize {
    wanted.sort_unstable();
    let (mut left, mut others) = (total, wanted.len());
    for wanted in wanted {
        if wanted > left / others {
            return left / others;
        }
        (left, others) = (left - wanted, others - 1);
    }
    usize::MAX
}
