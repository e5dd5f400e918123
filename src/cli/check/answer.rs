//! The result of a query as data, which the terminal output explains and JSON Lines print. The
//! names in JSON are a public interface.

use std::time::Duration;

use serde::Serialize;

use crate::audit::{self, Group, Record, print_time};
use crate::cli::output::{human_duration, seconds};
use crate::policy::access::Snapshot;
use crate::policy::decision::{self, Decision, Verdict};
use crate::policy::pace::{outside_visit_time, site_pace};
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::proxy::Https;
use crate::robots::{self, Dialect, Directive, RobotsTxt, lines};
use crate::store::Undecided;
use crate::types::origin::split_url;
use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// The most bytes of a robots.txt line that are shown.
const SHOWN_BYTES_MAX: usize = 160;

/// What a check results in, which the exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Allow,
    Disallow,
    /// The robots.txt is unreachable, or its rules take too many steps for the URL; the proxy
    /// denies.
    Undecided,
}

/// The part of a result that depends on rules, agent and path alone.
#[derive(Debug, Serialize)]
pub struct Ruling {
    pub decision: Outcome,
    /// Of the deciding rule.
    pub line: Option<u32>,
    pub basis: Basis,
}

/// The basis of a verdict. `reason` is a word of [`decision::Basis`], or `origin_refused` or
/// `undecided` if nothing could be fetched.
#[derive(Debug, Serialize)]
pub struct Basis {
    pub reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directive: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The normalisations of the path, as in a record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_as: Vec<String>,
    /// In words, if it is no rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The answer about one URL, as `--format json` prints it.
#[derive(Debug, Serialize)]
pub struct Answer {
    pub url: String,
    #[serde(flatten)]
    pub ruling: Ruling,
    /// The product token.
    pub agent: Option<String>,
    pub profile: &'static str,
    pub robots: Robots,
    pub pace: Pace,
    /// The setting by which the proxy forwards what is disallowed here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub let_through: Option<String>,
}

/// The robots.txt of a result, and its freshness.
#[derive(Debug, Default, Serialize)]
pub struct Robots {
    pub url: String,
    pub url_reached: Option<String>,
    pub sha256: Option<String>,
    pub fetched_at: Option<String>,
    /// The result holds until then; after that the file is fetched again.
    pub current_until: Option<String>,
    /// Whether the file exceeds the size limit.
    pub cut: bool,
    /// If nothing in the file was understood, what it seems to be instead.
    #[serde(skip)]
    pub oddity: Option<String>,
    /// The time since the copy was confirmed.
    #[serde(skip)]
    pub age: Option<Duration>,
    /// The time until the file is fetched again.
    #[serde(skip)]
    pub current_for: Option<Duration>,
    /// The deciding line and its neighbours, numbered.
    #[serde(skip)]
    pub excerpt: Vec<(u32, String)>,
}

impl Ruling {
    /// The ruling that a decision is.
    pub fn of(decision: &Decision<'_>) -> Self {
        let rule = decision.basis.rule();
        let cause = match &decision.basis {
            basis @ decision::Basis::Rules(robots::Basis::TooManySteps { .. }) => {
                Some(basis.to_string())
            }
            basis => basis.absence().map(|absence| absence.cause.to_string()),
        };
        let outcome = match (decision.verdict, decision.basis) {
            (Verdict::Allow, _) => Outcome::Allow,
            (
                _,
                decision::Basis::Unreachable(_)
                | decision::Basis::LongUnreachable(_)
                | decision::Basis::Rules(robots::Basis::TooManySteps { .. }),
            ) => Outcome::Undecided,
            (Verdict::Disallow, _) => Outcome::Disallow,
        };
        Self {
            decision: outcome,
            line: rule.map(|rule| rule.line),
            basis: Basis {
                reason: decision.basis.word(),
                group: decision
                    .basis
                    .group()
                    .map(|group| Group { token: group.name.into(), line: group.line }),
                directive: rule.map(|rule| match rule.directive {
                    Directive::Allow => "allow",
                    Directive::Disallow => "disallow",
                }),
                pattern: rule.map(|rule| Record::pattern(rule.pattern)),
                read_as: rule.map(|rule| audit::Rule::of(rule).read_as).unwrap_or_default(),
                cause: cause.as_deref().map(printable),
            },
        }
    }

