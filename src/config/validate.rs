//! Checks values that parse and are impossible, alone or together.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::diagnostics::Complaint;
use super::parse::{print_date, print_duration, print_origin_pattern, print_size};
use super::settings::Settings;
use crate::config::limits::LOOKUPS_MAX;
use crate::policy::profile::Access;
use crate::types::timestamp::Timestamp;

/// RFC 9309 §2.5: the limit must be at least 500 kibibytes.
const ROBOTS_SIZE_MIN: u64 = 500 << 10;

/// Room for the request line of 8000 bytes that RFC 9112 §3 asks for. The engine panics on less.
const HEADER_SIZE_MIN: u64 = 8 << 10;

/// A record is some 1300 bytes; less would close a file after a few.
const SEGMENT_SIZE_MIN: u64 = 16 << 10;

/// With less, a busy disk would count as failed; with more, clients leave before they are answered.
const WRITE_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(1);

/// An empty database, and room to write it anew beside itself.
const STORE_SIZE_MIN: u64 = 4 << 20;

/// Concurrent fetches, each with a connection, and queued ones.
const FETCHES_MAX: usize = 65_536;

/// Requests that wait for fetches: as many as all clients may have in flight.
const WAITING_MAX: usize = 1 << 20;

/// Requests that wait for their turn at one origin: to find one that leaves takes time with each.
const LANE_WAITING_MAX: usize = 65_536;

/// Requests under way to one origin.
const CONCURRENCY_MAX: usize = 65_536;

/// Room for some of the largest requests, and several usual ones of a few clients.
pub const BODY_MEMORY_MIN: u64 = 8 << 20;

/// A shorter outage is common: a day.
const OUTAGE_SHORT: Duration = Duration::from_hours(24);

/// Reports every impossible value; `place` returns the source of a setting.
pub fn check(
    settings: &Settings,
    place: impl Fn(&str) -> Option<String>,
    complaints: &mut Vec<Complaint>,
) {
    let place = &place;
    let mut complain = |key: &str, problem: String, hint: Option<String>| {
        complaints.push(Complaint::new(key, place(key).as_deref(), problem).with_hint(hint));
    };
    if settings.state_dir.as_os_str().is_empty() {
        let hint = "set state_dir or give --state-dir";
        complain(
            "state_dir",
            "there is no home directory to keep state in".into(),
            Some(hint.into()),
        );
    }
    check_listen(settings, &mut complain);
    // A port of the system's choice is for those who read it from the log line: a person at a
    // terminal, a test. In a file its port would be unknown to clients.
    if place("listen.proxy").as_deref() != Some("--listen") {
        check_ports(settings, &mut complain);
    }
    check_admin(settings, place("listen.admin").as_deref() == Some("--admin"), &mut complain);
    check_ca(settings, &mut complain);
    check_outage(settings, &mut complain);
    check_rules(settings, &mut complain);
    check_exemptions(settings, &mut complain);
    check_bounds(settings, &mut complain);
    if settings.robots.max_size < ROBOTS_SIZE_MIN {
        let problem = format!("{} is too little", print_size(&settings.robots.max_size));
        complain("robots.max_size", problem, Some("RFC 9309 §2.5 asks for at least 500KiB".into()));
    }
    if settings.audit.rotate_size < SEGMENT_SIZE_MIN {
        let problem = format!("{} is too little", print_size(&settings.audit.rotate_size));
        complain("audit.rotate_size", problem, Some("it takes at least 16KiB".into()));
    }
    if !WRITE_TIMEOUT.contains(&settings.audit.write_timeout) {
        let problem = format!("{} is out of bounds", print_duration(&settings.audit.write_timeout));
        complain("audit.write_timeout", problem, Some("it takes 100ms to 1m".into()));
    }
    let rotate_size = settings.audit.rotate_size;
    if let Some(size) = settings.audit.retain_size.0.filter(|size| *size < rotate_size) {
        let rotate_size = print_size(&rotate_size);
        let problem =
            format!("{} is less than audit.rotate_size, {rotate_size}", print_size(&size));
        let hint = "nothing would be kept but the file that is being written";
        complain("audit.retain_size", problem, Some(hint.into()));
    }
    if settings.store.max_size < STORE_SIZE_MIN {
        let problem = format!("{} is too little", print_size(&settings.store.max_size));
        let hint = "it takes at least 4MiB; store.enabled = false does without";
        complain("store.max_size", problem, Some(hint.into()));
    }
    if settings.limits.max_header_bytes < HEADER_SIZE_MIN {
        let problem = format!("{} is too little", print_size(&settings.limits.max_header_bytes));
        complain("limits.max_header_bytes", problem, Some("it takes at least 8KiB".into()));
    }
    if settings.limits.body_memory < BODY_MEMORY_MIN {
        let problem = format!("{} is too little", print_size(&settings.limits.body_memory));
        complain("limits.body_memory", problem, Some("it takes at least 8MiB".into()));
    }
}

