//! The summary of a run: one fact a line for people, or one JSON object for programs.

#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::super::ephemeral_proxy::ProxyReport;
use super::direct_connections::DirectConnections;
use super::sealed::refused_connections::{RefusedConnections, Report};
use crate::audit::{Reason, print_time};
use crate::cli::environment::NoProxy;
use crate::cli::output::{human_duration, quoted, seconds};
use crate::pace::hold::Cause;
use crate::pace::{HoldBegun, WaitReason, Waited};
use crate::proxy::{Few, HostTally, ORIGINS_COUNTED_MAX, RuleKey, RunReport};
use crate::types::timestamp::Timestamp;

/// Hosts that a line names.
const HOSTS_NAMED: usize = 3;
/// Rules of a host that a line names.
const RULES_NAMED: usize = 2;
/// Hosts in the JSON.
const HOSTS_LISTED_MAX: usize = 1000;
/// A shorter time of waiting is not worth a word.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// How the summary of a run is printed.
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
pub enum Form {
    #[default]
    Text,
    Json,
    None,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Summary {
    pub run: String,
    /// The flags with which `courtesy audit` finds its records.
    pub flags: String,
    /// The exit code of the command.
    pub code: u8,
    pub no_proxy: NoProxy,
    /// The connections that bypassed the proxy.
    pub connections: DirectConnections,
    /// What a sealed run adds.
    pub sealed: Option<Report>,
    pub report: ProxyReport,
    pub seen: RunReport,
}

impl Summary {
    /// The summary in this form; empty for none.
    pub fn print(&self, form: Form) -> String {
        match form {
            Form::Text => self.text(),
            Form::Json => format!("{}\n", self.json()),
            Form::None => String::new(),
        }
    }

    fn text(&self) -> String {
        let requests = self.sum(|tally| tally.requests);
        if requests == 0 {
            let warnings = self.warnings().join("\n          ");
            return format!("courtesy: {warnings}\n{}{}", self.refused(), self.left_out());
        }
        let hosts = self.seen.host_count();
        let more = if self.seen.more_origins == ORIGINS_COUNTED_MAX { "at least " } else { "" };
        let mut text = format!(
            "courtesy: {} to {more}{} in {}\n",
            plural(requests, "request"),
            plural(hosts as u64, "host"),
            rounded(self.seen.took)
        );
        text.extend(self.rows());
        for warning in self.warnings() {
            text.push_str(&format!("          warning: {warning}\n"));
        }
        text + &self.refused() + &self.left_out()
    }

    /// What became of the requests, a line each.
    fn rows(&self) -> Vec<String> {
        let ProxyReport { audit, records, .. } = &self.report;
        let count = |of: fn(&HostTally) -> u64| self.sum(of);
        let mut rows = vec![row(
            count(|tally| tally.forwarded),
            "forwarded",
            &self.waited().unwrap_or_default(),
        )];
        let mut add = |number: u64, label: &str, detail: String| {
            rows.extend((number > 0).then(|| row(number, label, &detail)));
        };
        add(
            count(|tally| tally.copies),
            "robots.txt",
            "answered from the copy that decides".into(),
        );
        let by_rule = |of: fn(&HostTally) -> &Few<RuleKey>| {
            self.named(|tally| (of(tally).sum(), rules(of(tally))))
        };
        add(count(|tally| tally.denied.sum()), "denied", by_rule(|tally| &tally.denied));
        let would_deny = by_rule(|tally| &tally.would_deny);
        add(count(|tally| tally.would_deny.sum()), "would be denied", would_deny);
        for ((by, until), number, hosts) in self.exemptions() {
            let label = format!("by exemption of {by} until {}", last_day(until));
            add(number, &label, format!("({})", named(hosts)));
        }
        let tunnelled = self.named(|tally| (tally.tunnelled, "paths not seen".into()));
        add(count(|tally| tally.tunnelled), "tunnelled", tunnelled);
        let early = self.listed(
            |tally| tally.too_early,
            |host, tally| match (tally.slowed, tally.held) {
                (None, Some((hold, _))) => hold_words(host, hold),
                (Some(slowed), _) => slow_down_words(host, slowed),
                (None, None) => host.to_owned(),
            },
        );
        add(count(|tally| tally.too_early), "too early", early);
        let left = self.listed(
            |tally| tally.left_waiting,
            |host, tally| format!("{host}, up to {}", about(tally.waits.longest())),
        );
        let left = format!("their own timeout was shorter than the wait ({left})");
        add(count(|tally| tally.left_waiting), "left while waiting", left);
        let left = self.listed(|tally| tally.left, |host, _| host.to_owned());
        add(count(|tally| tally.left), "left", format!("before the answer came ({left})"));
        let failed = self.named(|tally| (tally.failed.sum(), failures(&tally.failed)));
        add(count(|tally| tally.failed.sum()), "failed", failed);
        let missing = &self.seen.missing;
        if missing.listed > 0 {
            let file = quoted(&missing.path.to_string_lossy());
            add(missing.listed, "not retrieved", format!("listed in {file}"));
        }
        add(missing.more, "not retrieved", "which are not listed".into());
        let show = format!("courtesy audit query --run {}{}", self.run, self.flags);
        let label = if audit.written == 1 { "record" } else { "records" };
        add(audit.written, label, show);
        add(audit.lost, "records lost", format!("could not be written to {}", records.display()));
        rows
    }

