//! The summary of a run: one line for people, or one JSON object for programs.

#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::super::ephemeral_proxy::ProxyReport;
use super::direct_connections::DirectConnections;
use super::sealed::refused_connections::{RefusedConnections, Report};
use crate::audit::Reason;
use crate::cli::environment::NoProxy;
use crate::pace::{Counts, WaitReason};
use crate::proxy::ORIGINS_COUNTED_MAX;

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
        let ProxyReport { counts, pace, audit, records } = &self.report;
        if counts.requests == 0 {
            let warnings = self.warnings().join("\n          ");
            return format!("courtesy: {warnings}\n{}{}", self.refused(), self.left_out());
        }
        let more = if counts.origins == ORIGINS_COUNTED_MAX { "at least " } else { "" };
        let origins = plural(counts.origins as u64, "origin");
        let mut parts = vec![
            format!("{} to {more}{origins}", plural(counts.requests, "request")),
            format!("{} forwarded", counts.forwarded),
        ];
        match counts.denied_in_all() {
            0 => {}
            denied => parts.push(format!("{denied} denied ({})", self.reasons())),
        }
        match counts.copies {
            0 => {}
            copies => {
                parts.push(format!("{copies} robots.txt answered from the copy that decides"))
            }
        }
        match counts.failed {
            0 => {}
            failed => parts.push(format!("{failed} failed")),
        }
        parts.extend(waited(pace));
        let mut text = format!("courtesy: {}\n", parts.join(" · "));
        if audit.written > 0 {
            let count = plural(audit.written, "record");
            text.push_str(&format!(
                "          {count}; see them with: courtesy audit query --run {}{}\n",
                self.run, self.flags
            ));
        }
        if audit.lost > 0 {
            let count = plural(audit.lost, "record");
            text.push_str(&format!(
                "          {count} could not be written to {}\n",
                records.display()
            ));
        }
        for warning in self.warnings() {
            text.push_str(&format!("          warning: {warning}\n"));
        }
        text + &self.refused() + &self.left_out()
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
        if self.report.counts.requests == 0 && self.sealed.is_some() {
            warnings.push("the command sent no request".to_owned());
        } else if self.report.counts.requests == 0 {
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

    fn reasons(&self) -> String {
        let denied = self.report.counts.denied.iter();
        denied
            .map(|(reason, count)| format!("{count} {}", words(*reason)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn json(&self) -> Value {
        let ProxyReport { counts, pace, audit, records } = &self.report;
        let reasons: Map<_, _> = counts
            .denied
            .iter()
            .map(|(reason, count)| (reason.word().to_owned(), json!(count)))
            .collect();
        json!({
            "run": self.run,
            "code": self.code,
            "requests": counts.requests,
            "origins": counts.origins,
            "forwarded": counts.forwarded,
            "denied": counts.denied_in_all(),
            "reasons": reasons,
            "robots_txt": counts.copies,
            "failed": counts.failed,
            "waited_ms": millis(pace.waited()),
            "longest_wait": pace.longest.as_ref().map(|(origin, waited)| json!({
                "origin": origin.to_string(),
                "by": waited.by,
                "ms": millis(waited.time),
                "delay_ms": millis(waited.delay),
            })),
            "too_early": pace.refusals.iter().sum::<u64>(),
            "warning": (!self.warnings().is_empty()).then(|| self.warnings().join(" · ")),
            "own_connections": self.connections,
            "sealed": self.sealed,
            "no_proxy": self.no_proxy.variable(),
            "proxy_loopback": self.no_proxy.proxy_loopback,
            "records": { "written": audit.written, "lost": audit.lost, "file": records },
        })
    }
}

/// How long requests waited for their turn, and for what most.
fn waited(pace: &Counts) -> Option<String> {
    let (origin, longest) = pace.longest.as_ref()?;
    let seconds = pace.waited().as_secs_f64().round();
    if seconds < 1.0 {
        return None;
    }
    let delay = longest.delay.as_secs_f64();
    let why = match longest.by {
        WaitReason::CrawlDelay => format!("Crawl-delay {delay} s"),
        WaitReason::RequestRate => format!("Request-rate, {delay} s"),
        WaitReason::Exemption => format!("exempted, {delay} s"),
        WaitReason::Hold => "held".into(),
        WaitReason::Delay => "pace.delay".into(),
        WaitReason::Concurrency => "pace.concurrency".into(),
        WaitReason::Adapt => "slow".into(),
        WaitReason::Share => "engine away".into(),
        WaitReason::Address => "pace.address_delay".into(),
    };
    Some(format!("waited {seconds} s ({why} at {})", origin.authority()))
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn words(reason: Reason) -> String {
    match reason {
        Reason::DisallowRule => "by rule".into(),
        other => other.word().replace("robots_", "robots.txt_").replace('_', " "),
    }
}

fn plural(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}
