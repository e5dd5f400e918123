//! Log lines, to standard error. Colour is for terminals only, and not where NO_COLOR is set. And the
//! decisions of a run, which it says itself.

use std::fmt::Debug;
use std::io::{self, IsTerminal, Write, stderr};
use std::sync::mpsc::SyncSender;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use super::output::may_paint;
use crate::config::{Log, LogFormat, LogLevel};
use crate::proxy::{ACCESS, DECISION_LOG, DecisionEvent, EACH_DECISION, RunEvent};

/// The level of the process's log, which can be changed.
pub struct Level(reload::Handle<Targets, Registry>);

impl Level {
    /// Logs from `level` on.
    pub fn change(&self, level: LogLevel) {
        // The log is there as long as the process.
        let _ = self.0.reload(targets(level));
    }
}

/// What is logged at a level. What libraries say below a warning is about their insides; the lines of
/// the access log are many, and have a level of their own.
fn targets(level: LogLevel) -> Targets {
    let (level, access) = match level {
        LogLevel::Error => (LevelFilter::ERROR, LevelFilter::OFF),
        LogLevel::Warn => (LevelFilter::WARN, LevelFilter::OFF),
        LogLevel::Info => (LevelFilter::INFO, LevelFilter::OFF),
        LogLevel::Access => (LevelFilter::INFO, LevelFilter::INFO),
        LogLevel::Debug => (LevelFilter::DEBUG, LevelFilter::INFO),
        LogLevel::Trace => (LevelFilter::TRACE, LevelFilter::INFO),
    };
    let ours = Targets::new().with_target("courtesy", level).with_target(ACCESS, access);
    let ours = ours.with_target(EACH_DECISION, access);
    ours.with_default(level.min(LevelFilter::WARN))
}

/// Starts logging for the whole process; a second call changes nothing, and has no say either.
pub fn init(log: &Log) -> Option<Level> {
    begin(log.format, targets(log.level), None)
}

/// The same without lines for decisions: each is sent to `decisions`.
pub fn init_with_decisions(log: &Log, decisions: SyncSender<RunEvent>) -> Option<Level> {
    let targets = targets(log.level).with_target(DECISION_LOG, LevelFilter::WARN);
    begin(log.format, targets.with_target(ACCESS, LevelFilter::OFF), Some(Decisions(decisions)))
}

fn begin(format: LogFormat, targets: Targets, decisions: Option<Decisions>) -> Option<Level> {
    let (targets, handle) = reload::Layer::new(targets);
    let lines = match format {
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(stderr).boxed(),
        LogFormat::Text => {
            let colour = stderr().is_terminal() && may_paint();
            fmt::layer()
                .with_ansi(colour)
                .with_target(false)
                .with_writer(|| OneLine(stderr()))
                .boxed()
        }
    };
    // A failure means that logging has been started before, as tests do.
    let registry = tracing_subscriber::registry().with(lines.with_filter(targets));
    let begun = match decisions {
        Some(decisions) => {
            let access = Targets::new().with_target(ACCESS, LevelFilter::INFO);
            registry.with(decisions.with_filter(access)).try_init()
        }
        // A layer that is none would switch `enabled!` off.
        None => registry.try_init(),
    };
    begun.is_ok().then_some(Level(handle))
}

/// Sends the decisions in the lines of the access log; none, where too many wait to be said.
struct Decisions(SyncSender<RunEvent>);

impl<S: Subscriber> Layer<S> for Decisions {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = AccessLine::default();
        event.record(&mut line);
        let AccessLine { mut decision, host, port, path } = line;
        decision.url = match port {
            80 | 443 => format!("{host}{path}"),
            port => format!("{host}:{port}{path}"),
        };
        let _ = self.0.try_send(RunEvent::Decision(Box::new(decision)));
    }
}

/// What a line of the access log says.
#[derive(Default)]
struct AccessLine {
    decision: DecisionEvent,
    host: String,
    port: u64,
    path: String,
}

impl Visit for AccessLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        let to = match field.name() {
            "http.request.method" => &mut self.decision.method,
            "server.address" => &mut self.host,
            "url.path" => &mut self.path,
            "robots.decision" => &mut self.decision.outcome,
            "robots.reason" => &mut self.decision.reason,
            "robots.rule.text" => &mut self.decision.rule,
            "decision.id" => &mut self.decision.record,
            "politeness.by" => &mut self.decision.by,
            "error.type" => &mut self.decision.error,
            _ => return,
        };
        value.clone_into(to);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "server.port" => self.port = value,
            "http.response.status_code" => self.decision.status = value,
            "robots.rule.line" => self.decision.line = Some(value),
            _ => {}
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "politeness.wait_ms" {
            self.decision.wait_ms = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Writes each event as one line, so that a journal has one entry of it: the lines of a longer message, such as
/// all faults of a configuration, are joined by ` | `.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Takes a whole event, which is how they come.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.trim_ascii_end();
        if !text.contains(&b'\n') {
            return self.0.write_all(event).map(|()| event.len());
        }
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        self.0.write_all(&[&lines.join(&b" | "[..]), &b"\n"[..]].concat()).map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        for (event, expected) in [
            ("a b\n", "a b\n"),
            ("cannot be used\n  a:3: x\n  a:4: y\n", "cannot be used | a:3: x | a:4: y\n"),
            ("a\r\n\n  |\nb\n", "a | | | b\n"),
        ] {
            let mut written = Vec::new();
            OneLine(&mut written).write_all(event.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
