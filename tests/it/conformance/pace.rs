//! What files and responses ask of the pace, by `pace.jsonl`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use courtesy::pace::hold::Outcome;
use courtesy::policy::pace::{outside_visit_time, rate_limit, retry_after, site_pace};
use courtesy::policy::profile::Profile;
use courtesy::robots::{DelayRecord, RobotsTxt};
use courtesy::types::agent::product_token;
use courtesy::types::timestamp::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::cases::{AgentKind, open};
use super::schedule::{Call, LaneCase, run};

/// Another file of the same form.
const OTHER_FILE: &str = "COURTESY_TEST_PACE";

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Wednesday, 21 October 2026, 07:28 UTC, and the midnight before.
const NOW: Timestamp = Timestamp::from_millis(1_792_567_680_000);
const MIDNIGHT_MS: u64 = NOW.millis() / DAY_MS * DAY_MS;

/// The defaults of `pace.max_crawl_delay` and `pace.max_retry_after`.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const HOLD_MAX: Duration = Duration::from_secs(60 * 60);

#[derive(Deserialize)]
struct PaceCase {
    id: String,
    #[serde(flatten)]
    kind: Kind,
    expect: Value,
    why: String,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Robots(Request),
    VisitTime(Request),
    RetryAfter(Response),
    RateLimit(Response),
    Schedule(Schedule),
}

#[derive(Deserialize)]
struct Request {
    robots: String,
    agent: String,
    agent_kind: AgentKind,
    profile: String,
    at: Option<String>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Schedule {
    lane: LaneCase,
    /// When each comes, its client, how long it takes, and perhaps when its client leaves.
    arrivals: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
struct Response {
    status: u16,
    fields: BTreeMap<String, String>,
}

impl Request {
    fn now(&self) -> Timestamp {
        let Some((hour, minute)) = self.at.as_deref().and_then(|at| at.split_once(':')) else {
            return NOW;
        };
        let [hour, minute] = [hour, minute].map(|part| part.parse::<u64>().expect("a number"));
        Timestamp::from_millis(MIDNIGHT_MS + (hour * 60 + minute) * 60_000)
    }

    fn delay_max(&self) -> Duration {
        self.settings.get("pace.max_crawl_delay").map_or(DELAY_MAX, |text| {
            let seconds = text.strip_suffix('s').expect("seconds").parse().expect("a number");
            Duration::from_secs(seconds)
        })
    }

    /// What is found for the group that applies.
    fn ask<T>(
        &self,
        ask: impl FnOnce(&RobotsTxt, Option<&courtesy::robots::Group<'_>>, &Profile) -> T,
    ) -> T {
        let profile = Profile::named(&self.profile).expect("a profile");
        let robots = RobotsTxt::parse(self.robots.as_bytes(), &profile.dialect);
        let token = match self.agent_kind {
            AgentKind::Token => Some(&*self.agent),
            AgentKind::Header => product_token(self.agent.as_bytes()),
        };
        ask(&robots, robots.group(token).as_ref(), &profile)
    }

    fn delay(&self) -> Value {
        let found = self.ask(|robots, group, profile| {
            site_pace(robots, group, profile, self.delay_max(), self.now())
        });
        match found {
            None => {
                serde_json::json!({"delay_ms": 0, "source": "none", "line": null, "clamped": false})
            }
            Some(pace) => serde_json::json!({
                "delay_ms": millis(pace.delay),
                "source": match pace.record {
                    DelayRecord::CrawlDelay => "crawl_delay",
                    DelayRecord::RequestRate => "request_rate",
                },
                "line": pace.line,
                "clamped": pace.is_clamped(),
            }),
        }
    }

    fn begins_in(&self) -> Value {
        let found = self
            .ask(|robots, group, profile| outside_visit_time(robots, group, profile, self.now()));
        serde_json::json!({"opens_in_ms": found.map_or(0, |closed| millis(closed.begins_in))})
    }
}

impl Schedule {
    fn starts(&self) -> Vec<Value> {
        let number = |value: &Value| value.as_u64().expect("a number");
        let calls = self.arrivals.iter().map(|arrival| Call {
            at: number(&arrival[0]),
            client: arrival[1].as_str().expect("a name").into(),
            length: number(&arrival[2]),
            leaves_after: arrival.get(3).map(number),
            group: "*".into(),
            outcome: Outcome::Good,
        });
        run(&self.lane, &calls.collect::<Vec<_>>())
    }
}

impl Response {
    fn hold(&self, of: impl Fn(StatusCode, &HeaderMap) -> Option<Duration>) -> Value {
        let fields: HeaderMap = self
            .fields
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().expect("a name");
                (name, HeaderValue::from_str(value).expect("a value"))
            })
            .collect();
        let status = StatusCode::from_u16(self.status).expect("a status");
        serde_json::json!({"hold_ms": of(status, &fields).map(millis)})
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}

/// What the engine finds.
fn found(case: &PaceCase) -> Value {
    match &case.kind {
        Kind::Robots(request) => request.delay(),
        Kind::VisitTime(request) => request.begins_in(),
        Kind::RetryAfter(response) => {
            response.hold(|status, fields| retry_after(status, fields, NOW, HOLD_MAX))
        }
        Kind::RateLimit(response) => {
            response.hold(|status, fields| rate_limit(status, fields, NOW, HOLD_MAX).hold)
        }
        Kind::Schedule(schedule) => serde_json::json!({"starts": schedule.starts()}),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a developer names another file by it")]
fn what_sites_ask_of_the_pace_is_found() {
    let other = std::env::var_os(OTHER_FILE);
    let file =
        other.as_ref().map_or_else(|| open("pace.jsonl"), |path| File::open(path).expect("a file"));
    let (mut asserted, mut wrong) = (0, Vec::new());
    for line in BufReader::new(file).lines() {
        let case: PaceCase = serde_json::from_str(&line.expect("a line")).expect("a case");
        let found = found(&case);
        asserted += 1;
        if found != case.expect {
            wrong.push(format!("{}: {found}, and not {}: {}", case.id, case.expect, case.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(other.is_some() || asserted == 95, "{asserted} cases");
}