/// Bounds of settings whose units each take memory, threads or descriptors.
fn check_bounds(settings: &Settings, complain: Complain<'_>) {
    let robots = &settings.robots;
    for (key, value, most) in [
        ("robots.max_fetches", robots.max_fetches, FETCHES_MAX),
        ("robots.max_queued_fetches", robots.max_queued_fetches, FETCHES_MAX),
        ("robots.max_waiting", robots.max_waiting, WAITING_MAX),
        ("egress.max_lookups", settings.egress.max_lookups, LOOKUPS_MAX),
        ("pace.max_waiting", settings.pace.max_waiting, WAITING_MAX),
        ("pace.max_waiting_per_origin", settings.pace.max_waiting_per_origin, LANE_WAITING_MAX),
        ("pace.concurrency", settings.pace.concurrency, CONCURRENCY_MAX),
    ] {
        if value > most {
            complain(key, format!("{value} is too many"), Some(format!("it takes at most {most}")));
        }
    }
    if settings.pace.backoff_max < settings.pace.backoff_min {
        let problem = format!(
            "{} is less than pace.backoff_min, {}",
            print_duration(&settings.pace.backoff_max),
            print_duration(&settings.pace.backoff_min)
        );
        complain("pace.backoff_max", problem, None);
    }
    if robots.busy_fetch_timeout > robots.fetch_timeout {
        let problem = format!(
            "{} is longer than a fetch may take",
            print_duration(&robots.busy_fetch_timeout)
        );
        let hint = format!("robots.fetch_timeout is {}", print_duration(&robots.fetch_timeout));
        complain("robots.busy_fetch_timeout", problem, Some(hint));
    }
}

type Complain<'a> = &'a mut dyn FnMut(&str, String, Option<String>);

fn check_listen(settings: &Settings, complain: Complain<'_>) {
    const KEY: &str = "listen.proxy";
    let addresses = &settings.listen.proxy;
    if addresses.is_empty() {
        complain(
            KEY,
            "nothing to listen on".into(),
            Some("give at least one address and port".into()),
        );
    }
    let mut seen = HashSet::new();
    for address in addresses {
        if !seen.insert(address) && address.port() != 0 {
            complain(KEY, format!("{address} is given twice"), None);
        }
    }
    let beyond = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(address) = beyond
        && settings.clients.allow.is_empty()
        && settings.clients.users_file.is_none()
        && !settings.clients.open
    {
        let hint = "say who may use the proxy with clients.allow = [\"10.0.0.0/8\"] or clients.users_file, or \
                    give --open";
        complain(KEY, format!("{address} can be reached from other machines"), Some(hint.into()));
    }
}

fn check_ports(settings: &Settings, complain: Complain<'_>) {
    for address in settings.listen.proxy.iter().filter(|address| address.port() == 0) {
        let hint = "--listen takes 0 for any free port";
        complain(
            "listen.proxy",
            format!("{address} has no port that clients can be given"),
            Some(hint.into()),
        );
    }
}

