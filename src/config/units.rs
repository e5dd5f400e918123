//! Values as people write them: `10s`, `500KiB`, `10.0.0.0/8`, `2026-12-31`. Each unit is a pair of
//! functions, text to value and back, and a module of the same name for `#[serde(with = "…")]`.
//! A length of time, a size or a count of zero is refused: no setting of ours means anything by it.

use std::net::IpAddr;
use std::time::Duration;

use bytesize::ByteSize;
use http::StatusCode;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serializer, de};
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use crate::moment::Moment;
use crate::origin::{Origin, split_url};

macro_rules! unit {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $parse:path, $print:path;)+) => {$(
        $(#[$meta])*
        pub mod $name {
            use super::*;

            pub fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$print(value))
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                $parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }
    )+};
}

unit! {
    /// A length of time: `250ms`, `10s`, `24h`, `30d`.
    duration: Duration = parse_duration, print_duration;
    /// A number of octets: `500KiB`, `64MB`.
    size: u64 = parse_size, print_size;
    /// A point in time: RFC 3339, or a date, which means its end (UTC).
    date: Moment = parse_date, print_date;
    /// An origin: `https://example.com`.
    origin: Origin = parse_origin, ToString::to_string;
}

/// A list of address blocks; one address is a block of one.
pub mod blocks {
    use super::*;

    pub fn serialize<S: Serializer>(blocks: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(blocks.iter().map(ToString::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| parse_block(text)).collect::<Result<_, _>>().map_err(de::Error::custom)
    }
}

/// A whole number of at least one.
pub mod count {
    use super::*;

    pub fn serialize<S: Serializer>(count: &usize, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*count as u64)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
        match usize::try_from(i64::deserialize(deserializer)?) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(de::Error::custom("expected a whole number of at least 1")),
        }
    }
}

/// The status of a refusal: 400 to 599.
pub mod status {
    use super::*;

    pub fn serialize<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
        parse_status(i64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// As [`status`], or absent.
pub mod status_option {
    use super::*;

    pub fn serialize<S: Serializer>(status: &Option<StatusCode>, serializer: S) -> Result<S::Ok, S::Error> {
        match status {
            Some(status) => serializer.serialize_u16(status.as_u16()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StatusCode>, D::Error> {
        status::deserialize(deserializer).map(Some)
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(length) if length.is_zero() => Err("must be longer than nothing".into()),
        Ok(length) => Ok(length),
        Err(_) => Err(format!("\"{text}\" is not a length of time; write it as \"10s\", \"5m\" or \"24h\"")),
    }
}

/// In the largest unit that says it exactly, as `duration` would be written by hand.
pub fn print_duration(length: &Duration) -> String {
    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let millis = length.as_millis();
    // A day is 24h, as in the RFC; from two days on people count in days.
    let exact =
        UNITS.iter().find(|(unit, name)| millis.is_multiple_of(*unit) && (*name != "d" || millis / unit > 1));
    match exact {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("must be more than nothing".into()),
        Ok(ByteSize(octets)) => Ok(octets),
        Err(_) => Err(format!("\"{text}\" is not a size; write it as \"500KiB\" or \"256MiB\"")),
    }
}

/// In the largest binary unit that says it exactly.
pub fn print_size(octets: &u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| octets.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", octets / unit),
        None => format!("{octets}B"),
    }
}

fn parse_date(text: &str) -> Result<Moment, String> {
    let moment = match Date::parse(text, format_description!("[year]-[month]-[day]")) {
        Ok(day) => day.next_day().map(|next| next.midnight().assume_utc()),
        Err(_) => OffsetDateTime::parse(text, &Rfc3339).ok(),
    };
    moment
        .and_then(|moment| u64::try_from(moment.unix_timestamp_nanos() / 1_000_000).ok())
        .map(Moment::from_millis)
        .ok_or_else(|| format!("\"{text}\" is not a date; write \"2026-12-31\" or \"2026-12-31T12:00:00Z\""))
}

/// RFC 3339 in UTC.
pub fn print_date(moment: &Moment) -> String {
    let seconds = i64::try_from(moment.millis() / 1000).unwrap_or(i64::MAX);
    match OffsetDateTime::from_unix_timestamp(seconds).map(|date| date.format(&Rfc3339)) {
        Ok(Ok(text)) => text,
        _ => format!("{seconds} s after 1970"),
    }
}

fn parse_origin(text: &str) -> Result<Origin, String> {
    let (origin, rest) = split_url(text.as_bytes()).map_err(|error| error.to_string())?;
    match &*rest {
        b"/" => Ok(origin),
        _ => Err(format!("an origin ends after host and port: \"{origin}\"")),
    }
}

fn parse_block(text: &str) -> Result<IpNet, String> {
    let block = text.parse::<IpNet>().map(|block| block.trunc());
    block.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
        format!("\"{text}\" is not an address block; write it as \"10.0.0.0/8\" or \"192.0.2.7\"")
    })
}

fn parse_status(code: i64) -> Result<StatusCode, String> {
    match u16::try_from(code).map(StatusCode::from_u16) {
        Ok(Ok(status)) if status.is_client_error() || status.is_server_error() => Ok(status),
        _ => Err(format!("{code} is not the status of a refusal: 400 to 599")),
    }
}
