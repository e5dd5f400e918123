//! Idle connections of HTTP/1.1, by origin.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;

use crate::egress::config::ConfigSnapshot;
use crate::egress::http1::Http1Connection;
use crate::egress::limits::{BORROWED_MAX, LOOP_TOKEN_CONNECTIONS_MAX};
use crate::types::loop_token::LoopTokens;
use crate::types::origin::Origin;

/// The idle connections of one worker.
#[derive(Debug, Default)]
pub struct IdleConnections {
    /// An origin keeps its entry until the next sweep when its last connection is taken: the worker
    /// will have a connection to it again.
    by_origin: HashMap<Origin, VecDeque<IdleConnection>>,
    /// How often a connection was borrowed from another worker since the last sweep.
    borrowed: HashMap<Origin, u32>,
    len: usize,
}

/// A connection, and since when it is idle.
#[derive(Debug)]
struct IdleConnection {
    connection: Box<Http1Connection>,
    since: Instant,
}

impl IdleConnections {
    /// The number of connections.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Takes the connection to `origin` that became idle last, has not idled too long, and may
    /// still be used. Closes those that may not.
    pub fn take(
        &mut self,
        origin: &Origin,
        loop_tokens: &LoopTokens,
        current: &Arc<ConfigSnapshot>,
        now: Instant,
    ) -> Option<Box<Http1Connection>> {
        let connections = self.by_origin.get_mut(origin)?;
        while let Some(last) = connections.iter().rposition(|it| it.connection.is_for(loop_tokens))
        {
            let IdleConnection { mut connection, since } = connections.remove(last)?;
            self.len -= 1;
            let time = now.duration_since(since);
            let is_in_time = connection.may_idle(time, current.config.idle_timeout);
            if is_in_time && connection.revalidate(origin, current) && connection.check_idle() {
                return Some(connection);
            }
        }
        None
    }

    /// Adds a connection that has just become idle.
    pub fn put(&mut self, origin: &Origin, connection: Box<Http1Connection>, now: Instant) {
        if connection.has_loop_tokens() {
            self.make_room_with_loop_tokens(origin);
        }
        self.len += 1;
        let entry = IdleConnection { connection, since: now };
        match self.by_origin.get_mut(origin) {
            Some(connections) => connections.push_back(entry),
            None => {
                self.by_origin.insert(origin.clone(), VecDeque::from([entry]));
            }
        }
    }

    /// Closes the longest idle of the connections with loop tokens, if there are too many of them.
    fn make_room_with_loop_tokens(&mut self, origin: &Origin) {
        let Some(connections) = self.by_origin.get_mut(origin) else { return };
        let has_tokens = |entry: &IdleConnection| entry.connection.has_loop_tokens();
        let count = connections.iter().filter(|entry| has_tokens(entry)).count();
        if count >= LOOP_TOKEN_CONNECTIONS_MAX
            && let Some(first) = connections.iter().position(has_tokens)
        {
            connections.remove(first);
            self.len -= 1;
        }
    }

    /// Whether a connection to `origin` may be borrowed: there has been none here lately, and not
    /// too many were borrowed.
    pub fn may_borrow(&self, origin: &Origin) -> bool {
        let has_enough = |times: &u32| *times >= BORROWED_MAX;
        !self.by_origin.contains_key(origin) && !self.borrowed.get(origin).is_some_and(has_enough)
    }

    /// Counts one borrowed connection.
    pub fn note_borrowed(&mut self, origin: &Origin) {
        *self.borrowed.entry(origin.clone()).or_default() += 1;
    }

    /// Closes connections that have idled for `timeout` or that their origin has closed.
    pub fn sweep(&mut self, now: Instant, timeout: Duration) {
        self.by_origin.retain(|_, connections| {
            connections.retain_mut(|IdleConnection { connection, since }| {
                connection.may_idle(now.duration_since(*since), timeout) && connection.check_idle()
            });
            !connections.is_empty()
        });
        self.borrowed = HashMap::default();
        self.len = self.by_origin.values().map(VecDeque::len).sum();
    }
}
