//! The access log: one line for each answered request, at the end of its response, under OpenTelemetry's names for HTTP, where
//! the log level enables it. And the trace of the request, which the record of a denial names, too.
//! The query is left out, because it may hold secrets.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, Response, StatusCode, Version, request};
use tracing::{Level, enabled, info};

use crate::audit::{self, Event, Record};
use crate::clients::Client;
use crate::pace::Waited;
use crate::policy::decision::Decision;
use crate::proxy::connection::body::Body;
use crate::proxy::connection::connection_state::ConnectionContext;
use crate::proxy::denial::{Denial, Recorded};
use crate::proxy::destination::Scope;
use crate::proxy::rejection::Refusal;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::store::OriginRobots;
use crate::types::origin::{Origin, Scheme};
use crate::types::timestamp::Timestamp;

/// The `tracing` target of the lines, by which `log.level` enables them.
pub const ACCESS: &str = "access";

/// The entry of one request, from its head to the head of its response.
#[derive(Debug, Default)]
pub struct AccessEntry {
    /// As in the `traceparent` header: 32 hexadecimal digits.
    pub trace_id: Option<String>,
    /// `None` where the access log is not enabled.
    line: Option<Box<Line>>,
    /// How long the request waited for its turn, as far as that is known.
    waited: Lock<Option<Waited>>,
    /// It waits for its turn, or for its time: it has not started.
    is_waiting: AtomicBool,
}

/// What the head of the request says, and the decision on it.
#[derive(Debug)]
struct Line {
    since: Instant,
    method: String,
    scheme: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    path: Option<String>,
    user_agent: Option<String>,
    version: &'static str,
    user: Lock<Option<String>>,
    decision: Lock<DecisionNote>,
}

/// A line without the size of the body, which is known when the response has ended.
struct PendingLine {
    line: Box<Line>,
    status: StatusCode,
    client: IpAddr,
    port: u16,
    peer: Option<IpAddr>,
    error: Option<&'static str>,
    waited: Option<Waited>,
    trace_id: Option<String>,
    took: Duration,
}

/// The decision, and what it rests on.
#[derive(Clone, Debug, Default)]
struct DecisionNote {
    outcome: Option<&'static str>,
    reason: Option<&'static str>,
    rule_line: Option<u32>,
    rule_text: Option<String>,
    group: Option<String>,
    sha256: Option<String>,
    fetched_at: Option<Timestamp>,
    age_s: Option<u64>,
    id: Option<String>,
}

impl AccessEntry {
    /// For the request with this head on `context`.
    pub fn of(head: &request::Parts, context: &ConnectionContext) -> Self {
        let trace_id = trace_id(&head.headers);
        let line = enabled!(target: ACCESS, Level::INFO).then(|| Box::new(Line::of(head, context)));
        Self { trace_id, line, ..Self::default() }
    }

    /// For what follows the response in the same trace, without a line of its own.
    pub fn of_same_trace(&self) -> Self {
        Self { trace_id: self.trace_id.clone(), ..Self::default() }
    }

    /// Notes that `decision` allows the request.
    pub fn note_allowed(&self, decision: &Decision<'_>, known: &OriginRobots, now: Timestamp) {
        let Some(line) = &self.line else { return };
        let (rule, group) = (decision.basis.rule(), decision.basis.group());
        let copy = known.state().copy();
        line.note(DecisionNote {
            outcome: Some("allow"),
            reason: Some(decision.basis.word()),
            rule_line: rule.map(|rule| rule.line),
            rule_text: rule.map(audit::Rule::of).map(rule_text),
            group: group.map(|group| audit::Group::of(group).token),
            sha256: copy.map(|copy| crate::types::sanitize::hex(&copy.snapshot.sha256)),
            fetched_at: copy.map(|copy| copy.snapshot.fetched_at),
            age_s: copy.map(|copy| now.since(copy.confirmed_at).as_secs()),
            id: None,
        });
    }

    /// Notes that the request waited for its turn.
    pub fn note_waited(&self, waited: &Waited) {
        *self.waited.lock() = Some(*waited);
    }

    /// Notes that the request begins to wait, or has started.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    /// Whether the request has begun to wait, and has not started since.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// How long the request waited for its turn; `None`: it did not.
    pub fn waited(&self) -> Option<Waited> {
        *self.waited.lock()
    }

