//! Checks values that parse and are impossible, alone or together.

use std::collections::HashSet;

use serde::Serialize;

use super::diagnostics::{Diagnostic, ReportFn};
use super::settings::Settings;
use super::values::{ConsoleAccess, print_duration, print_size};
use crate::engine::{Address, ServerUrl};
use crate::pace::hold::BACKOFF_MAX;

/// RFC 9309 §2.5: the limit must be at least 500 kibibytes.
const ROBOTS_SIZE_MIN: u64 = 500 << 10;

/// Room for the request line of 8000 bytes that RFC 9112 §3 asks for. hyper panics on less.
const HEADER_SIZE_MIN: u64 = 8 << 10;

/// A record is some 1300 bytes; less would close a file after a few.
const SEGMENT_SIZE_MIN: u64 = 16 << 10;

/// An empty database, and room to write it anew beside itself.
const STORE_SIZE_MIN: u64 = 4 << 20;

/// Concurrent fetches, each with a connection.
const FETCHES_MAX: usize = 65_536;

/// Requests that wait for their turn at one origin: to find one that leaves takes time with each.
const LANE_WAITING_MAX: usize = 65_536;

/// Requests under way to one origin.
const CONCURRENCY_MAX: usize = 65_536;

/// Room for some of the largest requests, and several usual ones of a few clients.
pub const BODY_MEMORY_MIN: u64 = 8 << 20;

/// Reports every impossible value; `place` returns the source of a setting.
pub fn check(
    settings: &Settings,
    place: impl Fn(&str) -> Option<String>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let place = &place;
    let mut report = |key: &str, problem: String, hint: Option<String>| {
        diagnostics.push(Diagnostic::new(key, place(key).as_deref(), problem).with_hint(hint));
    };
    if settings.state_dir.as_os_str().is_empty() {
        let hint = "set state_dir or give --state-dir";
        report(
            "state_dir",
            "there is no home directory to keep state in".into(),
            Some(hint.into()),
        );
    }
    check_listen(settings, &mut report);
    check_transparent(settings, &mut report);
    // A port of the system's choice is for those who read it from the log line: a person at a
    // terminal, a test. In a file its port would be unknown to clients.
    let is_flagged = |key: &str| place(key).is_some_and(|place| place.starts_with("--"));
    if !is_flagged("listen.proxy") {
        check_ports(settings, &mut report);
    }
    check_admin(settings, is_flagged("listen.admin"), &mut report);
    check_ca(settings, &mut report);
    check_engine(settings, &mut report);
    check_rules(settings, &mut report);
    check_exemptions(settings, &mut report);
    check_bounds(settings, &mut report);
    check_sizes(settings, &mut report);
    check_log(settings, &mut report);
}

/// What of `[engine]` would have no effect.
fn check_engine(settings: &Settings, report: ReportFn<'_>) {
    let engine = &settings.engine;
    if let Some(url) = engine.url.as_ref().filter(|_| engine.url_file.is_none()) {
        let servers = url.servers();
        let is_tls = |it: &ServerUrl| matches!(it.address, Address::Tcp { is_tls: true, .. });
        let files =
            [("engine.ca", &engine.ca), ("engine.cert", &engine.cert), ("engine.key", &engine.key)];
        for (key, _) in files.into_iter().filter(|(_, file)| file.is_some()) {
            if !servers.iter().any(is_tls) {
                let problem = "no connection to the engine uses TLS";
                let hint = "write rediss:// in engine.url, or leave this out";
                report(key, problem.into(), Some(hint.into()));
            }
        }
    }
}

/// Sizes that are too small to work with.
fn check_sizes(settings: &Settings, report: ReportFn<'_>) {
    let Settings { robots, audit, store, limits, .. } = settings;
    for (key, size, least, hint) in [
        (
            "robots.max_size",
            robots.max_size,
            ROBOTS_SIZE_MIN,
            "RFC 9309 §2.5 asks for at least 500KiB",
        ),
        ("audit.rotate_size", audit.rotate_size, SEGMENT_SIZE_MIN, "it takes at least 16KiB"),
        (
            "store.max_size",
            store.max_size,
            STORE_SIZE_MIN,
            "it takes at least 4MiB; store.enabled = false does without",
        ),
        (
            "limits.max_header_bytes",
            limits.max_header_bytes,
            HEADER_SIZE_MIN,
            "it takes at least 8KiB",
        ),
        ("limits.body_memory", limits.body_memory, BODY_MEMORY_MIN, "it takes at least 8MiB"),
    ] {
        if size < least {
            report(key, format!("{} is too little", print_size(&size)), Some(hint.into()));
        }
    }
}

