//! What is shared of the proxies themselves. `scripts/heartbeat.lua` computes the same.

use std::collections::BTreeMap;

use crate::engine::clock::{Micros, micros};
use crate::engine::lease_token::AHEAD_MAX;
use crate::engine::log_head::LogHead;
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
    /// The head of each log, and when it was noted.
    pub heads: BTreeMap<String, (Micros, LogHead)>,
}

/// What one proxy says of itself.
#[derive(Debug)]
pub(super) struct HeartbeatRequest<'a> {
    pub proxy: &'a str,
    /// The newest format that it reads.
    pub format: u8,
    /// The digest of its shared settings, shortened.
    pub settings: u32,
    pub head: Option<LogHead>,
}

impl Cluster {
    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest<'_>, now: Micros) -> Heartbeat {
        let epoch = self.epoch.filter(|epoch| *epoch <= now + AHEAD_MAX).unwrap_or(now);
        self.epoch = Some(epoch);
        let missed = MISSED_MAX * micros(heartbeat_interval(self.members.len()));
        let seen = now.saturating_sub(missed)..=now + missed;
        self.members.retain(|_, at| seen.contains(at));
        self.members.insert(request.proxy.to_owned(), now);
        self.about.insert(request.proxy.to_owned(), (request.format, request.settings));
        self.about.retain(|proxy, _| self.members.contains_key(proxy));
        if let Some(head) = request.head {
            self.heads.insert(request.proxy.to_owned(), (now, head));
        }
        self.heads.retain(|_, (noted, _)| *noted + HEAD_KEPT >= now);
        let is_same = |about: &&(u8, u32)| about.1 == request.settings;
        let oldest = self.about.values().map(|(format, _)| *format).min();
        Heartbeat {
            members: self.members.len(),
            same_settings: self.about.values().filter(is_same).count(),
            format: oldest.unwrap_or(request.format).min(request.format),
            now,
            epoch,
        }
    }
}
