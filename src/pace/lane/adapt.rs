//! Whether lanes slow down with their origin, and by how much.

use std::time::Duration;

use crate::types::words::words;

words! {
    /// Which lanes slow down with the site (`pace.adapt`).
    #[derive(Default)]
    pub enum Adapt {
        /// Those with a delay.
        #[default]
        Paced = "paced",
        All = "all",
        Off = "off",
    }
}

/// How many times the mean response time the delay is (`pace.adapt_factor`): more than 0, at most
/// [`Self::MAX`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptFactor(f64);

/// It is a number.
impl Eq for AdaptFactor {}

impl AdaptFactor {
    /// With more, an origin would spend less than a hundredth of its time on these requests.
    pub const MAX: f64 = 100.0;

    /// A factor; `None`: it is out of bounds.
    pub fn new(factor: f64) -> Option<Self> {
        (factor > 0.0 && factor <= Self::MAX).then_some(Self(factor))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// `time`, multiplied by the factor.
    pub(super) fn times(self, time: Duration) -> Duration {
        time.mul_f64(self.0)
    }
}

impl Default for AdaptFactor {
    fn default() -> Self {
        Self(1.0)
    }
}
