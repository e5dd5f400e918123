//! Log lines, to standard error. Colour is for terminals only, and not where NO_COLOR is set.

use std::io::{IsTerminal, stderr};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::environment;
use crate::config::{Log, LogFormat, LogLevel};

/// Starts logging for the whole process; a second call changes nothing.
pub fn init(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // What libraries say below a warning is about their insides.
    let targets = Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("courtesy", level);
    let lines = match log.format {
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(stderr).boxed(),
        LogFormat::Text => {
            let colour = stderr().is_terminal() && !environment::is_set("NO_COLOR");
            fmt::layer().with_ansi(colour).with_target(false).with_writer(stderr).boxed()
        }
    };
    // A failure means that somebody has started logging before us, as tests do.
    let _ = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
}
