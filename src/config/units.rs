//! Serde adapters for settings, for `#[serde(with = "units::…")]`: each reads and writes one type
//! by the functions of `values`, and checks its bounds.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serializer, de};

use super::values::{
    parse_block, parse_date, parse_delay, parse_duration, parse_host, parse_origin,
    parse_origin_pattern, parse_proxy, parse_size, parse_status, print_date, print_delay,
    print_duration, print_origin_pattern, print_size,
};
use crate::policy::exemption::OriginPattern;
use crate::types::origin::{Host, Origin};
use crate::types::timestamp::Timestamp;

/// A size as `usize`, saturating.
pub(super) fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

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
    /// A length of time, or none: `0s`.
    delay: Duration = parse_delay, print_delay;
    /// A number of bytes: `500KiB`, `64MB`.
    size: u64 = parse_size, print_size;
    /// A point in time: RFC 3339, or a date, which means its end (UTC).
    date: Timestamp = parse_date, print_date;
    /// An origin: `https://example.com`.
    origin: Origin = parse_origin, ToString::to_string;
    /// An origin, or `*.example.com` for all hosts below that name.
    origin_pattern: OriginPattern = parse_origin_pattern, print_origin_pattern;
}

macro_rules! option_unit {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $unit:ident;)+) => {$(
        $(#[$meta])*
        pub mod $name {
            use super::*;

            pub fn serialize<S: Serializer>(
                value: &Option<$type>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match value {
                    Some(value) => $unit::serialize(value, serializer),
                    None => serializer.serialize_none(),
                }
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<$type>, D::Error> {
                $unit::deserialize(deserializer).map(Some)
            }
        }
    )+};
}

option_unit! {
    /// As [`duration`], or absent.
    duration_option: Duration = duration;
    /// As [`delay`], or absent.
    delay_option: Duration = delay;
    /// As [`count`], or absent.
    count_option: usize = count;
    /// As [`status`], or absent.
    status_option: StatusCode = status;
}

/// A list of addresses to listen on.
pub mod listen {
    use super::*;

    pub fn serialize<S: Serializer>(
        addresses: &[SocketAddr],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(addresses)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<SocketAddr>, D::Error> {
        /// Parsed one by one, so that a diagnostic names the item.
        struct Address(SocketAddr);

        impl<'de> Deserialize<'de> for Address {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                parse_proxy(&text).map(Self).map_err(de::Error::custom)
            }
        }

        let addresses = Vec::<Address>::deserialize(deserializer)?;
        Ok(addresses.into_iter().map(|address| address.0).collect())
    }
}

/// A list of address blocks; one address is a block of one.
pub mod blocks {
    use super::*;

    pub fn serialize<S: Serializer>(blocks: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(blocks.iter().map(ToString::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts
            .iter()
            .map(|text| parse_block(text))
            .collect::<Result<_, _>>()
            .map_err(de::Error::custom)
    }
}

/// A list of hosts, names or addresses.
pub mod hosts {
    use super::*;

    pub fn serialize<S: Serializer>(hosts: &[Host], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(hosts.iter().map(ToString::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Host>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts
            .iter()
            .map(|text| parse_host(text))
            .collect::<Result<_, _>>()
            .map_err(de::Error::custom)
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

/// A whole number of at most 255.
pub mod few {
    use super::*;

    pub fn serialize<S: Serializer>(count: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*count)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        let number = i64::deserialize(deserializer)?;
        u8::try_from(number).map_err(|_| de::Error::custom("expected a whole number from 0 to 255"))
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

#[cfg(test)]
mod tests {
    use crate::config::rules::AgentRule;

    #[test]
    fn a_wait_of_an_agent_may_be_nothing() {
        let rule: AgentRule = toml::from_str("match = \"*\"\nmax_wait = \"0s\"").unwrap();
        assert_eq!(rule.max_wait, Some(std::time::Duration::ZERO));
        assert!(toml::to_string(&rule).unwrap().contains("max_wait = \"0s\""));
    }
}