    /// Notes a recorded denial, whether the request was denied or allowed despite it.
    pub fn note_denial(&self, denial: &Recorded<Denial>) {
        let Some(line) = &self.line else { return };
        let record = &denial.record;
        let robots = record.robots.as_ref();
        let confirmed_at = robots.and_then(|robots| robots.confirmed_at);
        line.note(DecisionNote {
            outcome: Some(match record.event {
                Event::Denied => "deny",
                Event::WouldDeny => "would_deny",
                Event::Exempted => "exempted",
                Event::Tunnelled => "tunnelled",
            }),
            reason: Some(record.reason.word()),
            rule_line: record.rule.as_ref().map(|rule| rule.line),
            rule_text: record.rule.clone().map(rule_text),
            group: record.group.as_ref().map(|group| group.token.clone()),
            sha256: robots.and_then(|robots| robots.sha256.clone()),
            fetched_at: robots.and_then(|robots| robots.fetched_at),
            age_s: confirmed_at.map(|confirmed_at| record.time.since(confirmed_at).as_secs()),
            id: denial.is_in_log().then(|| record.id.clone()),
        });
    }

    /// Notes the user of the request.
    pub fn note_user(&self, client: &Client) {
        if let Some(line) = &self.line {
            *line.user.lock() = client.name().map(str::to_owned);
        }
    }

    /// Writes the line of a request that was answered with `response`, or rejected, when its body has
    /// been sent.
    pub fn emit_at_end(
        &mut self,
        context: &ConnectionContext,
        response: &mut Response<Body>,
        refusal: Option<&Refusal>,
    ) {
        if self.line.is_none() {
            return;
        }
        let peer = response.body().peer();
        if let Some(pending) = self.pending(context, response.status(), peer, refusal) {
            response.body_mut().at_end(move |bytes| pending.emit(bytes));
        }
    }

    /// Writes the line of a request that was answered with `status` and no body.
    pub fn emit(
        &mut self,
        context: &ConnectionContext,
        status: StatusCode,
        refusal: Option<&Refusal>,
    ) {
        if let Some(pending) = self.pending(context, status, None, refusal) {
            pending.emit(0);
        }
    }

    fn pending(
        &mut self,
        context: &ConnectionContext,
        status: StatusCode,
        peer: Option<IpAddr>,
        refusal: Option<&Refusal>,
    ) -> Option<PendingLine> {
        if let Some(Refusal::Denial(denial)) = refusal {
            self.note_denial(denial);
        }
        let line = self.line.take()?;
        let waited = self.waited();
        let error = match refusal {
            Some(Refusal::Rejection(rejection)) => {
                if rejection.is_delay() {
                    line.decision.lock().outcome = Some("delay");
                }
                Some(rejection.proxy_error)
            }
            _ => None,
        };
        let took = clock::monotonic() - line.since;
        let (client, port) = (context.client.address, context.port);
        let trace_id = self.trace_id.clone();
        Some(PendingLine { line, status, client, port, peer, error, waited, trace_id, took })
    }
}

impl Line {
    fn of(head: &request::Parts, context: &ConnectionContext) -> Self {
        let uri = &head.uri;
        let within = match &context.scope {
            Scope::AnyOrigin | Scope::Address(_) => None,
            Scope::Origin(origin) => Some(origin),
        };
        let scheme = within.map(|origin| origin.scheme().as_str()).or(uri.scheme_str());
        let host = within.map(|origin| origin.host().to_string()).or(uri.host().map(str::to_owned));
        let text = |text: &str| Record::text(text.as_bytes());
        let user_agent = head.headers.get(USER_AGENT);
        Self {
            since: clock::monotonic(),
            method: text(head.method.as_str()),
            scheme: scheme.map(text),
            host: host.as_deref().map(text),
            port: within
                .map(Origin::port)
                .or(uri.port_u16())
                .or_else(|| Some(Scheme::parse(scheme?).ok()?.default_port())),
            path: Some(uri.path())
                .filter(|path| !path.is_empty())
                .map(|path| Record::url(path.as_bytes())),
            user_agent: user_agent.map(|value| Record::text(value.as_bytes())),
            version: version(head.version),
            user: Lock::default(),
            decision: Lock::default(),
        }
    }

