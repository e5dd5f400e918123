//! The member `client` of a record: who asked, as far as `audit.clients` lets it be written.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::words::words;

words! {
    /// What records say of the client (`audit.clients`).
    pub enum KeptClients {
        /// Its address and its name.
        Plain = "plain",
        /// Keyed hashes of both.
        Keyed = "keyed",
        /// Nothing.
        None = "none",
    }
}

/// The client of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Null where it is left out.
    pub address: Option<ClientAddress>,
    /// Of an authenticated client.
    pub name: Option<String>,
}

/// An address, or what stands for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClientAddress {
    Plain(IpAddr),
    /// A keyed hash.
    Keyed(String),
}

impl Client {
    /// One that is known by its address, and by `name` if it has authenticated.
    pub fn at(address: impl Into<IpAddr>, name: Option<String>) -> Self {
        Self { address: Some(ClientAddress::Plain(address.into())), name }
    }

    /// The address, unless it is hidden.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.address {
            Some(ClientAddress::Plain(address)) => Some(address),
            Some(ClientAddress::Keyed(_)) | None => None,
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(address) => address.fmt(f),
            Self::Keyed(hash) => f.write_str(hash),
        }
    }
}

impl Serialize for ClientAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(address) => address.serialize(serializer),
            Self::Keyed(hash) => serializer.serialize_str(hash),
        }
    }
}

impl<'de> Deserialize<'de> for ClientAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(text.parse().map_or_else(|_| Self::Keyed(text), Self::Plain))
    }
}