    fn sum(&self, of: impl Fn(&HostTally) -> u64) -> u64 {
        self.seen.sum(of)
    }

    /// The hosts with such requests, the most first, each in words.
    fn listed(
        &self,
        of: impl Fn(&HostTally) -> u64,
        words: impl Fn(&str, &HostTally) -> String,
    ) -> String {
        let hosts = self.seen.hosts.iter().filter(|(_, tally)| of(tally) > 0);
        let mut hosts: Vec<_> = hosts.collect();
        hosts.sort_by_key(|(_, tally)| std::cmp::Reverse(of(tally)));
        named(hosts.into_iter().map(|(host, tally)| words(host, tally)).collect())
    }

    /// The same as `host: words`.
    fn named(&self, of: impl Fn(&HostTally) -> (u64, String)) -> String {
        self.listed(|tally| of(tally).0, |host, tally| format!("{host}: {}", of(tally).1))
    }

    /// Where something waited, and for how long.
    fn waited(&self) -> Option<String> {
        let RunReport { waited, hosts, .. } = &self.seen;
        if *waited < WAITED_MIN {
            return None;
        }
        let mut hosts: Vec<_> =
            hosts.iter().filter(|(_, tally)| tally.waited() >= WAITED_MIN / 2).collect();
        hosts.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.waited()));
        let each = hosts.into_iter().map(|(host, tally)| {
            let slowed = tally.slowed.map(why_slow);
            let held = tally.held.map(|(hold, _)| why_held(hold));
            let why: Vec<_> = slowed.into_iter().chain(held).collect();
            if why.is_empty() { host.clone() } else { format!("{host} ({})", why.join("; ")) }
        });
        let hosts = named(each.collect());
        Some(format!("{} of that time was waiting for {hosts}", rounded(*waited)))
    }

    /// Each exemption with its uses and its hosts.
    fn exemptions(&self) -> Vec<((String, Timestamp), u64, Vec<String>)> {
        let mut found: Vec<((String, Timestamp), u64, Vec<String>)> = Vec::new();
        for (host, tally) in &self.seen.hosts {
            for (key, count) in &tally.exempted.each {
                match found.iter_mut().find(|(known, ..)| known == key) {
                    Some((_, sum, hosts)) => {
                        *sum += count;
                        hosts.push(host.clone());
                    }
                    None => found.push((key.clone(), *count, vec![host.clone()])),
                }
            }
        }
        found
    }
    /// The connections of a sealed command that were refused, and those that were relayed.
    fn refused(&self) -> String {
        let Some(sealed) = &self.sealed else { return String::new() };
        let RefusedConnections { destinations, more } = &sealed.refused;
        let mut each: Vec<_> =
            destinations.iter().map(|(to, count)| format!("{to} ({count})")).collect();
        each.extend((*more > 0).then(|| format!("{more} others")));
        let mut text = String::new();
        if !each.is_empty() {
            text.push_str(&format!("          refused, as not served: {}\n", each.join(", ")));
            let tcp = destinations.keys().find(|it| !it.ends_with("/udp"));
            let remedy = tcp
                .map(|it| format!("          a service of these is reached with --reach {it}\n"));
            text.extend(remedy);
        }
        if sealed.relayed > 0 {
            let connections = plural(sealed.relayed, "connection");
            text.push_str(&format!("          {connections} relayed (--reach)\n"));
        }
        text
    }

    /// Indications that requests may have bypassed the proxy.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let requests = self.sum(|tally| tally.requests);
        if requests == 0 && self.sealed.is_some() {
            warnings.push("the command sent no request".to_owned());
        } else if requests == 0 {
            warnings.push(
                "no request came this way. Not every client follows the proxy variables, or trusts the \
                 certificate authority: see courtesy doctor, or use --sealed, which needs neither"
                    .to_owned(),
            );
        }
        if self.report.counts.distrusting > 0 {
            let hosts = plural(self.report.counts.distrusting, "host");
            let sealed = match self.sealed {
                Some(_) => "",
                None => ", or use --sealed, where Chromium, Firefox and the system's store have it",
            };
            warnings.push(format!(
                "by HTTPS the program left {hosts} unread: it does not trust courtesy's certificate authority, \
                 and takes those it trusts from a setting of its own: see courtesy ca install-help{sealed}"
            ));
        }
        let DirectConnections { count, named } = &self.connections;
        if *count > 0 {
            let each: Vec<_> =
                named.iter().map(|it| format!("{} to {}", it.program, it.address)).collect();
            let perhaps =
                if self.no_proxy.hosts.is_empty() { "" } else { ", or is led by --no-proxy" };
            let it = if *count == 1 { "it does" } else { "they do" };
            let had = plural(*count, "connection");
            warnings.push(format!(
                "the command had {had} of its own ({}): {it} not come by the proxy, so nothing was decided or \
                 recorded there. The program follows no variable{perhaps}: see courtesy doctor, or use --sealed, \
                 past which there is no way",
                each.join(", ")
            ));
        }
        warnings
    }

    /// The hosts that the command contacts directly, so that they are not taken for crawled.
    fn left_out(&self) -> String {
        if self.sealed.is_some() {
            return String::new();
        }
        let NoProxy { hosts, proxy_loopback } = &self.no_proxy;
        let loopback = "loopback (localhost, 127.0.0.0/8; --proxy-loopback sends it here)";
        let parts = [loopback, hosts].into_iter().skip(usize::from(*proxy_loopback));
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!("          outside the proxy: {}\n", parts.join(", "))
        }
    }

    fn json(&self) -> Value {
        let ProxyReport { counts, pace, audit, records } = &self.report;
        let reasons: Map<_, _> = counts
            .denied
            .iter()
            .map(|(reason, count)| (reason.word().to_owned(), json!(count)))
            .collect();
        let RunReport { took, waited, hosts, missing, .. } = &self.seen;
        let sum = |of: fn(&HostTally) -> u64| self.sum(of);
        json!({
            "event": "summary",
            "run": self.run,
            "code": self.code,
            "took_ms": millis(*took),
            "requests": sum(|tally| tally.requests),
            "hosts": self.seen.host_count(),
            "forwarded": sum(|tally| tally.forwarded),
            "robots_txt": sum(|tally| tally.copies),
            "denied": sum(|tally| tally.denied.sum()),
            "reasons": reasons,
            "would_deny": sum(|tally| tally.would_deny.sum()),
            "exempted": sum(|tally| tally.exempted.sum()),
            "tunnelled": sum(|tally| tally.tunnelled),
            "too_early": sum(|tally| tally.too_early),
            "left_waiting": sum(|tally| tally.left_waiting),
            "left": sum(|tally| tally.left),
            "failed": sum(|tally| tally.failed.sum()),
            "not_retrieved": {
                "listed": missing.listed,
                "more": missing.more,
                "file": (missing.listed > 0).then_some(&missing.path),
            },
            "waited_ms": millis(*waited),
            "longest_wait": pace.longest.as_ref().map(|(origin, waited)| json!({
                "origin": origin.to_string(),
                "by": waited.by,
                "ms": millis(waited.time),
                "delay_ms": millis(waited.delay),
            })),
            "warning": (!self.warnings().is_empty()).then(|| self.warnings().join(" · ")),
            "own_connections": self.connections,
            "sealed": self.sealed,
            "no_proxy": self.no_proxy.variable(),
            "proxy_loopback": self.no_proxy.proxy_loopback,
            "records": { "written": audit.written, "lost": audit.lost, "file": records },
            "by_host": hosts.iter().take(HOSTS_LISTED_MAX).map(host_json).collect::<Vec<_>>(),
            "hosts_not_listed": self.seen.host_count().saturating_sub(HOSTS_LISTED_MAX.min(hosts.len())),
        })
    }
}

