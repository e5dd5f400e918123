//! What a run says on standard error while its command runs: whole lines, never rewritten, since the
//! terminal is the command's own. What is new is said at once, what goes on seldom. A thread of its
//! own writes, so that no request waits for a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::summary::{self, Form};
use crate::audit::{Event, print_time};
use crate::cli::output::Paint;
use crate::pace::{WaitReason, Waited};
use crate::proxy::{DecisionEvent, DenialEvent, MissingFile, Progress, RunEvent, RunObserver};
use crate::runtime::clock::{Clock, SystemClock, monotonic};

/// Events that wait to be said; of what is beyond them the summary tells.
const EVENTS_MAX: usize = 1024;

/// A slow-down is said so much later, when it is known how many wait.
const SLOW_DOWN_DELAY: Duration = Duration::from_millis(200);
/// One that the site does not ask for is said only if something waits still after this.
const BUSY_DELAY: Duration = Duration::from_secs(1);

/// How often it is looked whether something waits, for the line of progress.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A time without waits that ends the account of one.
const QUIET: Duration = Duration::from_secs(5);

/// When there is a line of progress: for those who watch a terminal, always, or never.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgressWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// How a run speaks.
#[derive(Clone, Debug)]
pub struct Manner {
    pub form: Form,
    pub is_quiet: bool,
    pub is_verbose: bool,
    pub progress: ProgressWhen,
    /// The flags with which `courtesy audit` finds the records.
    pub flags: String,
}

/// The voice of a run, and what observes it.
#[derive(Debug)]
pub struct Live {
    pub observer: Arc<RunObserver>,
    events: Option<SyncSender<RunEvent>>,
    thread: Option<JoinHandle<()>>,
}

/// The channel of events to say; `None` where none is said.
pub type Channel = Option<(SyncSender<RunEvent>, Receiver<RunEvent>)>;

impl Manner {
    /// The channel for it.
    pub fn channel(&self) -> Channel {
        (!self.is_quiet).then(|| sync_channel(EVENTS_MAX))
    }

    fn has_progress(&self) -> bool {
        match self.progress {
            ProgressWhen::Auto => stderr().is_terminal(),
            ProgressWhen::Always => true,
            ProgressWhen::Never => false,
        }
    }
}

impl Live {
    /// Begins to speak.
    pub fn begin(manner: Manner, channel: Channel, missing: MissingFile) -> std::io::Result<Self> {
        let (events, receiver) = channel.unzip();
        let observer = Arc::new(RunObserver::new(missing, events.clone()));
        let thread = receiver.map(|receiver| {
            let observer = Arc::clone(&observer);
            let speak = move || Speaker::new(manner, observer).speak(&receiver);
            std::thread::Builder::new().name("run account".into()).spawn(speak)
        });
        Ok(Self { observer, events, thread: thread.transpose()? })
    }

    /// Where events to say go.
    pub fn events(&self) -> Option<SyncSender<RunEvent>> {
        self.events.clone()
    }

