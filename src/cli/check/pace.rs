//! When requests may go, as far as a robots.txt and the settings say.

use std::time::Duration;

use serde::Serialize;

use crate::cli::human_duration::{human_duration, seconds};
use crate::policy::pace::{outside_visit_time, site_pace};
use crate::policy::profile::Profile;
use crate::proxy::Https;
use crate::robots::{Dialect, RobotsTxt, lines};
use crate::types::origin::split_url;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// The most bytes of a record that are shown.
const SHOWN_BYTES_MAX: usize = 160;

/// The time between two requests of the agent.
#[derive(Clone, Debug, Serialize)]
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
    /// The proxy opens a tunnel: that waits once, and the requests inside it do not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    not_seen: bool,
    /// The record as written.
    #[serde(skip)]
    text: Option<String>,
    /// What bounds the delay.
    #[serde(skip)]
    bound: &'static str,
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
    /// The proxy opens a tunnel there.
    pub is_tunnel: bool,
}

/// Whether the proxy would fetch `url` through a tunnel.
pub fn is_tunnelled(https: &Https, url: &[u8]) -> bool {
    split_url(url).is_ok_and(|(origin, _)| https.tunnels(&origin))
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
        let closed = outside_visit_time(robots, group.as_ref(), profile, now);
        let opens_in_ms = closed.map_or(0, |closed| millis(closed.begins_in));
        let asked = site_pace(robots, group.as_ref(), profile, operator.delay_max, now);
        let own = Self { opens_in_ms, ..Self::own(operator) };
        let pace = match (asked, operator.exempted) {
            (None, _) => return own,
            (Some(asked), Some(delay)) => Self {
                delay_ms: millis(delay),
                source: "exemption",
                line: Some(asked.line),
                ..own.clone()
            },
            (Some(asked), None) => Self {
                delay_ms: millis(asked.delay),
                source: asked.record.as_str(),
                line: Some(asked.line),
                clamped: asked.is_clamped(),
                bound: "the most by pace.max_crawl_delay",
                ..own.clone()
            },
        };
        // Of equal delays the exemption's is named first, the operator's next.
        let is_own = match pace.source {
            "exemption" => own.delay_ms > pace.delay_ms,
            _ => own.delay_ms >= pace.delay_ms,
        };
        if is_own { own } else { pace }
    }

    /// Without a robots.txt.
    pub fn own(operator: OperatorPace) -> Self {
        let OperatorPace { delay, is_tunnel, .. } = operator;
        let source = if delay.is_zero() { "none" } else { "delay" };
        Self {
            delay_ms: millis(delay),
            source,
            line: None,
            clamped: false,
            opens_in_ms: 0,
            not_seen: is_tunnel,
            text: None,
            bound: "",
        }
    }

    /// With the record as it stands in `body`.
    #[must_use]
    pub fn quoting(mut self, body: &[u8], dialect: &Dialect) -> Self {
        let of_line = |line| lines(body, dialect).find(|(number, _)| *number == line);
        self.text = self.line.and_then(of_line).map(|(_, bytes)| {
            let record = bytes.split(|byte| *byte == b'#').next().unwrap_or_default();
            sanitize::text(record.trim_ascii(), SHOWN_BYTES_MAX)
        });
        self
    }

    /// A line for people; `None`: there is nothing to say.
    pub fn line(&self) -> Option<String> {
        let opens = (self.opens_in_ms > 0).then(|| {
            format!(
                "none for {} (Visit-time)",
                human_duration(Duration::from_millis(self.opens_in_ms))
            )
        });
        let delay = self.delay();
        let unseen = (self.not_seen && delay.is_some())
            .then(|| "pace not seen: requests inside the tunnel are not held".to_owned());
        let parts: Vec<String> = [delay, opens, unseen].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("pace: {}", parts.join("; ")))
    }

    fn delay(&self) -> Option<String> {
        let what = if self.not_seen { "tunnel" } else { "request" };
        let every = match self.delay_ms {
            0 => "no delay".into(),
            millis => format!("one {what} every {}", seconds(Duration::from_millis(millis))),
        };
        let record = |name: &str| {
            let line = self.line.unwrap_or_default();
            format!("line {line}, {}", self.text.as_deref().unwrap_or(name))
        };
        let why = match self.source {
            "crawl_delay" => record("Crawl-delay"),
            "request_rate" => record("Request-rate"),
            "exemption" => format!("{}; by an exemption", record("Crawl-delay")),
            "delay" => "pace.delay".into(),
            _ => return None,
        };
        let clamped = if self.clamped { format!("; {}", self.bound) } else { String::new() };
        Some(format!("{every} ({why}{clamped})"))
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
