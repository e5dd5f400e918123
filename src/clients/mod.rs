//! Who may use the proxy, and how much of it: by address, by name and password (RFC 7617), and by
//! how many connections and requests are under way. [`Door`] keeps what is set apart from what is
//! counted, so that another setting loses no count.
//!
//! Promises: a password costs once and is known then; whoever guesses waits longer each time, and
//! costs no more than a few verifications at once; a user that is not there costs what another does.

mod attempts;
mod body_memory;
mod counts;
mod credentials;
mod door;
mod file;
pub mod limits;
mod password;
mod places;
mod semaphore;
mod turned_away;
mod turns;
mod users;
mod verifier;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

pub use body_memory::{BodyMemory, Held};
pub use counts::Counts;
pub use door::{Door, Reception};
pub use file::{Change, UsersError};
pub use password::{Hash, Password};
pub use places::{Key, Place};
pub use semaphore::{FairSemaphore, Permit};
pub use turned_away::TurnedAway;
pub use turns::Turns;
pub use users::{User, Users, check_name};

/// The settings of the door.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Whether anybody may use the proxy, by address.
    pub open: bool,
    /// Who may, besides loopback. Empty where there are users: any address, then.
    pub allow: Vec<IpNet>,
    /// Whoever may use the proxy must be one of these, too.
    pub users: Option<Arc<Users>>,
    pub connections_max: usize,
    /// Connections of one address, and of one user.
    pub per_client_max: usize,
    /// Requests under way of one user or, without users, of one address.
    pub requests_max: usize,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: IpAddr,
    /// Where users are asked for their names.
    pub user: Option<Arc<User>>,
}

impl Client {
    /// One that is known by its address only.
    pub const fn at(address: IpAddr) -> Self {
        Self { address, user: None }
    }

    /// The user's name.
    pub fn name(&self) -> Option<&str> {
        self.user.as_ref().map(|user| &*user.name)
    }

    /// Whom this client's requests are counted for.
    pub fn key(&self) -> Key {
        match &self.user {
            Some(user) => user.key(),
            None => Key::of(self.address),
        }
    }
}
