//! Reports for pages: where one is still being made, the page that shows how far that has come.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::archive::{ConsoleArchive, ReportAsked, ReportRead};
use super::jobs::Reading;
use super::pages::view::Frame;
use super::respond::{bad, busy, message, reading};
use crate::admin::guard::Visitor;
use crate::audit::read::report::Report;

/// The logs, for a page.
pub type Shared = State<Arc<ConsoleArchive>>;

/// Who asks.
pub type By = Extension<Visitor>;

/// The parameters of an address, in their order.
pub type Asked = Query<Vec<(String, String)>>;

/// The report, or the page that is shown while it is made.
pub fn report_of(
    archive: &ConsoleArchive,
    asked: &ReportAsked,
) -> Result<Arc<ReportRead>, Box<Response>> {
    match archive.report(asked) {
        Reading::Done(done) => match &done.report {
            Ok(_) => {
                Frame::remark(&done.remarks);
                Ok(done)
            }
            Err(why) => Err(message(StatusCode::OK, "The log cannot be read", why).into()),
        },
        Reading::UnderWay(percent) => Err(reading(percent).into()),
        Reading::Busy => Err(busy().into()),
    }
}

/// Runs `make` with the report, or shows that it is being made.
pub fn with_report(
    archive: &ConsoleArchive,
    asked: &ReportAsked,
    make: impl FnOnce(&Report) -> Response,
) -> Response {
    match report_of(archive, asked) {
        Ok(done) => match &done.report {
            Ok(report) => make(report),
            Err(why) => bad(why),
        },
        Err(response) => *response,
    }
}
