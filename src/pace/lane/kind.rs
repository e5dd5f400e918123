//! What a request is, as far as it concerns the pace.

use std::time::Duration;

use crate::pace::tick::Tick;

/// What a request is, as far as it concerns the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A request of a crawler that this group of the robots.txt applies to, and the delay that is
    /// asked of that. It does not start before `not_before`, the beginning of the next Visit-time.
    Page { group: &'a str, delay: Duration, not_before: Option<Tick> },
    /// What a document of a visit loads: without a delay.
    Subresource,
    /// A robots.txt: without a delay, and not counted as under way.
    RobotsTxt,
}

impl Kind<'_> {
    /// The delay that the site asks of the request.
    pub(super) const fn delay(self) -> Duration {
        match self {
            Self::Page { delay, .. } => delay,
            Self::Subresource | Self::RobotsTxt => Duration::ZERO,
        }
    }

    pub(super) const fn is_page(self) -> bool {
        matches!(self, Self::Page { .. })
    }
}