    /// No result.
    pub fn undecided(why: &Undecided) -> Self {
        let reason = match why {
            Undecided::NotSent(error) if error.failure.is_prohibition() => "origin_refused",
            _ => "undecided",
        };
        let cause = Some(printable(&why.to_string()));
        let basis = Basis {
            reason,
            group: None,
            directive: None,
            pattern: None,
            read_as: Vec::new(),
            cause,
        };
        Self { decision: Outcome::Undecided, line: None, basis }
    }
}

impl Robots {
    /// From a lookup in the store.
    pub fn of(url: String, state: &RobotsState, line: Option<u32>, now: Timestamp) -> Self {
        let until = state.next_try();
        let timing = Self {
            url,
            current_until: until.map(print_time),
            current_for: until.map(|until| now.until(until)),
            ..Self::default()
        };
        match state.copy() {
            None => timing,
            Some(copy) => Self {
                oddity: oddity(&copy.rules, copy.snapshot.content_type.as_ref()),
                ..timing.with(&copy.snapshot, copy.rules.dialect(), line, now)
            },
        }
    }

    fn with(
        self,
        snapshot: &Snapshot,
        dialect: &robots::Dialect,
        line: Option<u32>,
        now: Timestamp,
    ) -> Self {
        let url_reached =
            sanitize::url(snapshot.url.as_bytes(), crate::audit::RECORD_URL_BYTES_MAX);
        Self {
            url_reached: Some(url_reached).filter(|reached| *reached != self.url),
            sha256: Some(sanitize::hex(&snapshot.sha256)),
            fetched_at: Some(print_time(snapshot.fetched_at)),
            cut: snapshot.cut,
            age: Some(now.since(snapshot.fetched_at)),
            excerpt: line.map(|line| excerpt(&snapshot.body, dialect, line)).unwrap_or_default(),
            ..self
        }
    }

    /// From a given file.
    pub fn given(name: &str, body: &[u8], rules: &robots::RobotsTxt, line: Option<u32>) -> Self {
        Self {
            url: printable(name),
            sha256: Some(sanitize::sha256_hex(body)),
            oddity: oddity(rules, None),
            excerpt: line.map(|line| excerpt(body, rules.dialect(), line)).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// The deciding line with the one before and the one after it.
fn excerpt(body: &[u8], dialect: &robots::Dialect, line: u32) -> Vec<(u32, String)> {
    robots::lines(body, dialect)
        .skip_while(|(number, _)| number + 1 < line)
        .take_while(|(number, _)| *number <= line + 1)
        .map(|(number, bytes)| (number, sanitize::text(bytes.trim_ascii_end(), SHOWN_BYTES_MAX)))
        .collect()
}

/// A file in which nothing was understood is usually a page of the site.
fn oddity(rules: &robots::RobotsTxt, content_type: Option<&http::HeaderValue>) -> Option<String> {
    let ignored = rules.ignored_count();
    let odd = rules.rule_count() == 0 && ignored > 0;
    odd.then(|| {
        let lines = if ignored == 1 { "1 line is".into() } else { format!("{ignored} lines are") };
        let served = content_type.map_or_else(String::new, |content_type| {
            format!(
                "; it is served as {}",
                sanitize::text(content_type.as_bytes(), SHOWN_BYTES_MAX)
            )
        });
        format!("the file has no rules, and {lines} none of a robots.txt{served}")
    })
}

/// Text of a site, fit for a terminal: at most 1024 bytes, without control characters.
pub fn printable(words: &str) -> String {
    sanitize::text(words.as_bytes(), 1024)
}

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
