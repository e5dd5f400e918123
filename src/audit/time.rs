//! Times of a record: RFC 3339 in UTC with six decimal places, so that every time has one length
//! and texts sort as times do. The clock gives milliseconds; the rest are zeros.

use serde::{Deserialize, Deserializer, Serializer, de};
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, UtcDateTime};

use crate::moment::Moment;

/// `2026-11-20T21:17:00.123000Z`.
pub fn print(moment: Moment) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    // A clock beyond the year 9999 is broken; a record of it is better than none.
    let date = UtcDateTime::from_unix_timestamp_nanos(i128::from(moment.millis()) * 1_000_000)
        .unwrap_or(UtcDateTime::MAX);
    date.format(&format).expect("the format has no parts that a date lacks")
}

/// RFC 3339, of any zone and precision.
pub fn parse(text: &str) -> Option<Moment> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(date.unix_timestamp_nanos() / 1_000_000).ok().map(Moment::from_millis)
}

pub fn serialize<S: Serializer>(moment: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&print(*moment))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| de::Error::custom(format!("\"{text}\" is not a time")))
}

/// As above, or `null`.
pub mod option {
    use super::*;

    pub fn serialize<S: Serializer>(moment: &Option<Moment>, serializer: S) -> Result<S::Ok, S::Error> {
        match moment {
            Some(moment) => super::serialize(moment, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Moment>, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(None),
            Some(text) => match parse(&text) {
                Some(moment) => Ok(Some(moment)),
                None => Err(de::Error::custom(format!("\"{text}\" is not a time"))),
            },
        }
    }
}
