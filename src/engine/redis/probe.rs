//! Runs each operation once, on keys that no proxy uses: for `courtesy doctor`.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::RedisEngine;
use super::call::Call;
use crate::engine::error::Error;
use crate::engine::hold::{HoldCause, HoldLength, HoldRequest};
use crate::engine::lease_token::LeaseToken;
use crate::engine::lookup::{LookupOutcome, LookupRequest, PublishRequest};
use crate::engine::slots::SlotsRequest;
use crate::engine::stats::Operation;
use crate::engine::{Engine, LogHead};
use crate::types::origin::{Origin, Scheme};
use crate::types::timestamp::Timestamp;

/// What is written for an instant.
const CONTENT: &[u8] = b"courtesy doctor";
/// The delay and the hold that are asked for.
const INSTANT: Duration = Duration::from_millis(1);

/// The faults of operations, by their words.
#[derive(Debug, Default)]
struct Faults(Vec<(&'static str, Error)>);

impl Faults {
    fn note<T>(&mut self, what: Operation, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.0.push((what.word(), error))).ok()
    }
}

impl RedisEngine {
    /// Runs each operation once, and removes the keys that it has made. The prefix of the settings
    /// is to be one that no proxy uses. Returns the faults, by the words of the operations.
    pub async fn probe(&self) -> Vec<(&'static str, Error)> {
        let site = Origin::from_authority(Scheme::Https, "doctor.invalid");
        let site = site.expect("it has the form of an authority");
        let mut faults = Faults::default();
        self.probe_knowledge(&site, &mut faults).await;
        self.probe_pace(&site, &mut faults).await;
        let time = Timestamp::from_millis(0);
        self.set_head(LogHead { log: None, number: 1, hash: [0; 32], time, contradicts: false });
        faults.note(Operation::Heartbeat, self.heartbeat().await);
        faults.note(Operation::Heads, self.heads().await);
        self.remove(&site, &mut faults).await;
        faults.0
    }

    async fn probe_knowledge(&self, site: &Origin, faults: &mut Faults) {
        let request = LookupRequest {
            origin: site,
            have: LeaseToken::default(),
            may_fetch: true,
            is_used: true,
        };
        let response = faults.note(Operation::Lookup, self.lookup(request).await);
        let token = match response.map(|response| response.outcome) {
            Some(LookupOutcome::Lease(token)) => token,
            _ => LeaseToken::default(),
        };
        faults.note(Operation::RenewLease, self.renew_lease(site, token).await);
        let sha256 = Sha256::digest(CONTENT).into();
        let content = Bytes::from_static(CONTENT);
        faults.note(Operation::PutFile, self.put_file(sha256, content).await);
        faults.note(Operation::GetFile, self.get_file(sha256).await);
        let request = PublishRequest { origin: site, token, value: CONTENT };
        faults.note(Operation::Publish, self.publish(request).await);
        faults.note(Operation::ReleaseLease, self.release_lease(site, token).await);
    }

    async fn probe_pace(&self, site: &Origin, faults: &mut Faults) {
        let request = SlotsRequest {
            origin: site,
            group: "*",
            lane_delay: INSTANT,
            site_delay: INSTANT,
            slack: INSTANT,
            horizon: Duration::from_secs(1),
            count: 1,
            left: Duration::ZERO,
        };
        faults.note(Operation::ReserveSlots, self.reserve_slots(request).await);
        let (length, cause) = (HoldLength::For(INSTANT), HoldCause::RetryAfter);
        let request = HoldRequest { origin: site, length, status: 503, cause };
        faults.note(Operation::SetHold, self.set_hold(request).await);
        faults.note(Operation::ResetBackoff, self.reset_backoff(site).await);
        faults.note(Operation::AnnouncePresence, self.announce_presence(site).await);
    }

    /// Removes what was written: each key by itself, as they may be on several nodes.
    async fn remove(&self, site: &Origin, faults: &mut Faults) {
        let keys = &self.shared.keys;
        let own = ["known", "lease"].map(|name| keys.of(site, name));
        let of_lane = ["pace", "presence"].map(|name| keys.of_lane(site, name));
        let of_site = own.into_iter().chain(of_lane);
        let of_all = ["members", "about", "epoch", "heads"].map(|name| keys.cluster(name));
        let file = keys.file(&Sha256::digest(CONTENT).into());
        for key in of_site.into_iter().chain(of_all).chain([file]) {
            let call = Call::command(Operation::ReleaseLease, "DEL", key, Vec::new());
            let removed = self.run(call, |_| Some(()));
            if faults.note(Operation::ReleaseLease, removed.await).is_none() {
                return;
            }
        }
    }
}
