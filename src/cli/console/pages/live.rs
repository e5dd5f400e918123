//! Records as they are written, for a page that is open: server-sent events, each with a row. No state of a viewer is kept
//! but the number of the line that was sent last, so that a viewer that comes back misses none and sees none twice.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use http_body_util::channel::{Channel, SendError, Sender};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::records::{filter, table};
use super::view::Parameters;
use crate::admin::guard::Visitor;
use crate::audit::read::Filter;
use crate::cli::console::archive::{ConsoleArchive, MergedPage};
use crate::cli::console::reading::{Asked, By, Shared};
use crate::cli::console::respond::{bad, message};

/// How often the log is looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// Rows of one look: more cannot be read by people, and are left out with a word.
const ROWS_MAX: usize = 50;

/// Looks without a row after which a comment is sent, so that what stands between knows that the stream lives.
const SILENT_LOOKS_MAX: u32 = 30;

/// `GET /records/live?after=SEQ`, with the parameters of the list.
pub async fn stream(
    State(archive): Shared,
    Extension(visitor): By,
    headers: HeaderMap,
    Query(asked): Asked,
) -> Response {
    let mut parameters = Parameters::of(asked);
    let after = parameters.take("after");
    let _ = parameters.take("live");
    // A browser that connects again says what it had last.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let after = match last.or(after).map(|text| text.parse::<u64>()) {
        Some(Ok(after)) => after,
        _ => return bad("after: it is the number of a line"),
    };
    let filter = match filter(parameters.rest()) {
        Ok(filter) => filter,
        Err(why) => return bad(&why),
    };
    let Ok(place) = Arc::clone(&archive.streams).try_acquire_owned() else {
        let why = "As many pages as may are open to which new records are added. Load this one again to see them.";
        let mut busy = message(StatusCode::SERVICE_UNAVAILABLE, "Too many live pages", why);
        busy.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
        return busy;
    };
    let (sender, body) = Channel::new(1);
    tokio::spawn(async move {
        // An error: the viewer has left.
        let _ = follow(&archive, visitor, &headers, filter, after, sender).await;
        drop(place);
    });
    let kind = HeaderValue::from_static("text/event-stream");
    (StatusCode::OK, [(CONTENT_TYPE, kind)], Body::new(body)).into_response()
}

/// Until the viewer leaves, its session ends or the proxy stops.
async fn follow(
    archive: &Arc<ConsoleArchive>,
    visitor: Visitor,
    headers: &HeaderMap,
    filter: Filter,
    mut after: u64,
    mut sender: Sender<Bytes>,
) -> Result<(), SendError> {
    let filter = Arc::new(filter);
    let mut looks = interval(INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let role = visitor.role;
    let look = |filter: Arc<Filter>, after| {
        move |archive: &ConsoleArchive| archive.newer(role, &filter, after, ROWS_MAX)
    };
    let (mut silent, mut is_first) = (0, true);
    loop {
        looks.tick().await;
        if !archive.is_let_in(&visitor, headers) {
            return Ok(());
        }
        let look = look(Arc::clone(&filter), after);
        // From the line that the viewer names to the end of the log may be far, as for any search; from then on it is
        // what was written in the meantime.
        let looked = if is_first {
            let Some(looked) = archive.search(look).await else { continue };
            looked
        } else {
            let archive = Arc::clone(archive);
            let looked = tokio::task::spawn_blocking(move || look(&archive)).await;
            looked.unwrap_or_else(|error| Err(error.to_string()))
        };
        let Ok(page) = looked else { return Ok(()) };
        is_first = false;
        let text = events(&page);
        after = page.newest.unwrap_or(after).max(after);
        silent = if text.is_empty() { silent + 1 } else { 0 };
        if !text.is_empty() {
            sender.send_data(text.into()).await?;
        } else if silent >= SILENT_LOOKS_MAX {
            silent = 0;
            sender.send_data(Bytes::from_static(b":\n\n")).await?;
        }
    }
}

/// The rows, the oldest first, each with the number of its line, by which a viewer goes on.
fn events(page: &MergedPage) -> String {
    let rows = table(&page.lines, false).rows;
    let each = page.lines.iter().zip(rows).rev();
    let mut text = String::new();
    if page.is_cut || page.older.is_some() {
        text += "event: more\ndata: {}\n\n";
    }
    for (line, row) in each {
        let cells: Vec<_> =
            row.cells.iter().map(|it| json!({"text": it.text, "to": it.to})).collect();
        let data = json!({"cells": cells, "urgent": row.is_urgent});
        text += &format!("id: {}\ndata: {data}\n\n", line.seq);
    }
    text
}
