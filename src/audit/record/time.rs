//! Times of a record: RFC 3339 in UTC with six decimal places, so that every time has one length
//! and texts sort as times do. The clock gives milliseconds; the rest are zeros.

use std::time::{Duration, SystemTime};

use humantime::Rfc3339Timestamp;
use serde::{Deserialize, Deserializer, Serializer, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::types::timestamp::Timestamp;

/// `2026-11-20T21:17:00.123000Z`.
pub fn print(moment: Timestamp) -> String {
    shown(moment).to_string()
}

fn shown(moment: Timestamp) -> Rfc3339Timestamp {
    humantime::format_rfc3339_micros(
        SystemTime::UNIX_EPOCH + Duration::from_millis(moment.millis()),
    )
}

/// RFC 3339, of any zone and precision.
pub fn parse(text: &str) -> Option<Timestamp> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(date.unix_timestamp_nanos() / 1_000_000).ok().map(Timestamp::from_millis)
}

pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&shown(*moment))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| de::Error::custom(format!("\"{text}\" is not a time")))
}

/// As above, or `null`.
pub mod option {
    use super::*;

    pub fn serialize<S: Serializer>(
        moment: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match moment {
            Some(moment) => super::serialize(moment, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(None),
            Some(text) => match parse(&text) {
                Some(moment) => Ok(Some(moment)),
                None => Err(de::Error::custom(format!("\"{text}\" is not a time"))),
            },
        }
    }
}
