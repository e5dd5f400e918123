//! What a server would hold of an origin, for comparison.

use std::collections::BTreeMap;

use super::MemoryEngine;
use crate::types::origin::Origin;

impl MemoryEngine {
    /// What is stored of an origin and of its lane: kind of key and field, and the value as a server has it.
    pub fn dump(&self, origin: &Origin) -> BTreeMap<(&'static str, String), String> {
        let mut dump = BTreeMap::new();
        let state = self.shared.state.lock();
        let mut put = |key, field: &str, value| dump.insert((key, field.to_owned()), value);
        if let Some(value) = state.sites.get(origin).and_then(|site| site.known.as_ref()) {
            put("known", "token", value.token.0.to_string());
        }
        if let Some(lease) = state.sites.get(origin).and_then(|site| site.lease.as_ref()) {
            let text = format!("{} {} {}", lease.token.0, lease.until, lease.holder);
            put("lease", "", text);
        }
        let Some(site) = state.sites.get(&*origin.lane()) else { return dump };
        let lane = &site.lane;
        if let Some(own) = lane.own {
            put("pace", "n", format!("{} {}", own.next, own.reach));
        }
        for (group, next) in &lane.groups {
            put("pace", &format!("g:{group}"), format!("{} {}", next.next, next.reach));
        }
        if let Some(hold) = lane.hold {
            put("pace", "h", hold.until.to_string());
            put("pace", "s", hold.status.to_string());
            put("pace", "c", hold.cause.word().to_owned());
        }
        if lane.streak > 0 {
            put("pace", "f", lane.streak.to_string());
        }
        for (proxy, seen) in &site.presence {
            put("presence", proxy, seen.to_string());
        }
        dump
    }
}
