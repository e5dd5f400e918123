//! The clients that the proxy serves.

use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::clients::{self, Users, UsersError};
use crate::config::units;

/// `[clients]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clients {
    /// Clients that may use the proxy, beside loopback.
    #[serde(with = "units::blocks")]
    pub allow: Vec<IpNet>,
    /// Clients of any address may use the proxy.
    pub open: bool,
    /// The users, with their passwords; absent: no authentication.
    pub users_file: Option<PathBuf>,
    /// Concurrent client connections.
    #[serde(with = "units::count")]
    pub max_connections: usize,
    /// Concurrent connections of one client: of an address, and of a user.
    #[serde(with = "units::count")]
    pub max_per_client: usize,
    /// Concurrent requests of one client: of a user or, without users, of an address.
    #[serde(with = "units::count")]
    pub max_requests_per_client: usize,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            open: false,
            users_file: None,
            max_connections: 10_000,
            max_per_client: 5000,
            max_requests_per_client: 5000,
        }
    }
}

impl Clients {
    /// The clients that are permitted. Reads the users from their file.
    pub fn build(&self) -> Result<clients::Clients, UsersError> {
        let users = self.users_file.as_deref().map(Users::load).transpose()?;
        Ok(clients::Clients {
            open: self.open,
            allow: self.allow.clone(),
            users: users.map(Arc::new),
            connections_max: self.max_connections,
            per_client_max: self.max_per_client,
            requests_max: self.max_requests_per_client,
        })
    }
}
