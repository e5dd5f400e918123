//! Counts of records by event: denied requests are never added to forwarded ones.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::{Event, Reason};

/// How many records there are of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Answered with the denial.
    pub denied: u64,
    /// Forwarded: the mode was `observe`.
    pub would_deny: u64,
    /// Forwarded under an exemption.
    pub exempted: u64,
    /// Connections tunnelled to hosts where some paths are disallowed, or to services of `--reach`.
    pub tunnelled: u64,
}

/// Of each reason, the records by event.
pub type EventsByReason = BTreeMap<Reason, Events>;

impl Events {
    /// One of `event`.
    pub const fn one(event: Event) -> Self {
        let mut events = Self { denied: 0, would_deny: 0, exempted: 0, tunnelled: 0 };
        *events.count(event) = 1;
        events
    }

    /// Adds the counts of `other`.
    pub const fn add(&mut self, other: Self) {
        self.denied += other.denied;
        self.would_deny += other.would_deny;
        self.exempted += other.exempted;
        self.tunnelled += other.tunnelled;
    }

    /// The sum over all events.
    pub const fn all(self) -> u64 {
        self.denied + self.forwarded()
    }

    /// Records of forwarded requests.
    pub const fn forwarded(self) -> u64 {
        self.would_deny + self.exempted + self.tunnelled
    }

    /// The count of `event`.
    pub const fn of(mut self, event: Event) -> u64 {
        *self.count(event)
    }

    const fn count(&mut self, event: Event) -> &mut u64 {
        match event {
            Event::Denied => &mut self.denied,
            Event::WouldDeny => &mut self.would_deny,
            Event::Exempted => &mut self.exempted,
            Event::Tunnelled => &mut self.tunnelled,
        }
    }
}
