//! What is shared of the proxies themselves. `scripts/heartbeat.lua` computes the same.

use std::collections::BTreeMap;

use crate::engine::clock::{Micros, micros};
use crate::engine::config::member;
use crate::engine::lease_token::AHEAD_MAX;
use crate::engine::log_head::{LogHead, NUMBER_MAX, against};
use crate::engine::members::{Heartbeat, MISSED_MAX, heartbeat_interval};

/// A log's head is kept for 400 days.
pub(in crate::engine) const HEAD_KEPT: Micros = 400 * 24 * 60 * 60 * 1_000_000;

/// The proxies.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// When each was seen last.
    pub members: BTreeMap<String, Micros>,
    /// The latest format that each reads, and the digest of its settings.
    pub about: BTreeMap<String, (u8, u32)>,
    /// When the data began.
    pub epoch: Option<Micros>,
    /// The head of each log, or what contradicts it, with its proxy, and when it was noted.
    pub heads: BTreeMap<String, (Micros, String, LogHead)>,
    /// The process of each name that beat last, and when.
    processes: BTreeMap<String, (String, Micros)>,
}

/// What one proxy says of itself.
#[derive(Debug)]
pub(super) struct HeartbeatRequest<'a> {
    pub proxy: &'a str,
    /// Random letters of the process, or nothing.
    pub process: &'a str,
    /// Whether it is the first of its process.
    pub is_first: bool,
    /// The newest format that it reads.
    pub format: u8,
    /// The digest of its shared settings, shortened.
    pub settings: u32,
    pub head: Option<LogHead>,
}

impl Cluster {
    /// The head of a log moves forward only: once it is contradicted, it stays as it is, and what
    /// comes later is kept beside it.
    fn note_head(&mut self, proxy: &str, head: LogHead, now: Micros) {
        let place = head.place(proxy);
        let beside = against(&place);
        let is_against = self.heads.get(&place).is_some_and(|(_, _, seen)| {
            head.is_against(seen) || seen.number <= NUMBER_MAX && self.heads.contains_key(&beside)
        });
        let place = if is_against { beside } else { place };
        let head = LogHead { contradicts: is_against, ..head };
        self.heads.insert(place, (now, proxy.to_owned(), head));
    }

    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest<'_>, now: Micros) -> Heartbeat {
        let epoch = self.epoch.filter(|epoch| *epoch <= now + AHEAD_MAX).unwrap_or(now);
        self.epoch = Some(epoch);
        let missed = MISSED_MAX * micros(heartbeat_interval(self.members.len()));
        let seen = now.saturating_sub(missed)..=now + missed;
        self.members.retain(|_, at| seen.contains(at));
        let has_namesake = self.note_process(request, seen.clone(), now);
        let own = member(request.proxy, request.process);
        self.members.insert(own.clone(), now);
        self.about.insert(own, (request.format, request.settings));
        self.about.retain(|proxy, _| self.members.contains_key(proxy));
        if let Some(head) = request.head {
            self.note_head(request.proxy, head, now);
        }
        self.heads.retain(|_, (noted, ..)| *noted + HEAD_KEPT >= now);
        let is_same = |about: &&(u8, u32)| about.1 == request.settings;
        let oldest = self.about.values().map(|(format, _)| *format).min();
        Heartbeat {
            members: self.members.len(),
            same_settings: self.about.values().filter(is_same).count(),
            format: oldest.unwrap_or(request.format).min(request.format),
            now,
            epoch,
            has_namesake,
        }
    }

    /// Whether another process of the name lives; one that begins takes the place of the one before.
    fn note_process(
        &mut self,
        request: &HeartbeatRequest<'_>,
        seen: std::ops::RangeInclusive<Micros>,
        now: Micros,
    ) -> bool {
        let HeartbeatRequest { proxy, process, is_first, .. } = *request;
        if process.is_empty() {
            return false;
        }
        let before = self.processes.insert(proxy.to_owned(), (process.to_owned(), now));
        let other = before.filter(|(other, at)| other != process && seen.contains(at));
        match other {
            Some((other, _)) if is_first => {
                self.members.remove(&member(proxy, &other));
                false
            }
            other => other.is_some(),
        }
    }
}
