//! The settings of a lane.

use std::time::Duration;

use super::adapt::{Adapt, AdaptFactor};
use super::lane_holds::HoldScope;
use crate::pace::hold::Bounds;

/// The settings of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Between two starts, whatever the site asks.
    pub delay: Duration,
    /// Requests under way that count.
    pub concurrency: usize,
    pub holds: Bounds,
    pub hold_scope: HoldScope,
    /// The time after the head of its response from which a request does not count any more.
    pub long_transfer: Duration,
    /// Which lanes slow down with the site: the delay is at least `adapt_factor` times the mean
    /// time to the head of a response, and at most `adapt_max`.
    pub adapt: Adapt,
    pub adapt_factor: AdaptFactor,
    pub adapt_max: Duration,
}
