//! Who is let in: which clients, and how many at a time.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use ipnet::IpNet;

use crate::limits::TURNED_AWAY_MAX;
use crate::proxy::Refusal;

/// The settings of the door.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Whether anybody may use the proxy.
    pub open: bool,
    /// Who may, besides loopback.
    pub allow: Vec<IpNet>,
    pub connections_max: usize,
}

/// Counts who is in.
#[derive(Debug)]
pub struct Door {
    clients: ArcSwap<Clients>,
    inside: AtomicUsize,
}

/// A place inside, left when dropped.
#[derive(Debug)]
pub struct Reception {
    door: Arc<Door>,
    /// Why this client is to be turned away; none when it is served.
    pub turned_away: Option<Refusal>,
}

impl Door {
    pub fn new(clients: Clients) -> Self {
        Self { clients: ArcSwap::from_pointee(clients), inside: AtomicUsize::new(0) }
    }

    /// From the next client on, these are the settings.
    pub fn change(&self, clients: Clients) {
        self.clients.store(Arc::new(clients));
    }

    /// A place for `client`, if only to be told why it is turned away. `None` when there are too
    /// many even of those: the connection is to be dropped.
    pub fn receive(self: &Arc<Self>, client: IpAddr) -> Option<Reception> {
        let inside = self.inside.fetch_add(1, Ordering::AcqRel);
        let reception = Reception { door: Arc::clone(self), turned_away: self.turns_away(client, inside) };
        (inside < self.clients.load().connections_max + TURNED_AWAY_MAX).then_some(reception)
    }

    fn turns_away(&self, client: IpAddr, inside: usize) -> Option<Refusal> {
        let (client, clients) = (client.to_canonical(), self.clients.load());
        let known =
            clients.open || client.is_loopback() || clients.allow.iter().any(|block| block.contains(&client));
        if !known {
            return Some(Refusal::client_not_allowed(client));
        }
        let limit = clients.connections_max;
        (inside >= limit)
            .then(|| Refusal::busy(format!("{limit} clients are connected (clients.max_connections)")))
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.door.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(open: bool, connections_max: usize) -> Arc<Door> {
        let allow = vec!["10.0.0.0/8".parse().unwrap()];
        Arc::new(Door::new(Clients { open, allow, connections_max }))
    }

    #[test]
    fn strangers_are_turned_away_and_a_place_is_left_when_dropped() {
        let door = door(false, 1);
        let receive = |ip: &str| door.receive(ip.parse().unwrap()).unwrap();
        let status = |reception: &Reception| reception.turned_away.as_ref().map(|it| it.status().as_u16());
        assert_eq!(status(&receive("192.0.2.1")), Some(403));
        assert_eq!(status(&receive("::ffff:10.1.2.3")), None);
        let inside = receive("127.0.0.1");
        assert_eq!(status(&inside), None);
        assert_eq!(status(&receive("127.0.0.1")), Some(503));
        drop(inside);
        assert_eq!(status(&receive("::1")), None);
    }

    #[test]
    fn even_turning_away_is_bounded() {
        let door = door(true, 0);
        let crowd: Vec<_> = (0..TURNED_AWAY_MAX).map(|_| door.receive([192, 0, 2, 1].into())).collect();
        assert!(crowd.iter().all(Option::is_some));
        assert!(door.receive([192, 0, 2, 1].into()).is_none());
        drop(crowd);
        assert!(door.receive([192, 0, 2, 1].into()).is_some());
    }
}
