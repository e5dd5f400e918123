//! The summaries of robots.txt states that denials were given lately. To make one for each
//! denial costs about as much as the rest of the denial.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::audit::Robots;
use crate::proxy::outcome::robots_summary::RobotsSummary;
use crate::runtime::lock::Lock;
use crate::store::{OriginRobots, WeakOriginRobots};

/// States of robots.txt files whose summary is cached: about as many as are denied again and again.
/// One takes 2 KiB, or up to 60 where URLs are long.
const SUMMARIES_MAX: NonZeroUsize = NonZeroUsize::new(512).expect("not zero");

/// Least recently used summaries go first.
pub struct RobotsSummaryCache(Lock<Summaries>);

type Summaries = LruCache<Key, (WeakOriginRobots, Arc<RobotsSummary>)>;

/// The state's address in memory, which is not reused while its [`WeakOriginRobots`] is cached, and
/// whether the summary is of the absence of a file.
type Key = (usize, bool);

impl RobotsSummaryCache {
    /// The cached summary of `known`, or the one `make` builds.
    pub fn get_or_make(
        &self,
        known: &OriginRobots,
        of_absence: bool,
        make: impl FnOnce() -> Robots,
    ) -> Arc<RobotsSummary> {
        let key = (std::ptr::from_ref(known.state()).addr(), of_absence);
        if let Some((robots, summary)) = self.0.lock().get(&key)
            && robots.is_of(known)
        {
            return Arc::clone(summary);
        }
        // The lock is not held here, so that denials of other origins need not wait. Two threads
        // may build the same summary; the later one is kept.
        let summary = Arc::new(RobotsSummary::new(make()));
        self.0.lock().put(key, (known.downgrade(), Arc::clone(&summary)));
        summary
    }
}

impl Default for RobotsSummaryCache {
    fn default() -> Self {
        Self(Lock::new(LruCache::sparse(SUMMARIES_MAX)))
    }
}

impl fmt::Debug for RobotsSummaryCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobotsSummaryCache").finish_non_exhaustive()
    }
}
