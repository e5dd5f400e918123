//! What a listener learns of the pace while it happens: requests that begin to wait, and holds that begin. A
//! request that need not wait passes nothing of this.

use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use tracing::info;

use super::hold::{Cause, Hold};
use super::no_turn::{WaitReason, Waited};
use super::tick::Tick;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Learns what happens to the pace. Its methods are called outside of the locks of lanes, on the
/// threads that serve requests: they must not block.
pub trait PaceListener: Debug + Send + Sync {
    /// A request begins to wait.
    fn wait_began(&self, wait: &Waiting<'_>);

    /// A request at `origin` waits no longer: it may start, or has left.
    fn wait_ended(&self, origin: &Origin);

    /// A hold of `origin` began or became longer.
    fn hold_began(&self, origin: &Origin, hold: HoldBegun);
}

/// A request that begins to wait.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    pub origin: &'a Origin,
    /// Why; the time in it is that for which the request is likely to wait.
    pub expected: Waited,
}

/// A hold, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldBegun {
    pub length: Duration,
    /// That of the origin, or 503 after timeouts.
    pub status: u16,
    pub cause: Cause,
}

impl HoldBegun {
    pub(super) fn of(hold: Hold, now: Tick) -> Self {
        Self { length: hold.until.since(now), status: hold.status, cause: hold.cause }
    }
}

/// Hosts whose lines are remembered.
const HOSTS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// After so long a host has another line.
const LINE_INTERVAL: Duration = Duration::from_hours(1);

/// Lines of all hosts in a minute: clients that ask for ever new hosts do not fill the log.
const LINES_A_MINUTE: u32 = 60;

/// Logs the first wait at a host, and its first hold, each once an hour; the others are counted.
#[derive(Debug)]
pub(super) struct PaceLog(Lock<HostLines>);

#[derive(Debug)]
struct HostLines {
    hosts: LruCache<Origin, [Told; 2]>,
    minute: Option<Instant>,
    lines: u32,
}

/// What a host's line was about.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Wait,
    Hold,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    at: Option<Instant>,
    /// What had no line since then.
    count: u64,
}

impl Default for PaceLog {
    fn default() -> Self {
        let hosts = LruCache::sparse(HOSTS_MAX);
        Self(Lock::new(HostLines { hosts, minute: None, lines: 0 }))
    }
}

impl HostLines {
    /// How many there were since the last line, with this one, if it has a line at `now`.
    fn count(&mut self, origin: &Origin, subject: Happening, now: Instant) -> Option<u64> {
        if self.minute.is_none_or(|minute| now - minute >= Duration::from_mins(1)) {
            (self.minute, self.lines) = (Some(now), 0);
        }
        let lane = origin.lane().into_owned();
        if !self.hosts.contains(&lane) {
            self.hosts.put(lane.clone(), Default::default());
        }
        let told = &mut self.hosts.get_mut(&lane)?[subject as usize];
        told.count += 1;
        let is_due = told.at.is_none_or(|at| now - at >= LINE_INTERVAL);
        if !is_due || self.lines >= LINES_A_MINUTE {
            return None;
        }
        self.lines += 1;
        let count = std::mem::take(&mut told.count);
        told.at = Some(now);
        Some(count)
    }
}

impl PaceListener for PaceLog {
    fn wait_began(&self, wait: &Waiting<'_>) {
        let Waited { time, by, line, delay } = wait.expected;
        // A hold has a line of its own; and that requests are answered one after the other is no
        // news.
        if matches!(by, WaitReason::Hold | WaitReason::Concurrency) {
            return;
        }
        let Some(count) = self.0.lock().count(wait.origin, Happening::Wait, clock::monotonic())
        else {
            return;
        };
        info!(
            origin = %wait.origin, by = by.as_str(), line, delay = ?delay, wait = ?time, count,
            "requests to this host wait for their time"
        );
    }

    fn wait_ended(&self, _: &Origin) {}

    fn hold_began(&self, origin: &Origin, hold: HoldBegun) {
        let Some(count) = self.0.lock().count(origin, Happening::Hold, clock::monotonic()) else {
            return;
        };
        let HoldBegun { length, status, cause } = hold;
        info!(
            %origin, status, by = cause.as_str(), wait = ?length, count,
            "nothing starts at this host for a while"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::Scheme;

    #[test]
    fn a_host_has_one_line_an_hour_of_each_kind_with_what_had_none() {
        let origin = |scheme, host| Origin::from_authority(scheme, host).unwrap();
        let [http, https] = [Scheme::Http, Scheme::Https].map(|scheme| origin(scheme, "a.example"));
        let log = PaceLog::default();
        let mut lines = log.0.lock();
        let start = clock::monotonic();
        let at = |minutes| start + Duration::from_mins(minutes);
        assert_eq!(lines.count(&http, Happening::Wait, at(0)), Some(1));
        assert_eq!(lines.count(&http, Happening::Hold, at(0)), Some(1));
        assert_eq!(lines.count(&https, Happening::Wait, at(1)), None, "it is the same host");
        assert_eq!(lines.count(&http, Happening::Wait, at(59)), None);
        assert_eq!(lines.count(&http, Happening::Wait, at(60)), Some(3));
        assert_eq!(lines.count(&http, Happening::Wait, at(119)), None);
    }

    #[test]
    fn lines_of_a_minute_and_hosts_are_bounded() {
        let log = PaceLog::default();
        let (mut lines, now) = (log.0.lock(), clock::monotonic());
        let mut count = |number: u32, now| {
            let origin = Origin::from_authority(Scheme::Http, &format!("{number}.example"));
            lines.count(&origin.unwrap(), Happening::Wait, now)
        };
        assert_eq!((0..10_000).filter_map(|number| count(number, now)).count(), 60);
        assert_eq!(count(9_999, now + Duration::from_mins(1)), Some(2), "it had no line yet");
        assert!(lines.hosts.len() <= HOSTS_MAX.get());
    }
}
