//! The words of a run, while it happens and at its end: one way of saying a thing.

use std::time::Duration;

use crate::audit::Reason;
use crate::cli::output::{human_duration, seconds};
use crate::pace::hold::Cause;
use crate::pace::{HoldBegun, WaitReason, Waited};

/// What a host asks for, or what else makes its requests wait.
pub fn slow_down(host: &str, why: Waited) -> String {
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
pub fn hold(host: &str, hold: HoldBegun) -> String {
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
pub fn why(why: Waited) -> String {
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
pub fn reason(reason: Reason) -> String {
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
