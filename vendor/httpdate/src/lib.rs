//! HTTP dates (RFC 9110 §5.6.7), with the names that hyper uses. A date that HTTP cannot write, before
//! 1970 or after 9999, is the one at that end.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// 9999-12-31T23:59:59Z, in seconds since 1970.
const LAST: u64 = 253_402_300_799;

/// The form that is written.
const IMF_FIXDATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);

/// Of C's asctime; the day is padded with a blank.
const ASCTIME: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
);

/// Of RFC 850, without the name of the day and with a whole year.
const RFC_850: &[BorrowedFormatItem<'_>] =
    format_description!("[day]-[month repr:short]-[year] [hour]:[minute]:[second] GMT");

/// A date in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpDate {
    /// Since 1970.
    seconds: u64,
}

/// The text is no HTTP date.
#[derive(Debug)]
pub struct Error(());

impl From<SystemTime> for HttpDate {
    fn from(date: SystemTime) -> Self {
        let seconds = date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { seconds: seconds.min(LAST) }
    }
}

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.seconds).map_err(|_| fmt::Error)?;
        let date = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| fmt::Error)?;
        f.write_str(&date.format(IMF_FIXDATE).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no HTTP date")
    }
}

impl std::error::Error for Error {}

/// The date as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn fmt_http_date(date: SystemTime) -> String {
    HttpDate::from(date).to_string()
}

/// Reads a date in each of its three forms.
///
/// # Errors
///
/// It has none of them, or is before 1970.
pub fn parse_http_date(text: &str) -> Result<SystemTime, Error> {
    let parse = |text: &str, form| PrimitiveDateTime::parse(text, form).ok();
    let date = parse(text, IMF_FIXDATE)
        .or_else(|| parse(text, ASCTIME))
        .or_else(|| parse(&with_whole_year(text)?, RFC_850))
        .ok_or(Error(()))?;
    let seconds = u64::try_from(date.assume_utc().unix_timestamp()).map_err(|_| Error(()))?;
    Ok(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// `06-Nov-1994 08:49:37 GMT` of `Sunday, 06-Nov-94 08:49:37 GMT`. Years below 70 are those of this
/// century.
fn with_whole_year(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("day, ")?;
    let (date, time) = rest.split_once(' ')?;
    let (day, year) = date.rsplit_once('-')?;
    let number: u8 = year.parse().ok().filter(|_| year.len() == 2)?;
    let century = if number < 70 { 20 } else { 19 };
    Some(format!("{day}-{century}{year} {time}"))
}