    fn note(&self, decision: DecisionNote) {
        *self.decision.lock() = decision;
    }
}

impl PendingLine {
    /// Writes it; `bytes` of the body were sent.
    fn emit(self, bytes: usize) {
        let Self { line, status, client, port, peer, error, waited, trace_id, took } = self;
        let decision = line.decision.lock().clone();
        let user = line.user.lock().take();
        let delay = waited.map(|waited| waited.delay).filter(|delay| !delay.is_zero());
        let host = line.host.as_deref().unwrap_or_default();
        let path = line.path.as_deref().unwrap_or_default();
        info!(
            target: ACCESS,
            {
                "http.request.method" = line.method,
                "url.scheme" = line.scheme,
                "url.path" = line.path,
                "server.address" = line.host,
                "server.port" = line.port,
                "http.response.status_code" = status.as_u16(),
                "http.response.body.size" = bytes,
                "user_agent.original" = line.user_agent,
                "client.address" = client.to_string(),
                "client.port" = port,
                "user.name" = user,
                "network.peer.address" = peer.map(|peer| peer.to_string()),
                "network.protocol.version" = line.version,
                "error.type" = error,
                "trace_id" = trace_id,
                "robots.decision" = decision.outcome,
                "robots.reason" = decision.reason,
                "robots.rule.line" = decision.rule_line,
                "robots.rule.text" = decision.rule_text,
                "robots.group" = decision.group,
                "robots.sha256" = decision.sha256,
                "robots.fetched_at" = decision.fetched_at.map(audit::print_time),
                "robots.age_s" = decision.age_s,
                "decision.id" = decision.id,
                "politeness.wait_ms" = waited.map(|waited| millis(waited.time)),
                "politeness.by" = waited.map(|waited| waited.by.as_str()),
                "politeness.delay_ms" = delay.map(millis),
                "duration_ms" = millis(took)
            },
            "{} {host}{path} {}", line.method, status.as_u16()
        );
    }
}

/// A duration in milliseconds.
fn millis(duration: Duration) -> f64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) as f64 / 1e3
}

/// The line of a robots.txt: `Disallow: /private/`.
fn rule_text(rule: audit::Rule) -> String {
    format!("{}: {}", rule.directive, rule.pattern)
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

/// W3C Trace Context §3.2.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace of a valid `traceparent` header (W3C Trace Context §3.2.2): version, trace, parent and
/// flags in lower-case hexadecimal digits. What a later version appends is ignored.
pub fn trace_id(headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let (field, None) = (given.next()?.as_bytes(), given.next()) else { return None };
    let (known, rest) = field.split_at_checked(55)?;
    let mut parts = known.split(|byte| *byte == b'-');
    let [version, trace, parent, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let is_hex = |part: &[u8], length| {
        part.len() == length && part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &[u8], length| is_hex(part, length) && part.iter().any(|byte| *byte != b'0');
    let ends = rest.is_empty() || version != b"00" && rest[0] == b'-';
    let is_valid = is_hex(version, 2)
        && version != b"ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2);
    (is_valid && ends).then(|| String::from_utf8_lossy(trace).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[track_caller]
    fn traced(fields: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(TRACEPARENT, field.parse().unwrap());
        }
        trace_id(&headers)
    }

    #[test]
    fn a_valid_traceparent_names_its_trace() {
        for valid in [
            "00-{}-00f067aa0ba902b7-01",
            "00-{}-00f067aa0ba902b7-00",
            "cc-{}-00f067aa0ba902b7-01-what",
        ] {
            assert_eq!(traced(&[&valid.replace("{}", TRACE)]).as_deref(), Some(TRACE), "{valid}");
        }
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let wrong = [
            "",
            "00",
            "00-{}-00f067aa0ba902b7",
            "00-{}-00f067aa0ba902b7-01-what",
            "00-{}-00f067aa0ba902b7-011",
            "ff-{}-00f067aa0ba902b7-01",
            "00-{}-0000000000000000-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-{}-00f067aa0ba902b7-zz",
            "00_{}_00f067aa0ba902b7_01",
        ];
        for wrong in wrong {
            assert_eq!(traced(&[&wrong.replace("{}", TRACE)]), None, "{wrong}");
        }
        let valid = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(traced(&[&valid, &valid]), None, "given twice");
        assert_eq!(traced(&[]), None);
    }
}