fn host_json((host, tally): &(String, HostTally)) -> Value {
    let by_rule = |few: &Few<RuleKey>| {
        let each = few.each.iter().map(|(RuleKey { reason, rule }, count)| {
            let (line, text) = rule.as_ref().map(|(line, text)| (line, text)).unzip();
            json!({ "reason": reason.word(), "line": line, "rule": text, "count": count })
        });
        json!({ "count": few.sum(), "each": each.collect::<Vec<_>>() })
    };
    let exempted = tally.exempted.each.iter().map(
        |((by, until), count)| json!({ "by": by, "until": print_time(*until), "count": count }),
    );
    let failed = tally.failed.each.iter().map(
        |((status, error), count)| json!({ "status": status, "error": error, "count": count }),
    );
    json!({
        "host": host,
        "requests": tally.requests,
        "forwarded": tally.forwarded,
        "robots_txt": tally.copies,
        "denied": by_rule(&tally.denied),
        "would_deny": by_rule(&tally.would_deny),
        "exempted": exempted.collect::<Vec<_>>(),
        "tunnelled": tally.tunnelled,
        "too_early": tally.too_early,
        "left_waiting": tally.left_waiting,
        "left": tally.left,
        "failed": failed.collect::<Vec<_>>(),
        "waited_ms": millis(tally.waited()),
        "longest_expected_ms": millis(tally.waits.longest()),
        "pace": tally.slowed.map(|why| json!({
            "by": why.by, "delay_ms": millis(why.delay), "line": why.line,
        })),
        "hold": tally.held.map(|(hold, _)| json!({
            "by": hold.cause.as_str(), "status": hold.status, "ms": millis(hold.length),
        })),
    })
}