/// An admin listener that other machines can reach needs a token.
fn check_admin(settings: &Settings, any_port: bool, complain: Complain<'_>) {
    const KEY: &str = "listen.admin";
    let Some(admin) = settings.listen.admin.address() else { return };
    if !admin.ip().to_canonical().is_loopback() && settings.admin.token_file.is_none() {
        let hint = "set admin.token_file, so that not everybody may look; or write \"127.0.0.1:3129\", or \"off\"";
        complain(KEY, format!("{admin} can be reached from other machines"), Some(hint.into()));
    }
    if admin.port() == 0 && !any_port {
        let hint = "--admin takes 0 for any free port";
        complain(KEY, format!("{admin} has no port that clients can be given"), Some(hint.into()));
    }
    let taken = settings.listen.proxy.iter().find(|proxy| {
        let same_host = proxy.ip() == admin.ip() || proxy.ip().is_unspecified();
        same_host && proxy.port() == admin.port() && admin.port() != 0
    });
    if let Some(proxy) = taken {
        let hint = "choose another port, or \"off\"";
        complain(
            KEY,
            format!("{admin} is where the proxy listens: listen.proxy has {proxy}"),
            Some(hint.into()),
        );
    }
}

fn check_ca(settings: &Settings, complain: Complain<'_>) {
    let (given, missing) = match (&settings.https.ca_cert, &settings.https.ca_key) {
        (Some(_), None) => ("https.ca_cert", "https.ca_key"),
        (None, Some(_)) => ("https.ca_key", "https.ca_cert"),
        _ => return,
    };
    let hint = format!("set {missing}, too, or neither for a CA that is made here");
    complain(given, format!("is of no use without {missing}"), Some(hint));
}

fn check_outage(settings: &Settings, complain: Complain<'_>) {
    let outage = settings.profile(settings.robots.profile).outage;
    if outage.retry_min > outage.retry_max {
        let key = if settings.outage.retry_min.is_some() {
            "outage.retry_min"
        } else {
            "outage.retry_max"
        };
        let [min, max] = [outage.retry_min, outage.retry_max].map(|length| print_duration(&length));
        complain(key, format!("retry_min, {min}, is longer than retry_max, {max}"), None);
    }
}

fn check_rules(settings: &Settings, complain: Complain<'_>) {
    for (index, rule) in settings.agents.rules.iter().enumerate() {
        let idle = rule.token.is_none()
            && rule.mode.is_none()
            && rule.profile.is_none()
            && rule.deny_status.is_none();
        if idle {
            let hint = "give it a token, mode, profile or deny_status";
            complain(
                &format!("agents.rules[{index}]"),
                "changes nothing".into(),
                Some(hint.into()),
            );
        }
    }
    let mut seen = HashSet::new();
    for (index, rule) in settings.origins.iter().enumerate() {
        let key = format!("origins[{index}]");
        if rule.mode.is_none() && rule.profile.is_none() {
            complain(&key, "changes nothing".into(), Some("give it a mode or profile".into()));
        }
        if !seen.insert(&rule.origin) {
            complain(&key, format!("{} is given twice", rule.origin), None);
        }
    }
}

fn check_exemptions(settings: &Settings, complain: Complain<'_>) {
    for (index, exemption) in settings.exemptions.iter().enumerate() {
        for (name, text) in [("by", &exemption.by), ("reason", &exemption.reason)] {
            if text.trim().is_empty() {
                let hint = "an exemption names who allowed it and why";
                complain(
                    &format!("exemptions[{index}].{name}"),
                    "is empty".into(),
                    Some(hint.into()),
                );
            }
        }
    }
}

impl Settings {
    /// Valid settings that deserve a warning at start.
    pub fn notices(&self, now: Timestamp) -> Vec<String> {
        let expired = self.exemptions.iter().filter(|exemption| exemption.until <= now);
        let expired = expired.map(|exemption| {
            format!(
                "the exemption for {} by {} ended at {} and no longer applies",
                print_origin_pattern(&exemption.origin),
                exemption.by,
                print_date(&exemption.until)
            )
        });
        expired.chain(self.short_outage()).collect()
    }

    /// RFC 9309 §2.3.1.4: what is unreachable may be taken for missing after a reasonably long period, such
    /// as thirty days.
    fn short_outage(&self) -> Option<String> {
        let set = self.outage.after_time.filter(|time| *time < OUTAGE_SHORT)?;
        let allows = self.profile(self.robots.profile).outage.after == Access::Allow;
        allows.then(|| {
            let set = print_duration(&set);
            format!(
                "outage.after_time is {set}: a site whose robots.txt cannot be had for so long is crawled as if \
                 it had none; RFC 9309 §2.3.1.4 names 30 days"
            )
        })
    }
}
