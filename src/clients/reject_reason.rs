//! Why a connection or a request of a client is rejected by the limits and lists of clients: a word
//! for metrics, and a sentence that says what to change. The proxy makes a `Rejection` of it.

use std::net::IpAddr;
use std::time::Duration;

/// Why a connection or a request of a client is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    #[error("{0} may not use this proxy: list its block in clients.allow")]
    NotAllowed(IpAddr),
    #[error("{0} clients are connected (clients.max_connections)")]
    Full(usize),
    #[error(
        "{0} connections of this client are open (clients.max_per_client, the user's max_connections, or its \
         share of what the limit on open files has room for)"
    )]
    TooManyConnections(usize),
    #[error(
        "{0} requests of this client are under way (clients.max_requests_per_client, or the user's max_requests)"
    )]
    TooManyRequests(usize),
    #[error(
        "the requests of this client hold most of the {0} bytes of memory that there are for requests \
         (limits.body_memory)"
    )]
    ClientMemory(usize),
    #[error("no memory is left for one more request; the limit is {0} bytes (limits.body_memory)")]
    Memory(usize),
    #[error(
        "this proxy requires a name and a password: write them into its address, http://NAME:PASSWORD@HOST:PORT"
    )]
    NoCredentials,
    #[error("the name or the password for this proxy is wrong")]
    WrongCredentials,
    #[error("the user of this tunnel has been removed, or its password has changed")]
    NoLongerUser,
    #[error("this address has sent wrong names or passwords for this proxy too often")]
    TooManyAttempts(Duration),
    #[error("too many passwords are being verified")]
    TooManyVerifications,
}

impl RejectReason {
    /// The word of each reason, at the reason's index.
    pub const WORDS: [&str; 11] = [
        "not_allowed",
        "connections",
        "client_connections",
        "client_requests",
        "client_memory",
        "memory",
        "no_credentials",
        "wrong_credentials",
        "no_longer_user",
        "attempts",
        "verifications",
    ];

    pub(super) const fn place(self) -> usize {
        match self {
            Self::NotAllowed(_) => 0,
            Self::Full(_) => 1,
            Self::TooManyConnections(_) => 2,
            Self::TooManyRequests(_) => 3,
            Self::ClientMemory(_) => 4,
            Self::Memory(_) => 5,
            Self::NoCredentials => 6,
            Self::WrongCredentials => 7,
            Self::NoLongerUser => 8,
            Self::TooManyAttempts(_) => 9,
            Self::TooManyVerifications => 10,
        }
    }
}
