//! Counts of the connections of clients: by the listener that has accepted them, and by the
//! protocol that they begin with. A rejected connection is among them.

use crate::runtime::counters::Counters;

/// Counters of all workers.
#[derive(Debug, Default)]
pub struct ConnectionMetrics {
    /// By [`ListenerKind`].
    accepted: Counters<{ LISTENER_KINDS.len() }>,
    /// By [`ClientProtocol`].
    protocols: Counters<{ PROTOCOLS.len() }>,
}

const LISTENER_KINDS: [&str; 3] = ["proxy", "transparent", "sealed"];

const PROTOCOLS: [&str; 6] = ["http1", "http2", "tls", "socks5", "other", "none"];

/// The kind of the listener that has accepted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Of clients that are set up for a proxy (`listen.proxy`).
    Proxy,
    /// Of connections that are redirected (`listen.transparent`).
    Transparent,
    /// Of the network of a sealed run, all of which leads to the proxy.
    Sealed,
}

/// The protocol of the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    /// Also any other protocol, which is refused as HTTP/1.
    Http1,
    /// In clear, with prior knowledge.
    Http2,
    /// Whatever is inside.
    Tls,
    Socks5,
    /// None of them, on a listener that refuses nothing as HTTP/1.
    Other,
    /// The client has sent nothing, until it left or its time was over.
    None,
}

impl ConnectionMetrics {
    /// Counts one connection.
    pub fn count_accepted(&self, by: ListenerKind) {
        self.accepted.add(by as usize, 1);
    }

    /// Counts the protocol of one connection.
    pub fn count_protocol(&self, protocol: ClientProtocol) {
        self.protocols.add(protocol as usize, 1);
    }

    /// How many connections each kind of listener has accepted.
    pub fn accepted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        LISTENER_KINDS.into_iter().zip(self.accepted.values())
    }

    /// How many connections began with which protocol.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, u64)> {
        PROTOCOLS.into_iter().zip(self.protocols.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_word() {
        let metrics = ConnectionMetrics::default();
        let kinds = [ListenerKind::Proxy, ListenerKind::Transparent, ListenerKind::Sealed];
        kinds.into_iter().enumerate().for_each(|(place, kind)| {
            (0..=place).for_each(|_| metrics.count_accepted(kind));
        });
        let expected = [("proxy", 1), ("transparent", 2), ("sealed", 3)];
        assert_eq!(metrics.accepted().collect::<Vec<_>>(), expected);
        for protocol in [ClientProtocol::Http1, ClientProtocol::Socks5, ClientProtocol::None] {
            metrics.count_protocol(protocol);
        }
        let seen: Vec<_> = metrics.protocols().filter(|(_, count)| *count == 1).collect();
        assert_eq!(seen, [("http1", 1), ("socks5", 1), ("none", 1)]);
    }
}
