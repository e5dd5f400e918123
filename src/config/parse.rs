//! Functions from the text of a value to the value and back: `500KiB`, `10.0.0.0/8`, `2026-12-31`.
//! A duration or a size of zero is refused: it has no meaning in any setting.

use std::net::IpAddr;

use bytesize::ByteSize;
use http::StatusCode;
use ipnet::IpNet;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use crate::policy::exemption::OriginPattern;
use crate::types::origin::{Host, Origin, Scheme, split_url};
use crate::types::timestamp::{Timestamp, bare_number};
pub use crate::types::timestamp::{parse_delay, parse_duration, print_delay, print_duration};

/// Parses `64KiB`, in bytes. A number without unit is refused: "256" is written by who means MiB.
pub fn parse_size(text: &str) -> Result<u64, String> {
    if let Some(number) = bare_number(text) {
        return Err(format!(
            "\"{number}\" has no unit; write \"{number}MiB\", or \"{number}B\" for bytes"
        ));
    }
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("must be more than nothing".into()),
        Ok(ByteSize(bytes)) => Ok(bytes),
        Err(_) => Err(format!("\"{text}\" is not a size; write it as \"500KiB\" or \"256MiB\"")),
    }
}

/// Prints a size in the largest exact binary unit.
pub fn print_size(bytes: &u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// Parses a date (its end, UTC) or a date with time (RFC 3339).
pub fn parse_date(text: &str) -> Result<Timestamp, String> {
    let moment = match Date::parse(text, format_description!("[year]-[month]-[day]")) {
        Ok(day) => day.next_day().map(|next| next.midnight().assume_utc()),
        Err(_) => OffsetDateTime::parse(text, &Rfc3339).ok(),
    };
    moment
        .and_then(|moment| u64::try_from(moment.unix_timestamp_nanos() / 1_000_000).ok())
        .filter(|millis| *millis <= Timestamp::LAST.millis())
        .map(Timestamp::from_millis)
        .ok_or_else(|| {
            format!("\"{text}\" is not a date; write \"2026-12-31\" or \"2026-12-31T12:00:00Z\"")
        })
}

/// RFC 3339 in UTC.
pub fn print_date(moment: &Timestamp) -> String {
    match in_utc(moment).map(|date| date.format(&Rfc3339)) {
        Some(Ok(text)) => text,
        _ => format!("{} s after 1970", moment.millis() / 1000),
    }
}

/// RFC 3339 has no year after 9999, which is the last also where a zone is behind UTC.
fn in_utc(moment: &Timestamp) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(moment.millis()) * 1_000_000).ok()
}

/// Parses `https://example.com`.
pub fn parse_origin(text: &str) -> Result<Origin, String> {
    let (origin, rest) = split_url(text.as_bytes()).map_err(|error| error.to_string())?;
    match &*rest {
        b"/" => Ok(origin),
        _ => Err(format!("an origin ends after host and port: \"{origin}\"")),
    }
}

/// Parses a host name or an address.
pub fn parse_host(text: &str) -> Result<Host, String> {
    // A port would be ignored, against the intention of the setting.
    let has_port = text.contains(':') && !text.ends_with(']');
    match Origin::from_authority(Scheme::Https, text) {
        Ok(origin) if !has_port => Ok(origin.host().clone()),
        _ => Err(format!(
            "\"{text}\" is not a host; write \"example.com\" or \"192.0.2.7\", without a port"
        )),
    }
}

/// Parses an origin or `*.example.com`.
pub fn parse_origin_pattern(text: &str) -> Result<OriginPattern, String> {
    if text.starts_with("*.") {
        OriginPattern::parse(text).map_err(|error| error.to_string())
    } else {
        parse_origin(text).map(OriginPattern::Exact)
    }
}

/// The inverse of [`parse_origin_pattern`].
pub fn print_origin_pattern(pattern: &OriginPattern) -> String {
    match pattern {
        OriginPattern::Exact(origin) => origin.to_string(),
        OriginPattern::Below(parent) => format!("*.{parent}"),
    }
}

/// Parses `10.0.0.0/8`, or one address.
pub fn parse_block(text: &str) -> Result<IpNet, String> {
    let block = text.parse::<IpNet>().map(|block| block.trunc());
    block.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
        format!("\"{text}\" is not an address block; write it as \"10.0.0.0/8\" or \"192.0.2.7\"")
    })
}

/// Parses a status of 400 to 599.
pub fn parse_status(code: i64) -> Result<StatusCode, String> {
    match u16::try_from(code).map(StatusCode::from_u16) {
        Ok(Ok(status)) if status.is_client_error() || status.is_server_error() => Ok(status),
        _ => Err(format!("{code} is not the status of a refusal: 400 to 599")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back_the_same() {
        for text in ["1ms", "1500ms", "10s", "90s", "10m", "24h", "36h", "30d"] {
            assert_eq!(print_duration(&parse_duration(text).unwrap()), text);
        }
        for text in ["1B", "1500B", "500KiB", "256MiB", "2GiB"] {
            assert_eq!(print_size(&parse_size(text).unwrap()), text);
        }
        for date in ["2026-12-31T12:00:00Z", "2026-12-31T12:00:00.25Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(print_date(&parse_date(date).unwrap()), date);
        }
        for text in ["https://example.com", "*.example.com", "http://[::1]:8080"] {
            assert_eq!(print_origin_pattern(&parse_origin_pattern(text).unwrap()), text);
        }
    }

    /// Of every size and length of time alike; what is zero has no unit either.
    #[test]
    fn a_number_without_unit_is_refused_with_what_to_write() {
        for text in ["256", "0", "1.5", " 256 ", "268435456"] {
            let refusal = parse_size(text).unwrap_err();
            let trimmed = text.trim();
            let expected = format!(
                "\"{trimmed}\" has no unit; write \"{trimmed}MiB\", or \"{trimmed}B\" for bytes"
            );
            assert_eq!(refusal, expected);
        }
        for text in ["10", "0", " 10"] {
            let trimmed = text.trim();
            let expected =
                format!("\"{trimmed}\" has no unit; write \"{trimmed}s\" for seconds, or m, h, d");
            assert_eq!(parse_duration(text).unwrap_err(), expected);
            assert_eq!(parse_delay(text).unwrap_err(), expected);
        }
        assert_eq!(parse_size("256B"), Ok(256));
        assert!(parse_size("").unwrap_err().contains("is not a size"));
    }

    #[test]
    fn a_host_is_a_name_or_an_address_without_port() {
        for (text, host) in [
            ("Example.COM.", "example.com"),
            ("192.0.2.7", "192.0.2.7"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(parse_host(text).unwrap().to_string(), host);
        }
        for text in ["example.com:8443", "[::1]:443", "https://example.com", "", "a b"] {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_date_means_its_end() {
        assert_eq!(parse_date("2026-12-31"), parse_date("2027-01-01T00:00:00Z"));
    }

    #[test]
    fn what_could_not_be_printed_is_refused() {
        for text in ["1us", "1500us", "1s 1ns"] {
            assert!(
                parse_duration(text).unwrap_err().contains("finer than a millisecond"),
                "{text}"
            );
        }
        for text in ["9999-12-31T23:59:59-01:00", "9999-12-31", "1969-12-30"] {
            assert!(parse_date(text).unwrap_err().contains("is not a date"), "{text}");
        }
    }

    #[test]
    fn one_address_is_a_block_of_one() {
        assert_eq!(parse_block("192.0.2.7").unwrap().to_string(), "192.0.2.7/32");
        assert_eq!(parse_block("10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert!(parse_block("10.0.0.0/33").is_err());
    }
}