fn check_log(settings: &Settings, report: ReportFn<'_>) {
    let audit = &settings.audit;
    let rotate_size = audit.rotate_size;
    if let Some(size) = audit.retain_size.0.filter(|size| *size < rotate_size) {
        let rotate_size = print_size(&rotate_size);
        let problem =
            format!("{} is less than audit.rotate_size, {rotate_size}", print_size(&size));
        let hint = "nothing would be kept but the file that is being written";
        report("audit.retain_size", problem, Some(hint.into()));
    }
}

/// Bounds of settings whose units each take memory, threads or descriptors.
fn check_bounds(settings: &Settings, report: ReportFn<'_>) {
    for (key, value, most) in [
        ("robots.max_fetches", settings.robots.max_fetches, FETCHES_MAX),
        ("pace.max_waiting_per_origin", settings.pace.max_waiting_per_origin, LANE_WAITING_MAX),
        ("pace.concurrency", settings.pace.concurrency, CONCURRENCY_MAX),
        ("pace.address_concurrency", settings.pace.address_concurrency, CONCURRENCY_MAX),
    ] {
        if value > most {
            report(key, format!("{value} is too many"), Some(format!("it takes at most {most}")));
        }
    }
    if settings.pace.backoff_min > BACKOFF_MAX {
        let problem = format!("{} is too long", print_duration(&settings.pace.backoff_min));
        let hint = format!("it takes at most {}", print_duration(&BACKOFF_MAX));
        report("pace.backoff_min", problem, Some(hint));
    }
}

fn check_ca(settings: &Settings, report: ReportFn<'_>) {
    let names = ["https.ca_cert", "https.ca_key"];
    let given = [settings.https.ca_cert.is_some(), settings.https.ca_key.is_some()];
    check_pair(names, given, "a CA that is made here", report);
    let names = ["listen.tls_cert", "listen.tls_key"];
    let given = [settings.listen.tls_cert.is_some(), settings.listen.tls_key.is_some()];
    check_pair(names, given, "a certificate of the local CA", report);
}

/// Of a certificate and its key, one alone is of no use; without both there is `other`.
fn check_pair(names: [&str; 2], given: [bool; 2], other: &str, report: ReportFn<'_>) {
    let (given, missing) = match given {
        [true, false] => (names[0], names[1]),
        [false, true] => (names[1], names[0]),
        _ => return,
    };
    let hint = format!("set {missing}, too, or neither for {other}");
    report(given, format!("is of no use without {missing}"), Some(hint));
}

fn check_rules(settings: &Settings, report: ReportFn<'_>) {
    for (index, rule) in settings.agents.rules.iter().enumerate() {
        check_changes_something(&format!("agents.rules[{index}]"), rule, "match", report);
    }
    let mut seen = HashSet::new();
    for (index, rule) in settings.origins.iter().enumerate() {
        let key = format!("origins[{index}]");
        check_changes_something(&key, rule, "origin", report);
        if !seen.insert(&rule.origin) {
            report(&key, format!("{} is given twice", rule.origin), None);
        }
    }
}

/// Reports the rule at `key` if nothing is set in it but `selector`, which says what it is for. The
/// settings it could have are those of its type, so that none is forgotten here.
fn check_changes_something(key: &str, rule: &impl Serialize, selector: &str, report: ReportFn<'_>) {
    let rule = serde_json::to_value(rule).expect("settings are made of plain values");
    let settings: Vec<_> =
        rule.as_object().into_iter().flatten().filter(|(name, _)| *name != selector).collect();
    if settings.iter().all(|(_, value)| value.is_null()) {
        let names: Vec<_> = settings.iter().map(|(name, _)| name.as_str()).collect();
        let hint = format!("give it one of: {}", names.join(", "));
        report(key, "changes nothing".into(), Some(hint));
    }
}