    /// Says what is left to be said.
    pub fn end(&mut self) {
        if let Some(events) = self.events.take() {
            let _ = events.send(RunEvent::Ended);
        }
        if let Some(thread) = self.thread.take() {
            // A panic was logged.
            let _ = thread.join();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

/// When the next line of progress is due: after 10 s, 20 s and 40 s in which something waits, then
/// each minute.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    since: Option<Instant>,
    /// When something was last seen to wait.
    seen: Option<Instant>,
    lines: u32,
}

impl Schedule {
    fn is_due(&mut self, now: Instant, waits: bool) -> bool {
        if waits {
            self.seen = Some(now);
            self.since.get_or_insert(now);
        } else if self.seen.is_some_and(|seen| now - seen > QUIET) {
            *self = Self::default();
        }
        let due = match self.lines {
            lines @ 0..3 => 10 << lines,
            lines => 40 + 60 * u64::from(lines - 2),
        };
        let is_due = waits && self.since.is_some_and(|it| now - it >= Duration::from_secs(due));
        self.lines += u32::from(is_due);
        is_due
    }
}

/// Says events, and the progress.
struct Speaker {
    manner: Manner,
    has_progress: bool,
    observer: Arc<RunObserver>,
    paint: Paint,
    schedule: Schedule,
    looked: Instant,
    /// Slow-downs that are to be said.
    slow_downs: Vec<(Instant, String, Waited)>,
}

impl Speaker {
    fn new(manner: Manner, observer: Arc<RunObserver>) -> Self {
        Self {
            has_progress: manner.has_progress(),
            paint: Paint::for_stderr(),
            manner,
            observer,
            schedule: Schedule::default(),
            looked: monotonic(),
            slow_downs: Vec::new(),
        }
    }

    fn speak(mut self, events: &Receiver<RunEvent>) {
        loop {
            let now = monotonic();
            let next = self.slow_downs.iter().map(|(due, ..)| *due);
            let next = next.chain(self.has_progress.then(|| self.looked + LOOK_INTERVAL)).min();
            let timeout = next.map_or(Duration::from_hours(1), |next| next - now.min(next));
            match events.recv_timeout(timeout) {
                Ok(RunEvent::Ended) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(event) => self.hear(event, monotonic()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look(monotonic());
        }
        for (_, host, why) in std::mem::take(&mut self.slow_downs) {
            self.say_slow_down(&host, why, true);
        }
    }

    fn hear(&mut self, event: RunEvent, now: Instant) {
        match event {
            RunEvent::SlowDown { host, why } => {
                let is_asked = is_of_site(why.by);
                let delay = if is_asked { SLOW_DOWN_DELAY } else { BUSY_DELAY };
                self.slow_downs.push((now + delay, host, why));
            }
            // Each decision has its own line, denials among them.
            RunEvent::Denied(_) if self.manner.is_verbose => {}
            event => self.say(&event),
        }
    }

    fn look(&mut self, now: Instant) {
        let (due, later) =
            std::mem::take(&mut self.slow_downs).into_iter().partition(|(due, ..)| *due <= now);
        self.slow_downs = later;
        let due: Vec<(Instant, String, Waited)> = due;
        for (_, host, why) in due {
            self.say_slow_down(&host, why, false);
        }
        if self.has_progress && now >= self.looked + LOOK_INTERVAL {
            self.looked = now;
            let progress = self.observer.progress();
            if self.schedule.is_due(now, !progress.waiting.is_empty()) {
                self.say_progress(&progress);
            }
        }
    }

    fn say_slow_down(&self, host: &str, why: Waited, is_end: bool) {
        let waiting = self.observer.waiting_at(host);
        if !is_of_site(why.by) && (waiting == 0 || is_end) {
            return;
        }
        match self.manner.form {
            Form::Json => print_json(slow_down_json(host, why, waiting)),
            _ => self.print(Paint::doubtful, &slow_down(host, why, waiting)),
        }
    }

    fn say_progress(&self, progress: &Progress) {
        match self.manner.form {
            Form::Json => print_json(progress_json(progress)),
            _ => self.print(Paint::faint, &progress_text(progress)),
        }
    }

    fn say(&self, event: &RunEvent) {
        if matches!(self.manner.form, Form::Json) {
            return print_json(event_json(event));
        }
        let text = match event {
            RunEvent::Hold { host, hold } => summary::hold_words(host, *hold),
            RunEvent::Denied(denial) => denial_text(denial, &self.manner.flags),
            RunEvent::Bypass { program, process, address } => format!(
                "{program} (pid {process}) went around the proxy to {address}; run --sealed lets \
                 nothing around"
            ),
            RunEvent::Decision(decision) => decision_text(decision, &self.manner.flags),
            RunEvent::SlowDown { .. } | RunEvent::Ended => return,
        };
        let paint = match event {
            RunEvent::Denied(_) => Paint::bad,
            RunEvent::Decision(_) => Paint::faint,
            _ => Paint::doubtful,
        };
        self.print(paint, &text);
    }

    fn print<'a>(&self, paint: fn(Paint, &'a str) -> String, text: &str) {
        print_line(&format!("{} {text}\n", paint(self.paint, "courtesy:")));
    }
}

/// One write, so that a line of the command's is not in it.
fn print_line(line: &str) {
    // Standard error may be closed.
    let _ = stderr().lock().write_all(line.as_bytes());
}

fn print_json(mut event: Value) {
    event["time"] = json!(print_time(SystemClock.wall()));
    print_line(&format!("{event}\n"));
}

/// Whether the site asks for it, or its operator for all of its requests.
const fn is_of_site(by: WaitReason) -> bool {
    !matches!(by, WaitReason::Concurrency | WaitReason::Adapt | WaitReason::Share)
}

fn slow_down(host: &str, why: Waited, waiting: usize) -> String {
    let text = summary::slow_down_words(host, why);
    match waiting {
        0 => text,
        1 => format!("{text}; 1 waits"),
        _ => format!("{text}; {waiting} wait"),
    }
}

fn denial_text(denial: &DenialEvent, flags: &str) -> String {
    let DenialEvent { event, url, agent, rule, record } = denial;
    let agent = agent.as_deref().unwrap_or("a client without a product token");
    let verb = match event {
        Event::WouldDeny => "would be denied",
        _ => "denied",
    };
    let (why, more) = match &rule.rule {
        Some((line, text)) => (format!("line {line}, \"{text}\""), "rule"),
        None => (summary::reason_words(rule.reason), "reason"),
    };
    format!(
        "{url} {verb} to {agent}: {why} (courtesy audit show {record}{flags}); more of this {more} are counted"
    )
}

fn progress_text(progress: &Progress) -> String {
    let Progress { done, denied, waiting } = progress;
    let mut parts = vec![format!("{done} done")];
    if let Some((host, count, last)) = waiting.first() {
        let wait = if *count == 1 { "waits" } else { "wait" };
        let last = summary::about(*last);
        let more = match &waiting[1..] {
            [] => String::new(),
            others => {
                let count: usize = others.iter().map(|(_, count, _)| count).sum();
                let hosts = summary::plural(others.len() as u64, "other host");
                format!(", and {count} for {hosts}")
            }
        };
        parts.push(format!("{count} {wait} for {host}, the last about {last}{more}"));
    }
    parts.extend((*denied > 0).then(|| format!("{denied} denied")));
    parts.join(" · ")
}

fn decision_text(decision: &DecisionEvent, flags: &str) -> String {
    let DecisionEvent { method, url, status, outcome, reason, line, rule, record, .. } = decision;
    let outcome = match outcome.as_str() {
        "allow" => "allowed",
        "deny" => "denied",
        "would_deny" => "allowed, would be denied",
        "exempted" => "allowed by an exemption",
        "tunnelled" => "tunnelled",
        "delay" => "too early",
        "" => "not decided",
        other => other,
    };
    let mut text = format!("{method} {url} {outcome}");
    match line {
        Some(line) => text.push_str(&format!(" (line {line}, \"{rule}\")")),
        None if reason.is_empty() => {}
        None => text.push_str(&format!(" ({})", reason.replace('_', " "))),
    }
    if let Some(millis) = decision.wait_ms {
        let waited = summary::about(Duration::from_micros((millis * 1e3) as u64));
        text.push_str(&format!(", held {waited} ({})", decision.by.replace('_', " ")));
    }
    text.push_str(&format!(": {status}"));
    if !decision.error.is_empty() && outcome != "denied" {
        text.push_str(&format!(" {}", decision.error.replace('_', " ")));
    }
    if !record.is_empty() {
        text.push_str(&format!(" (courtesy audit show {record}{flags})"));
    }
    text
}

fn slow_down_json(host: &str, why: Waited, waiting: usize) -> Value {
    json!({
        "event": "slow_down", "host": host, "by": why.by, "delay_ms": summary::millis(why.delay),
        "line": why.line, "waiting": waiting,
    })
}

fn progress_json(progress: &Progress) -> Value {
    let waiting = progress.waiting.iter().map(|(host, count, last)| {
        json!({ "host": host, "requests": count, "last_ms": summary::millis(*last) })
    });
    json!({
        "event": "progress", "done": progress.done, "denied": progress.denied,
        "waiting": waiting.collect::<Vec<_>>(),
    })
}

fn event_json(event: &RunEvent) -> Value {
    match event {
        RunEvent::Hold { host, hold } => json!({
            "event": "hold", "host": host, "status": hold.status, "by": hold.cause.as_str(),
            "ms": summary::millis(hold.length),
        }),
        RunEvent::Denied(denial) => json!({
            "event": denial.event.word(), "url": denial.url, "agent": denial.agent,
            "reason": denial.rule.reason.word(),
            "line": denial.rule.rule.as_ref().map(|(line, _)| line),
            "rule": denial.rule.rule.as_ref().map(|(_, text)| text), "record": denial.record,
        }),
        RunEvent::Bypass { program, process, address } => json!({
            "event": "bypass", "program": program, "pid": process, "address": address,
        }),
        RunEvent::Decision(decision) => json!({
            "event": "decision", "method": decision.method, "url": decision.url,
            "status": decision.status, "outcome": decision.outcome, "reason": decision.reason,
            "line": decision.line, "rule": decision.rule, "record": decision.record,
            "wait_ms": decision.wait_ms, "by": decision.by, "error": decision.error,
        }),
        RunEvent::SlowDown { .. } | RunEvent::Ended => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Reason;
    use crate::pace::HoldBegun;
    use crate::pace::hold::Cause;
    use crate::proxy::RuleKey;

    fn asks(seconds: u64) -> Waited {
        let (time, delay) = (Duration::from_secs(3), Duration::from_secs(seconds));
        Waited { time, by: WaitReason::CrawlDelay, line: Some(2), delay }
    }

    #[test]
    fn what_is_new_is_one_line_that_says_why() {
        assert_eq!(
            slow_down("slow.test", asks(1), 15),
            "slow.test asks for 1 s between requests (Crawl-delay: 1, line 2 of its robots.txt); 15 wait"
        );
        assert_eq!(
            slow_down("hour.test", asks(3600), 0),
            "hour.test asks for 1 h between requests (Crawl-delay: 3600, line 2 of its robots.txt)"
        );
        let length = Duration::from_millis(29_998);
        let hold = HoldBegun { length, status: 429, cause: Cause::RetryAfter };
        assert_eq!(
            summary::hold_words("tired.test", hold),
            "tired.test asks to be left alone for 30 s (429, Retry-After: 30)"
        );
        let rule = Some((2, "Disallow: /private/".to_owned()));
        let mut denial = DenialEvent {
            event: Event::Denied,
            url: "shop.test/private/1".into(),
            agent: Some("ExampleBot".into()),
            rule: RuleKey { reason: Reason::DisallowRule, rule },
            record: "01K".into(),
        };
        assert_eq!(
            denial_text(&denial, ""),
            "shop.test/private/1 denied to ExampleBot: line 2, \"Disallow: /private/\" (courtesy audit \
             show 01K); more of this rule are counted"
        );
        denial.rule = RuleKey { reason: Reason::RobotsUnreachable, rule: None };
        denial.event = Event::WouldDeny;
        assert_eq!(
            denial_text(&denial, " --state-dir /s"),
            "shop.test/private/1 would be denied to ExampleBot: robots.txt unreachable (courtesy audit \
             show 01K --state-dir /s); more of this reason are counted"
        );
    }

    #[test]
    fn progress_names_the_host_where_most_wait() {
        let host =
            |name: &str, count, seconds| (name.to_owned(), count, Duration::from_secs(seconds));
        let waiting = vec![host("slow.test", 16, 16)];
        let mut progress = Progress { done: 43, denied: 9, waiting };
        let expected = "43 done · 16 wait for slow.test, the last about 16 s · 9 denied";
        assert_eq!(progress_text(&progress), expected);
        progress.waiting.extend([host("b.test", 3, 9), host("c.test", 2, 1)]);
        progress.denied = 0;
        let expected =
            "43 done · 16 wait for slow.test, the last about 16 s, and 5 for 2 other hosts";
        assert_eq!(progress_text(&progress), expected);
    }

    #[test]
    fn a_decision_is_one_short_line() {
        let mut decision = DecisionEvent {
            method: "GET".into(),
            url: "a.test/x".into(),
            status: 200,
            outcome: "allow".into(),
            reason: "no_rule".into(),
            wait_ms: Some(3200.4),
            by: "crawl_delay".into(),
            ..DecisionEvent::default()
        };
        let expected = "GET a.test/x allowed (no rule), held 3 s (crawl delay): 200";
        assert_eq!(decision_text(&decision, ""), expected);
        decision = DecisionEvent {
            status: 403,
            outcome: "deny".into(),
            line: Some(2),
            rule: "Disallow: /x".into(),
            record: "01K".into(),
            wait_ms: None,
            ..decision
        };
        let expected =
            "GET a.test/x denied (line 2, \"Disallow: /x\"): 403 (courtesy audit show 01K)";
        assert_eq!(decision_text(&decision, ""), expected);
    }

    /// A scripted five minutes: something waits from the second on, with a short gap, until it ends.
    #[test]
    fn progress_is_due_after_10_20_and_40_seconds_then_each_minute() {
        let start = monotonic();
        let mut schedule = Schedule::default();
        let mut lines = |seconds: std::ops::Range<u64>, waits: fn(u64) -> bool| -> Vec<u64> {
            let is_due = |second: &u64| {
                schedule.is_due(start + Duration::from_secs(*second), waits(*second))
            };
            seconds.filter(is_due).collect()
        };
        assert_eq!(lines(0..230, |second| second != 20 && second > 0), [11, 21, 41, 101, 161, 221]);
        assert!(lines(230..300, |_| false).is_empty(), "nothing waits");
        assert_eq!(lines(300..312, |_| true), [310], "it begins anew");
    }
}
