//! Admits connections and requests of clients. Settings can be replaced at any time; counters and
//! verified credentials persist.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use http::HeaderMap;

use super::password::REJECTED_MAX;
use super::verifier::Verifier;
use super::{
    BodyMemory, Client, ClientLimits, ClientPermit, Clients, Counts, MemoryPermit, RejectReason,
    User,
};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// Counts admitted connections, and verifies passwords.
#[derive(Debug)]
pub struct ClientAdmission {
    clients: ArcSwap<Clients>,
    served: Arc<AtomicUsize>,
    /// Counted apart, so that rejected connections do not keep others out.
    rejected: Arc<AtomicUsize>,
    connections: Arc<ClientLimits>,
    memory: Arc<BodyMemory>,
    verifier: Verifier,
    counts: Counts,
}

/// Whether a connection is served. The connection counts as open until this is dropped.
#[derive(Debug)]
pub enum AdmissionResult {
    /// The client may send requests on it.
    Served(ConnectionPermit),
    /// Each request on it is rejected, for this reason.
    Rejected(RejectReason, OpenConnection),
}

/// Permission for one connection; released when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    _client: ClientPermit,
    _open: OpenConnection,
}

/// Counts one open connection until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<AtomicUsize>);

impl ClientAdmission {
    /// `memory` is the budget for requests.
    pub fn new(clients: Clients, memory: Arc<BodyMemory>) -> Self {
        Self {
            clients: ArcSwap::from_pointee(clients),
            served: Arc::default(),
            rejected: Arc::default(),
            connections: Arc::default(),
            memory,
            verifier: Verifier::new(),
            counts: Counts::default(),
        }
    }

    /// Replaces the settings, also for open connections: the next request of a removed user, or
    /// from an address that is no longer allowed, is rejected. If the users are unchanged, verified
    /// credentials stay valid. Returns whether the users differ.
    pub fn change(&self, mut clients: Clients) -> bool {
        let before = self.clients.load();
        let are_others = before.users != clients.users;
        if !are_others {
            clients.users.clone_from(&before.users);
        }
        self.clients.store(Arc::new(clients));
        are_others
    }

    /// The number of open connections, including those being rejected.
    pub fn open_connections(&self) -> usize {
        self.served.load(Ordering::Acquire) + self.rejected.load(Ordering::Acquire)
    }

    /// The counters of rejections.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Decides whether a connection of `client` is served, or rejected with a response. `None` when
    /// too many rejected ones are open: drop the connection. `share` limits the connections of one
    /// client whatever the settings say (its part of the open files limit).
    pub fn admit_connection(&self, client: IpAddr, share: usize) -> Option<AdmissionResult> {
        let clients = self.clients.load();
        let permit = self.permit_connection(&clients, client.to_canonical(), share);
        match self.counts.note(permit) {
            Ok(permit) => Some(AdmissionResult::Served(permit)),
            Err(reason) => {
                let open = OpenConnection::count(&self.rejected, REJECTED_MAX)?;
                Some(AdmissionResult::Rejected(reason, open))
            }
        }
    }

    fn permit_connection(
        &self,
        clients: &Clients,
        client: IpAddr,
        share: usize,
    ) -> Result<ConnectionPermit, RejectReason> {
        clients.check(client)?;
        let max = clients.per_client_max.min(share);
        let client = self
            .connections
            .take(ClientKey::of(client), max)
            .ok_or(RejectReason::TooManyConnections(max))?;
        let max = clients.connections_max;
        let open = OpenConnection::count(&self.served, max).ok_or(RejectReason::Full(max))?;
        Ok(ConnectionPermit { _client: client, _open: open })
    }

    /// The client that sends a request with these headers from `address`, with its user if users
    /// are configured.
    pub async fn authenticate(
        &self,
        address: IpAddr,
        fields: &HeaderMap,
    ) -> Result<Client, RejectReason> {
        let users = {
            let clients = self.clients.load();
            self.counts.note(clients.check(address))?;
            clients.users.clone()
        };
        let Some(users) = users else { return Ok(Client::at(address)) };
        let user = Box::pin(self.verifier.authenticate(&users, address, fields)).await;
        Ok(Client { user: Some(self.counts.note(user)?), ..Client::at(address) })
    }

