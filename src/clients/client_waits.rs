//! The clients that wait for something, as an operator is shown them.

use foldhash::HashMap;
use serde::{Deserialize, Serialize};

use crate::types::ClientKey;

/// Clients that are named; the others are counted.
const CLIENTS_NAMED_MAX: usize = 8;

/// Clients, those with most waiting requests first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientWaits {
    /// Requests that wait, of all clients.
    pub waiting: usize,
    pub clients: Vec<ClientWait>,
    /// Clients that are not named.
    pub other_clients: usize,
}

/// A client. Without a user and an address it is the proxy itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientWait {
    pub user: Option<String>,
    /// Of IPv6 the network, which is one client.
    pub address: Option<String>,
    /// Its requests that wait.
    pub waiting: usize,
}

impl ClientWaits {
    /// Of these clients, each with a number of its waiting requests.
    pub fn of<'a>(waiting: impl IntoIterator<Item = (&'a ClientKey, usize)>) -> Self {
        let mut counts = HashMap::<&ClientKey, usize>::default();
        for (client, count) in waiting {
            *counts.entry(client).or_default() += count;
        }
        let waiting = counts.values().sum();
        let mut clients: Vec<_> =
            counts.into_iter().map(|(client, waiting)| ClientWait::of(client, waiting)).collect();
        let order = |one: &ClientWait, other: &ClientWait| {
            let names = |it: &ClientWait| (it.user.clone(), it.address.clone());
            other.waiting.cmp(&one.waiting).then_with(|| names(one).cmp(&names(other)))
        };
        clients.sort_unstable_by(order);
        let other_clients = clients.len().saturating_sub(CLIENTS_NAMED_MAX);
        clients.truncate(CLIENTS_NAMED_MAX);
        Self { waiting, clients, other_clients }
    }
}

impl ClientWait {
    fn of(client: &ClientKey, waiting: usize) -> Self {
        let (user, address) = match client {
            ClientKey::User(name) => (Some(name.to_string()), None),
            ClientKey::Address(address) if address.is_ipv6() => {
                (None, Some(format!("{address}/64")))
            }
            ClientKey::Address(address) => (None, Some(address.to_string())),
            ClientKey::Proxy => (None, None),
        };
        Self { user, address, waiting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_with_most_waiting_come_first_and_few_are_named() {
        let addresses = (0..20).map(|last| ClientKey::of([192, 0, 2, last].into()));
        let user = ClientKey::User("ada".into());
        let network = ClientKey::of("2001:db8::1:2:3".parse().unwrap());
        let keys: Vec<_> = addresses.chain([ClientKey::Proxy]).collect();
        let waits = keys.iter().map(|key| (key, 1)).chain([(&user, 2), (&network, 3), (&user, 2)]);
        let waits = ClientWaits::of(waits);
        assert_eq!((waits.waiting, waits.clients.len(), waits.other_clients), (28, 8, 15));
        let [first, second, third, ..] = waits.clients.as_slice() else { panic!("{waits:?}") };
        assert_eq!((first.user.as_deref(), first.waiting), (Some("ada"), 4));
        assert_eq!((second.address.as_deref(), second.waiting), (Some("2001:db8::/64"), 3));
        assert_eq!((&third.user, &third.address), (&None, &None), "the proxy itself");
        assert_eq!(ClientWaits::of([]), ClientWaits::default());
    }
}
