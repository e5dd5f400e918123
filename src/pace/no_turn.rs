//! Why a request has no turn, and the sentence that its client gets.

use std::fmt;
use std::time::Duration;

use super::hold::Cause;
use super::lane::LaneLimit;
use crate::policy::pace::SitePace;
use crate::robots::DelayRecord;
use crate::types::words::words;

words! {
    /// What a request waits for; the words of `Courtesy-Waited` and of the metrics.
    pub enum WaitReason {
        /// `pace.delay`, or a low quota (RateLimit).
        Delay = "delay",
        CrawlDelay = "crawl_delay",
        RequestRate = "request_rate",
        /// That of an exemption, in place of what the robots.txt asks for.
        Exemption = "exemption",
        /// `pace.concurrency`.
        Concurrency = "concurrency",
        Hold = "hold",
        /// The origin is slow.
        Adapt = "adapt",
        /// The engine is away, and each proxy takes its share of the pace (`engine.away`).
        Share = "share",
        /// `pace.address_delay`, `pace.address_concurrency`.
        Address = "address",
    }
}

impl WaitReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Delay,
        Self::CrawlDelay,
        Self::RequestRate,
        Self::Exemption,
        Self::Concurrency,
        Self::Hold,
        Self::Adapt,
        Self::Share,
        Self::Address,
    ];

    pub(super) const fn of(limit: LaneLimit, site: Option<SitePace>) -> Self {
        match (limit, site) {
            (LaneLimit::Delay, _) => Self::Delay,
            (LaneLimit::SiteDelay, Some(SitePace { is_exempted: true, .. })) => Self::Exemption,
            (LaneLimit::SiteDelay, Some(SitePace { record: DelayRecord::RequestRate, .. })) => {
                Self::RequestRate
            }
            (LaneLimit::SiteDelay, _) => Self::CrawlDelay,
            (LaneLimit::Concurrency, _) => Self::Concurrency,
            (LaneLimit::Hold, _) => Self::Hold,
            (LaneLimit::Adapt, _) => Self::Adapt,
            (LaneLimit::Share, _) => Self::Share,
        }
    }
}

/// Retry-After while the engine is away: the longest time between two tries to reach it.
const ENGINE_RETRY: Duration = Duration::from_secs(30);

/// Why a request has no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTurn {
    /// It would wait so long, which is longer than it may.
    TooLong { wait: Duration, by: WaitReason, line: Option<u32>, delay: Duration },
    /// A hold of the origin lasts so long; `status` is what the client gets.
    Held { wait: Duration, status: u16, cause: Cause },
    /// Its robots.txt asks for requests in certain hours only, the next of which begin then.
    OutsideVisitTime { wait: Duration, line: u32 },
    /// The engine is away, and this proxy sends nothing to origins with a delay meanwhile
    /// (`engine.away`).
    EngineAway,
    /// Too many requests wait.
    Full,
    /// The proxy stops before its time.
    Stopping,
}

impl NoTurn {
    /// The time after which another try is of use.
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::TooLong { wait, .. }
            | Self::Held { wait, .. }
            | Self::OutsideVisitTime { wait, .. } => *wait,
            Self::EngineAway => ENGINE_RETRY,
            Self::Full | Self::Stopping => Duration::from_secs(1),
        }
    }

    /// The sentence for the client; `exempted_by` has given the exemption that sets the delay.
    pub fn explain(&self, exempted_by: Option<&str>) -> String {
        match (self, exempted_by) {
            (Self::TooLong { by: WaitReason::Exemption, wait, delay, .. }, Some(name)) => {
                let late = too_late(*wait);
                format!("requests are {delay:?} apart by exemption of {name}, and {late}")
            }
            _ => self.to_string(),
        }
    }
}

fn too_late(wait: Duration) -> String {
    let wait = wait.as_secs_f64().ceil();
    format!("the turn of this one would come in {wait} s, later than it may wait (pace.max_wait)")
}

impl fmt::Display for NoTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { wait, by, line, delay } => {
                match (by, line) {
                    (WaitReason::CrawlDelay, Some(line)) => {
                        write!(f, "the robots.txt asks for {delay:?} between two requests (Crawl-delay, line {line})")?;
                    }
                    (WaitReason::RequestRate, Some(line)) => {
                        write!(f, "the robots.txt asks for {delay:?} between two requests (Request-rate, line {line})")?;
                    }
                    (WaitReason::Exemption, _) => {
                        write!(f, "requests are {delay:?} apart by an exemption")?;
                    }
                    (WaitReason::Concurrency, _) => {
                        f.write_str("as many requests as may be under way to the origin are (pace.concurrency)")?;
                    }
                    (WaitReason::Adapt, _) => f.write_str("the origin is slow")?,
                    (WaitReason::Share, _) => {
                        f.write_str("the engine is away, and this proxy takes its share of the pace (engine.away)")?;
                    }
                    (WaitReason::Address, _) => {
                        f.write_str("requests to the address of the origin are limited for all its origins (pace.address_delay, pace.address_concurrency)")?;
                    }
                    (WaitReason::Hold, _) => f.write_str("the origin is held")?,
                    _ => f.write_str("requests to the origin are a delay apart (pace.delay)")?,
                }
                write!(f, ", and {}", too_late(*wait))
            }
            Self::Held { wait, status, cause } => {
                let rest = wait.as_secs_f64().ceil();
                match cause {
                    Cause::RetryAfter => write!(f, "the origin answered {status} and asks to be left alone for another {rest} s (Retry-After)"),
                    Cause::RateLimit => write!(f, "the origin's quota is exhausted for another {rest} s (RateLimit)"),
                    Cause::BackOff => write!(f, "the origin failed or answered {status}, and is left alone for another {rest} s"),
                }
            }
            Self::OutsideVisitTime { wait, line } => write!(
                f,
                "the robots.txt asks for requests in certain hours only (Visit-time, line {line}), the next of which begin in {} s",
                wait.as_secs_f64().ceil()
            ),
            Self::EngineAway => f.write_str("the shared engine is away, and meanwhile nothing is sent to origins with a delay (engine.away)"),
            Self::Full => f.write_str("too many requests wait for their time at this origin or its address, or at all (pace.max_waiting_per_origin)"),
            Self::Stopping => f.write_str("the proxy stops before the turn of this request comes"),
        }
    }
}

/// How long a request waited for its turn, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    pub time: Duration,
    pub by: WaitReason,
    /// The line of the robots.txt, if a record of it is the reason.
    pub line: Option<u32>,
    /// The delay between two starts, if that is the reason: as the site asks for it, where it does.
    pub delay: Duration,
}

impl Waited {
    /// A wait of a request of which the site asks that; `lane_delay` is that of the lane itself.
    pub(super) fn of(
        limit: LaneLimit,
        site: Option<SitePace>,
        lane_delay: Duration,
        time: Duration,
    ) -> Self {
        let by = WaitReason::of(limit, site);
        let (line, delay) = match (by, site) {
            (WaitReason::Delay, _) => (None, lane_delay),
            (WaitReason::Exemption, Some(site)) => (None, site.delay),
            (WaitReason::CrawlDelay | WaitReason::RequestRate, Some(site)) => {
                (Some(site.line), site.asked)
            }
            _ => (None, Duration::ZERO),
        };
        Self { time, by, line, delay }
    }
}
