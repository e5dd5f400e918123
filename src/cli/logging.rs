//! Log lines, to standard error. Colour is for terminals only, and not where NO_COLOR is set.

use std::io::{IsTerminal, stderr};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use super::environment;
use crate::config::{Log, LogFormat, LogLevel};
use crate::proxy::ACCESS;

/// The level of the process's log, which can be changed.
pub struct Level(reload::Handle<Targets, Registry>);

impl Level {
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
    ours.with_default(level.min(LevelFilter::WARN))
}

/// Starts logging for the whole process; a second call changes nothing, and has no say either.
pub fn init(log: &Log) -> Option<Level> {
    let (targets, handle) = reload::Layer::new(targets(log.level));
    let lines = match log.format {
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(stderr).boxed(),
        LogFormat::Text => {
            let colour = stderr().is_terminal() && !environment::is_set("NO_COLOR");
            fmt::layer().with_ansi(colour).with_target(false).with_writer(stderr).boxed()
        }
    };
    // A failure means that somebody has started logging before us, as tests do.
    let begun = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
    begun.is_ok().then_some(Level(handle))
}
