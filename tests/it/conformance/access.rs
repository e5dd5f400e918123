//! What follows from HTTP results, redirects, network errors and the age of a copy.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use courtesy::policy::access::{AccessResult, Capture, Cause, Freshness, NetworkFailure, Snapshot};
use courtesy::policy::profile::Profile;
use courtesy::policy::state::{Circumstances, Policy, PolicyStatus, RobotsState};
use courtesy::robots::RobotsTxt;
use courtesy::types::timestamp::Timestamp;
use serde::Deserialize;

use crate::conformance::cases::open;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Where a text leaves the choice, or says nothing, this is ours.
const CHOICES: [(&str, &str); 9] = [
    // D-429: the MAY of RFC 9309 §2.3.1.3 is not taken; a throttled site is not an open one.
    ("access-026", "disallow-all"),
    // google-2019 calls network errors undefined.
    ("access-116", "disallow-all"),
    ("access-117", "disallow-all"),
    ("access-118", "disallow-all"),
    ("access-119", "disallow-all"),
    // koster-1996 names 401, 403 and 404 only: 410 is like 404, any other 4xx a temporary failure.
    ("access-132", "defer"),
    ("access-133", "defer"),
    ("access-134", "allow-all"),
    ("access-135", "defer"),
];

#[derive(Deserialize)]
struct Case {
    id: String,
    profile: String,
    event: Event,
    cached_copy: String,
    /// Seconds; in the cases of the cache a remark.
    #[serde(default)]
    unreachable_for_s: serde_json::Value,
    expect: String,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Event {
    Status { code: u16, site: Option<String> },
    Redirect { hops: u8, r#final: u16 },
    RedirectLoop,
    HtmlRedirect,
    Timeout,
    DnsFailure,
    ConnectionRefused,
    ConnectionReset,
    TlsFailure,
    TruncatedBody,
    BadChunking,
    InvalidResponse,
    Cache { age_s: u64, cache_control: Option<String>, expires_in_s: Option<u64> },
}

#[test]
fn access_results_mean_what_the_profile_says() {
    let cases: Vec<Case> = BufReader::new(open("access.jsonl"))
        .lines()
        .map(|line| serde_json::from_str(&line.expect("a readable file")).expect("a case"))
        .collect();
    assert_eq!(cases.len(), 139);
    let wrong: Vec<String> = cases.iter().filter_map(Case::disagreement).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Case {
    fn disagreement(&self) -> Option<String> {
        let chosen = CHOICES.iter().find(|(id, _)| *id == self.id).map(|(_, expect)| *expect);
        let expected = chosen.unwrap_or(&self.expect);
        let answers = self.answers();
        let agrees = expected.split("-or-").any(|expected| answers.contains(&expected));
        (!agrees).then(|| format!("{}: expected {expected}, got {answers:?}", self.id))
    }

    /// The words that describe what follows.
    fn answers(&self) -> Vec<&'static str> {
        let profile = Profile::named(&self.profile).expect("the profile exists");
        let mut site = Site {
            state: RobotsState::Unknown,
            now: START,
            profile: &profile,
            up: self.site_is_up(),
        };
        if let Event::Cache { age_s, .. } = self.event {
            site.learn(&found(200, self.event.freshness()));
            site.now = site.now.plus(Duration::from_secs(age_s));
            return site.answers();
        }
        if self.cached_copy == "good-copy" {
            site.learn(&found(200, Freshness::default()));
            site.now = site.now.plus(DAY);
        }
        let since = site.now;
        let until = since.plus(Duration::from_secs(self.unreachable_for_s.as_u64().unwrap_or(0)));
        // Tried every hour, so that the time counts as observed.
        while site.now < until {
            site.learn(&self.event.result(&profile));
            site.now = site.now.plus(Duration::from_secs(3600)).min(until);
        }
        site.learn(&self.event.result(&profile));
        site.answers()
    }

    fn site_is_up(&self) -> bool {
        !matches!(&self.event, Event::Status { site: Some(site), .. } if site == "unavailable")
    }
}

impl Event {
    fn result(&self, profile: &Profile) -> AccessResult {
        let failed = |failure| AccessResult::Without(Cause::failed(failure, ""));
        match self {
            Self::Status { code, .. } => answered(*code),
            Self::Redirect { hops, .. } if *hops > profile.redirects_max => {
                AccessResult::Without(Cause::TooManyRedirects { limit: profile.redirects_max })
            }
            Self::Redirect { r#final, .. } => answered(*r#final),
            Self::RedirectLoop => AccessResult::Without(Cause::RedirectLoop),
            // Frames, scripts and meta refresh are not followed: the page is the file.
            Self::HtmlRedirect | Self::Cache { .. } => answered(200),
            Self::Timeout => failed(NetworkFailure::Timeout),
            Self::DnsFailure => failed(NetworkFailure::Dns),
            Self::ConnectionRefused => failed(NetworkFailure::Connection),
            Self::TlsFailure => failed(NetworkFailure::Tls),
            Self::ConnectionReset | Self::TruncatedBody => failed(NetworkFailure::CutShort),
            Self::BadChunking | Self::InvalidResponse => failed(NetworkFailure::InvalidResponse),
        }
    }

    fn freshness(&self) -> Freshness {
        let Self::Cache { cache_control, expires_in_s, .. } = self else {
            return Freshness::default();
        };
        let max_age = cache_control.as_deref().and_then(|field| field.strip_prefix("max-age="));
        Freshness {
            max_age: max_age.map(|age| Duration::from_secs(age.parse().expect("seconds"))),
            expires_in: expires_in_s.map(Duration::from_secs),
            no_cache: false,
        }
    }
}

struct Site<'a> {
    state: RobotsState,
    now: Timestamp,
    profile: &'a Profile,
    up: bool,
}

impl Site<'_> {
    fn learn(&mut self, result: &AccessResult) {
        let circumstances = Circumstances { now: self.now, jitter: 0.0, site_up: self.up };
        self.state = self.state.after(self.profile, result, &circumstances, |snapshot| {
            Arc::new(RobotsTxt::parse(&snapshot.body, &self.profile.dialect))
        });
    }

    fn answers(&self) -> Vec<&'static str> {
        match self.state.policy_status(self.profile, self.now) {
            PolicyStatus::Due => vec!["refetch"],
            PolicyStatus::Current(Policy::Rules(_)) => vec!["use-rules", "use-cached-copy"],
            PolicyStatus::Current(Policy::AllowAll(_)) => vec!["allow-all"],
            PolicyStatus::Current(Policy::DisallowAll(absence)) if absence.defers() => {
                vec!["disallow-all", "defer"]
            }
            PolicyStatus::Current(Policy::DisallowAll(_)) => vec!["disallow-all"],
        }
    }
}

fn answered(code: u16) -> AccessResult {
    match code {
        200..=299 => found(code, Freshness::default()),
        304 => AccessResult::NotModified { freshness: Freshness::default() },
        code => AccessResult::Without(Cause::Status { code, retry_after: None }),
    }
}

fn found(status: u16, freshness: Freshness) -> AccessResult {
    let snapshot = Snapshot {
        body: Bytes::from_static(b"user-agent: *\ndisallow: /private/\n"),
        sha256: [0; 32],
        cut: false,
        status,
        url: "https://example.com/robots.txt".into(),
        hops: 0,
        fetched_at: START,
        content_type: None,
        etag: None,
        last_modified: None,
        capture: Capture::none(),
    };
    AccessResult::Successful { snapshot: Arc::new(snapshot), freshness }
}
