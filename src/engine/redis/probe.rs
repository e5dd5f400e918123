//! Runs each operation once, on keys that no proxy uses: for `courtesy doctor`.

use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::RedisEngine;
use super::call::Call;
use crate::engine::error::Error;
use crate::engine::look::{Known, Landing, Look};
use crate::engine::pace::{HoldCause, HoldLength, HoldRequest, TurnRequest};
use crate::engine::stats::Operation;
use crate::engine::token::Token;
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
        self.set_head(LogHead { number: 1, hash: [0; 32], time: Timestamp::from_millis(0) });
        faults.note(Operation::Beat, self.beat().await);
        faults.note(Operation::Heads, self.heads().await);
        self.remove(&site, &mut faults).await;
        faults.0
    }

    async fn probe_knowledge(&self, site: &Origin, faults: &mut Faults) {
        let look = Look { origin: site, have: Token::default(), may_fetch: true, is_used: true };
        let looked = faults.note(Operation::Look, self.look(look).await);
        let token = match looked.map(|looked| looked.known) {
            Some(Known::Lease(token)) => token,
            _ => Token::default(),
        };
        faults.note(Operation::Renew, self.renew(site, token).await);
        let sha256 = Sha256::digest(CONTENT).into();
        let content = Bytes::from_static(CONTENT);
        faults.note(Operation::PutFile, self.put_file(sha256, content).await);
        faults.note(Operation::GetFile, self.get_file(sha256).await);
        let landing = Landing { origin: site, token, value: CONTENT };
        faults.note(Operation::Land, self.land(landing).await);
        faults.note(Operation::Release, self.release(site, token).await);
    }

    async fn probe_pace(&self, site: &Origin, faults: &mut Faults) {
        let request = TurnRequest {
            origin: site,
            group: "*",
            own_delay: INSTANT,
            asked_delay: INSTANT,
            slack: INSTANT,
            horizon: Duration::from_secs(1),
            count: 1,
            left: Duration::ZERO,
        };
        faults.note(Operation::Turn, self.turn(request).await);
        let (length, cause) = (HoldLength::For(INSTANT), HoldCause::RetryAfter);
        let request = HoldRequest { origin: site, length, status: 503, cause };
        faults.note(Operation::Hold, self.hold(request).await);
        faults.note(Operation::Calm, self.calm(site).await);
        faults.note(Operation::Here, self.here(site).await);
    }

    /// Removes what was written: each key by itself, as they may be on several nodes.
    async fn remove(&self, site: &Origin, faults: &mut Faults) {
        let keys = &self.shared.keys;
        let of_site = ["known", "lease", "pace", "here"].map(|name| keys.of(site, name));
        let of_all = ["members", "about", "epoch", "heads"].map(|name| keys.cluster(name));
        let file = keys.file(&Sha256::digest(CONTENT).into());
        for key in of_site.into_iter().chain(of_all).chain([file]) {
            let call = Call::command(Operation::Release, "DEL", key, Vec::new());
            let removed = self.run(call, |_| Some(()));
            if faults.note(Operation::Release, removed.await).is_none() {
                return;
            }
        }
    }
}