/// `  101 forwarded          what else there is to say`.
fn row(number: u64, label: &str, detail: &str) -> String {
    format!("{}\n", format!("{number:>5} {label:<18} {detail}").trim_end())
}

/// The first few, and the number of the others.
fn named(mut each: Vec<String>) -> String {
    let more = each.len().saturating_sub(HOSTS_NAMED) as u64;
    each.truncate(HOSTS_NAMED);
    let each = each.join("; ");
    if more == 0 { each } else { format!("{each}; and {}", plural(more, "other host")) }
}

/// `9 by line 2 "Disallow: /private/"`.
fn rules(few: &Few<RuleKey>) -> String {
    let each = few.each.iter().take(RULES_NAMED).map(|(key, count)| match &key.rule {
        Some((line, text)) => format!("{count} by line {line} \"{text}\""),
        None => format!("{count} {}", reason_words(key.reason)),
    });
    let mut each: Vec<_> = each.collect();
    let named: u64 = few.each.iter().take(RULES_NAMED).map(|(_, count)| count).sum();
    let others = few.sum() - named;
    each.extend((others > 0).then(|| format!("{others} by others")));
    each.join(", ")
}

/// `502 connection refused`.
fn failures(few: &Few<(u16, &'static str)>) -> String {
    let is_one = few.each.len() == 1 && few.more == 0;
    let each = few.each.iter().take(RULES_NAMED).map(|((status, error), count)| {
        let words = format!("{status} {}", error.replace('_', " "));
        if is_one { words } else { format!("{count} with {words}") }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The last day on which an exemption applies.
fn last_day(until: Timestamp) -> String {
    let last = print_time(Timestamp::from_millis(until.millis().saturating_sub(1)));
    last.split('T').next().unwrap_or_default().to_owned()
}

/// To the second, or to a tenth where it is shorter than ten.
fn rounded(time: Duration) -> String {
    let tenths = (time.as_secs_f64() * 10.0).round() / 10.0;
    if tenths < 10.0 {
        format!("{tenths} s")
    } else {
        seconds(Duration::from_secs_f64(tenths.round()))
    }
}

// The words of a run, while it happens and at its end: one way of saying a thing.

/// What a host asks for, or what else makes its requests wait.
pub fn slow_down_words(host: &str, why: Waited) -> String {
    let delay = seconds(why.delay);
    let line = why.line.map(|line| format!(", line {line} of its robots.txt")).unwrap_or_default();
    match why.by {
        WaitReason::CrawlDelay => {
            let value = why.delay.as_secs_f64();
            format!("{host} asks for {delay} between requests (Crawl-delay: {value}{line})")
        }
        WaitReason::RequestRate => {
            format!("{host} asks for {delay} between requests (Request-rate{line})")
        }
        WaitReason::Exemption => format!("requests to {host} are {delay} apart by an exemption"),
        WaitReason::Delay if why.delay.is_zero() => {
            format!("requests to {host} wait for their time (pace.delay)")
        }
        WaitReason::Delay => {
            format!("requests to {host} are {delay} apart (pace.delay, or RateLimit)")
        }
        WaitReason::Concurrency => {
            format!("as many requests to {host} are under way as may be (pace.concurrency)")
        }
        WaitReason::Adapt => format!("{host} is slow, and gets its requests further apart"),
        WaitReason::Share => format!(
            "requests to {host} keep this proxy's share of the pace, as the engine is away \
             (engine.away)"
        ),
        WaitReason::Address => format!(
            "requests to the address of {host} are limited (pace.address_delay, \
             pace.address_concurrency)"
        ),
        WaitReason::Hold => format!("{host} is left alone for a while"),
    }
}

/// That a host is left alone.
pub fn hold_words(host: &str, hold: HoldBegun) -> String {
    let (length, status) = (about(hold.length), hold.status);
    match hold.cause {
        Cause::RetryAfter => {
            let asked = hold.length.as_secs_f64().round();
            format!("{host} asks to be left alone for {length} ({status}, Retry-After: {asked})")
        }
        Cause::RateLimit => {
            format!("{host} gives no more requests for {length} ({status}, RateLimit)")
        }
        Cause::BackOff => format!("{host} fails, and is left alone for {length} ({status})"),
    }
}

/// Why requests wait, in few words.
pub fn why_slow(why: Waited) -> String {
    let delay = seconds(why.delay);
    match why.by {
        WaitReason::CrawlDelay => format!("Crawl-delay {}", why.delay.as_secs_f64()),
        WaitReason::RequestRate => format!("Request-rate, {delay}"),
        WaitReason::Exemption => format!("{delay} by an exemption"),
        WaitReason::Delay => "pace.delay".into(),
        WaitReason::Concurrency => "pace.concurrency".into(),
        WaitReason::Adapt => "it is slow".into(),
        WaitReason::Share => "engine away".into(),
        WaitReason::Address => "pace.address_delay".into(),
        WaitReason::Hold => "held".into(),
    }
}

/// Why a host is left alone, in few words.
pub fn why_held(hold: HoldBegun) -> String {
    match hold.cause {
        Cause::RetryAfter => format!("{}, Retry-After", hold.status),
        Cause::RateLimit => format!("{}, RateLimit", hold.status),
        Cause::BackOff => format!("it failed, {}", hold.status),
    }
}

/// A reason of denials that is no rule.
pub fn reason_words(reason: Reason) -> String {
    match reason {
        Reason::DisallowRule => "by rule".into(),
        other => other.word().replace("robots_", "robots.txt_").replace('_', " "),
    }
}

/// A time to the second; one below a second to a tenth.
pub fn about(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.95 => format!("{} s", (seconds * 10.0).round() / 10.0),
        _ => human_duration(time),
    }
}

/// `1 record`, `2 records`.
pub fn plural(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}

/// Whole milliseconds.
pub fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
