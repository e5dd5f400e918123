//! Decides which clients may use the proxy, and how much of it: by address, by name and password
//! (RFC 7617), and by the number of connections and requests in flight. [`ClientAdmission`] keeps
//! settings apart from counters, so that a reload loses no count.
//!
//! Promises: a correct password is verified once and cached; guessing slows down with each attempt
//! and never uses more than a few verifications at once; an unknown user costs as much time as a
//! known one.

mod admission;
mod attempts;
mod body_memory;
mod client_limits;
mod counts;
mod credentials;
mod fair_queue;
mod file;
pub mod limits;
mod password;
mod reject_reason;
mod semaphore;
mod users;
mod verifier;

use std::net::IpAddr;
use std::sync::Arc;

use crate::types::client_key::ClientKey;
use crate::types::loop_token::LoopTokens;
use ipnet::IpNet;

pub use admission::{AdmissionResult, ClientAdmission};
pub use body_memory::{BodyMemory, MemoryPermit};
pub use client_limits::ClientPermit;
pub use counts::Counts;
pub use fair_queue::FairQueue;
pub use file::{Change, UsersError};
pub use password::{Hash, Password};
pub use reject_reason::RejectReason;
pub use semaphore::{FairSemaphore, SemaphorePermit};
pub use users::{User, Users, check_name};

/// The settings of admission.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Whether any address may use the proxy.
    pub open: bool,
    /// The addresses that may, besides loopback. Empty with users configured: any address.
    pub allow: Vec<IpNet>,
    /// If set, a client must authenticate as one of these users.
    pub users: Option<Arc<Users>>,
    /// Connections of all clients.
    pub connections_max: usize,
    /// Connections per address, and per user.
    pub per_client_max: usize,
    /// Requests in flight per user or, without users, per address.
    pub requests_max: usize,
}

/// The client of a connection or request.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: IpAddr,
    /// Set where users are configured.
    pub user: Option<Arc<User>>,
    /// Of the proxies before this one, if the client is one.
    pub loop_tokens: LoopTokens,
}

impl Client {
    /// A client that is known by its address only.
    pub const fn at(address: IpAddr) -> Self {
        Self { address, user: None, loop_tokens: LoopTokens::NONE }
    }

    /// The user's name.
    pub fn name(&self) -> Option<&str> {
        self.user.as_ref().map(|user| &*user.name)
    }

    /// The key under which this client's requests are counted.
    pub fn key(&self) -> ClientKey {
        match &self.user {
            Some(user) => user.key(),
            None => ClientKey::of(self.address),
        }
    }
}