fn check_exemptions(settings: &Settings, report: ReportFn<'_>) {
    for (index, exemption) in settings.exemptions.iter().enumerate() {
        for (name, text) in [("by", &exemption.by), ("reason", &exemption.reason)] {
            if text.trim().is_empty() {
                let hint = "an exemption names who allowed it and why";
                report(
                    &format!("exemptions[{index}].{name}"),
                    "is empty".into(),
                    Some(hint.into()),
                );
            }
        }
    }
}

fn check_listen(settings: &Settings, report: ReportFn<'_>) {
    const KEY: &str = "listen.proxy";
    let addresses = &settings.listen.proxy;
    if addresses.is_empty() {
        report(
            KEY,
            "nothing to listen on".into(),
            Some("give at least one address and port".into()),
        );
    }
    let mut seen = HashSet::new();
    for address in addresses {
        if !seen.insert(address) && address.port() != 0 {
            report(KEY, format!("{address} is given twice"), None);
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
        report(KEY, format!("{address} can be reached from other machines"), Some(hint.into()));
    }
}

/// A transparent listener asks for no password: the address of the client has to be permitted.
fn check_transparent(settings: &Settings, report: ReportFn<'_>) {
    const KEY: &str = "listen.transparent";
    let mut seen: HashSet<_> = settings.listen.proxy.iter().collect();
    for address in &settings.listen.transparent {
        if !seen.insert(address) && address.port() != 0 {
            report(KEY, format!("{address} is given twice, or is in listen.proxy"), None);
        }
        if address.port() == 0 {
            report(KEY, format!("{address} has no port that rules can redirect to"), None);
        }
        let is_open = settings.clients.open || !settings.clients.allow.is_empty();
        if !address.ip().to_canonical().is_loopback() && !is_open {
            let hint =
                "say who may use it with clients.allow = [\"10.0.0.0/8\"]; it asks for no password";
            report(KEY, format!("{address} can be reached from other machines"), Some(hint.into()));
        }
    }
}

fn check_ports(settings: &Settings, report: ReportFn<'_>) {
    for address in settings.listen.proxy.iter().filter(|address| address.port() == 0) {
        let hint = "--listen takes 0 for any free port";
        report(
            "listen.proxy",
            format!("{address} has no port that clients can be given"),
            Some(hint.into()),
        );
    }
}

/// An admin listener that other machines can reach needs a token.
fn check_admin(settings: &Settings, any_port: bool, report: ReportFn<'_>) {
    const KEY: &str = "listen.admin";
    let Some(admin) = settings.listen.admin.address() else { return };
    if !admin.ip().to_canonical().is_loopback() && settings.admin.token_file.is_none() {
        let hint = "set admin.token_file, so that not everybody may look; or write \"127.0.0.1:3129\", or \"off\"";
        report(KEY, format!("{admin} can be reached from other machines"), Some(hint.into()));
    }
    if !admin.ip().to_canonical().is_loopback() && settings.admin.console == ConsoleAccess::Open {
        let hint = "write \"on\": then a browser needs `courtesy console` or a token";
        let what = format!("{admin}, where the console is, can be reached from other machines");
        report("admin.console", what, Some(hint.into()));
    }
    if admin.port() == 0 && !any_port {
        let hint = "--admin takes 0 for any free port";
        report(KEY, format!("{admin} has no port that clients can be given"), Some(hint.into()));
    }
    let taken = settings.listen.proxy.iter().find(|proxy| {
        let same_host = proxy.ip() == admin.ip() || proxy.ip().is_unspecified();
        same_host && proxy.port() == admin.port() && admin.port() != 0
    });
    if let Some(proxy) = taken {
        let hint = "choose another port, or \"off\"";
        report(
            KEY,
            format!("{admin} is where the proxy listens: listen.proxy has {proxy}"),
            Some(hint.into()),
        );
    }
}