    /// Whether clients must authenticate.
    pub fn has_users(&self) -> bool {
        self.clients.load().users.is_some()
    }

    /// The client of a request inside a CONNECT of `client`, checked against the current settings:
    /// that client was authenticated, but perhaps long ago.
    pub fn renew(&self, client: &Client) -> Result<Client, RejectReason> {
        let clients = self.clients.load();
        self.counts.note(clients.check(client.address))?;
        let renewed = match (&clients.users, &client.user) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(RejectReason::NoLongerUser),
            (Some(users), Some(user)) => users
                .get(&user.name)
                .filter(|now| now.password == user.password)
                .map(|now| Some(Arc::clone(now)))
                .ok_or(RejectReason::NoLongerUser),
        };
        Ok(Client { user: self.counts.note(renewed)?, ..client.clone() })
    }

    /// The client of a connection by a transparent listener, if its address is still permitted. It
    /// has not been set up for a proxy, and so has no credentials.
    ///
    /// # Errors
    ///
    /// The reason that its address is refused for.
    pub fn renew_address(&self, client: &Client) -> Result<Client, RejectReason> {
        self.counts.note(self.clients.load().check(client.address))?;
        Ok(Client::at(client.address))
    }

    /// Makes `permit` a connection permit of `user`, replacing that of another user.
    pub fn permit_user(
        &self,
        user: &User,
        permit: &Lock<Option<ClientPermit>>,
    ) -> Result<(), RejectReason> {
        let mut current = permit.lock();
        let key = user.key();
        if current.as_ref().is_some_and(|current| *current.key() == key) {
            return Ok(());
        }
        let max = user.max_connections.unwrap_or_else(|| self.clients.load().per_client_max);
        let permit = self.connections.take(key, max);
        *current = Some(self.counts.note(permit.ok_or(RejectReason::TooManyConnections(max)))?);
        Ok(())
    }

    /// A permit for one more request of `client`, which reserves at least this many bytes.
    pub fn admit_request(
        &self,
        client: &Client,
        bytes: usize,
    ) -> Result<MemoryPermit, RejectReason> {
        let of_user = client.user.as_ref().and_then(|user| user.max_requests);
        let max = of_user.unwrap_or_else(|| self.clients.load().requests_max);
        self.counts.note(self.memory.reserve_request(client.key(), bytes, max))
    }

    /// Reserves bytes for what outlasts a request of `client`, such as a tunnel.
    pub fn reserve_memory(
        &self,
        client: &Client,
        bytes: usize,
    ) -> Result<MemoryPermit, RejectReason> {
        self.counts.note(self.memory.reserve(&client.key(), bytes))
    }

    /// The budget for requests.
    pub const fn memory(&self) -> &Arc<BodyMemory> {
        &self.memory
    }
}

impl Clients {
    /// The list may have changed since the client connected.
    fn check(&self, client: IpAddr) -> Result<(), RejectReason> {
        if self.allows(client) { Ok(()) } else { Err(RejectReason::NotAllowed(client)) }
    }

    /// Whether this address may use the proxy. With users and no list, any address may
    /// authenticate.
    fn allows(&self, client: IpAddr) -> bool {
        self.open
            || client.is_loopback()
            || self.allow.iter().any(|block| block.contains(&client))
            || self.users.is_some() && self.allow.is_empty()
    }
}

impl AdmissionResult {
    /// Why the connection is rejected; `None` if it is served.
    pub const fn reject_reason(&self) -> Option<RejectReason> {
        match self {
            Self::Served(_) => None,
            Self::Rejected(reason, _) => Some(*reason),
        }
    }
}

impl OpenConnection {
    /// Increments `open` unless it has reached `max`.
    fn count(open: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let more = |now| (now < max).then_some(now + 1);
        open.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Self(Arc::clone(open)))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
