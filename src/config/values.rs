//! Types of single settings that have a word beside their values, such as `off` or `unlimited`, and
//! `FromStr` for types of other modules.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use super::address::parse_admin;
use super::parse::{parse_duration, parse_size, print_duration, print_size};
use crate::egress::AddressBlock;
use crate::proxy::Protocol;
use crate::types::agent::Token;
use crate::types::origin::HostPattern;
use crate::types::origin::host::Glob;
use crate::types::words::serde_as_text;

/// The address of the admin listener, or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    Off,
    At(SocketAddr),
}

impl AdminAddress {
    /// The address; `None` if the listener is off.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

/// A retention time; `None`: forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retain(pub Option<Duration>);

/// The bytes of the log and its evidence; `None`: unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainSize(pub Option<u64>);

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            _ => {
                parse_admin(text).map(Self::At).map_err(|problem| format!("{problem}, or \"off\""))
            }
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl FromStr for Retain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self(None)),
            _ => parse_duration(text)
                .map(|length| Self(Some(length)))
                .map_err(|problem| format!("{problem}, or \"forever\"")),
        }
    }
}

impl fmt::Display for Retain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("forever"),
            Some(length) => f.write_str(&print_duration(&length)),
        }
    }
}

impl FromStr for RetainSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "unlimited" => Ok(Self(None)),
            _ => parse_size(text)
                .map(|size| Self(Some(size)))
                .map_err(|problem| format!("{problem}, or \"unlimited\"")),
        }
    }
}

impl fmt::Display for RetainSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("unlimited"),
            Some(size) => f.write_str(&print_size(&size)),
        }
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Err("is empty and would match nothing".into())
        } else {
            Ok(Self::new(text))
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text).ok_or_else(|| {
            format!("\"{text}\" is no host; write \"example.com\", or \"*.example.com\" for those below it")
        })
    }
}

serde_as_text!(AdminAddress, Retain, RetainSize, Token, Glob, HostPattern, AddressBlock, Protocol);
