//! When requests may go, as far as a robots.txt and the settings say.

use std::time::Duration;

use serde::Serialize;

use crate::cli::span::{seconds, span};
use crate::policy::pace::{asked, closed};
use crate::policy::profile::Profile;
use crate::robots::RobotsTxt;
use crate::types::timestamp::Timestamp;

/// The time between two requests of the agent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Zero: none.
    delay_ms: u64,
    /// `crawl_delay`, `request_rate`, `delay` (of the settings), `exemption` or `none`.
    source: &'static str,
    /// Of the record.
    line: Option<u32>,
    /// The record asks for more.
    clamped: bool,
    /// Until the hours of Visit-time begin; zero: it is open, or they are not obeyed.
    opens_in_ms: u64,
}

/// What the settings say about the pace at an origin.
#[derive(Clone, Copy, Debug)]
pub struct OperatorPace {
    /// `pace.max_crawl_delay`.
    pub delay_max: Duration,
    /// `pace.delay`, or that of the origin.
    pub delay: Duration,
    /// The `crawl_delay` of an exemption.
    pub exempted: Option<Duration>,
}

impl Pace {
    /// For the agent with this product token, at `now`.
    pub fn of(
        robots: &RobotsTxt,
        token: Option<&str>,
        profile: &Profile,
        operator: OperatorPace,
        now: Timestamp,
    ) -> Self {
        let group = robots.group(token);
        let closed = closed(robots, group.as_ref(), profile, now);
        let asked = asked(robots, group.as_ref(), profile, operator.delay_max, now);
        let own = Self { opens_in_ms: 0, ..Self::own(operator.delay) };
        let pace = match (asked, operator.exempted) {
            (None, _) => own,
            (Some(asked), Some(delay)) => Self {
                delay_ms: millis(delay),
                source: "exemption",
                line: Some(asked.line),
                clamped: false,
                opens_in_ms: 0,
            },
            (Some(asked), None) => Self {
                delay_ms: millis(asked.delay),
                source: asked.record.as_str(),
                line: Some(asked.line),
                clamped: asked.clamped,
                opens_in_ms: 0,
            },
        };
        let longest = if own.delay_ms >= pace.delay_ms { own } else { pace };
        Self { opens_in_ms: closed.map_or(0, |closed| millis(closed.opens_in)), ..longest }
    }

    /// Without a robots.txt.
    pub fn own(delay: Duration) -> Self {
        let source = if delay.is_zero() { "none" } else { "delay" };
        Self { delay_ms: millis(delay), source, line: None, clamped: false, opens_in_ms: 0 }
    }

    /// A line for people; `None`: there is nothing to say.
    pub fn line(&self) -> Option<String> {
        let every = seconds(Duration::from_millis(self.delay_ms));
        let line = self.line.unwrap_or_default();
        let delay = match self.source {
            "crawl_delay" => Some(format!("one request every {every} (line {line}, Crawl-delay)")),
            "request_rate" => {
                Some(format!("one request every {every} (line {line}, Request-rate)"))
            }
            "exemption" => Some(format!("one request every {every}, by an exemption")),
            "delay" => Some(format!("one request every {every} (pace.delay)")),
            _ => None,
        };
        let delay = delay.map(|delay| {
            let clamped = if self.clamped { ", and no longer (pace.max_crawl_delay)" } else { "" };
            format!("{delay}{clamped}")
        });
        let opens = (self.opens_in_ms > 0).then(|| {
            format!("none for {} (Visit-time)", span(Duration::from_millis(self.opens_in_ms)))
        });
        let parts: Vec<String> = delay.into_iter().chain(opens).collect();
        (!parts.is_empty()).then(|| format!("pace: {}", parts.join("; ")))
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
