//! A capture in words: the requested URLs, the responses, the addresses.

use super::file::trouble;
use crate::audit::evidence::{CaptureRecord, Found};
use crate::audit::print_time;
use crate::cli::audit::table::printable;
use crate::cli::paint::Paint;
use crate::types::timestamp::Timestamp;

/// The capture of a fetch as text, under `title`: requests, responses, addresses, times.
pub fn of(title: &str, found: &Found, paint: Paint) -> String {
    let bytes = match found {
        Found::Content(bytes) => bytes,
        Found::Missing => return trouble(&format!("{title}: missing from the evidence"), paint),
        Found::Damaged(why) => {
            return trouble(&format!("{title}: damaged in the evidence: {why}"), paint);
        }
    };
    match serde_json::from_slice::<CaptureRecord>(bytes) {
        Ok(capture) => format!("\n{}\n{}", paint.strong(title), describe(&capture, paint)),
        Err(error) => trouble(&format!("{title}: the evidence is no capture: {error}"), paint),
    }
}

fn describe(capture: &CaptureRecord, paint: Paint) -> String {
    let when = print_time(Timestamp::from_millis(capture.fetched_at));
    let asked_as = capture.user_agent.as_deref().map(|name| format!(" as {}", printable(name)));
    let asked_as = asked_as.unwrap_or_default();
    let mut text = format!("  {} was asked{asked_as}; done {when}\n", printable(&capture.asked));
    for answer in &capture.answers {
        let peer = answer.peer.map(|peer| format!(" by {peer}")).unwrap_or_default();
        text.push_str(&format!("  {} answered {}{peer}\n", printable(&answer.url), answer.status));
        for line in answer.head.lines() {
            text.push_str(&format!("    {}\n", paint.faint(printable(line))));
        }
    }
    if let Some(body) = &capture.body {
        let cut = if body.cut { ", cut at the size limit" } else { "" };
        text.push_str(&format!("  {} bytes{cut}\n", body.bytes));
    }
    if let Some(failure) = &capture.failure {
        text.push_str(&format!(
            "  {}: {}\n",
            paint.bad(printable(&failure.word)),
            printable(&failure.text)
        ));
    }
    text
}
