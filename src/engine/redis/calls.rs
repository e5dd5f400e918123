//! The call of each operation: its script, its keys and its arguments, in the order in which the
//! script names them.

use std::time::Duration;

use super::RedisEngine;
use super::call::{Call, boolean, number};
use super::script::Script;
use crate::engine::hold::{HoldLength, HoldRequest};
use crate::engine::lease_token::LeaseToken;
use crate::engine::length::bounded_micros;
use crate::engine::lookup::{KNOWN_BYTES_MAX, LEASE, LookupRequest};
use crate::engine::slots::{SLOTS_MAX, SlotsRequest};
use crate::engine::stats::Operation;
use crate::engine::{format, keys};
use crate::types::origin::Origin;

impl RedisEngine {
    pub(super) fn lease_call(
        &self,
        operation: Operation,
        origin: &Origin,
        token: LeaseToken,
        length: Duration,
    ) -> Call {
        let keys = vec![self.shared.keys.of(origin, "lease")];
        let arguments = vec![number(token.0), number(bounded_micros(length))];
        Call::script(operation, Script::RenewLease, keys, arguments)
    }

    pub(super) fn reset_call(&self, origin: &Origin, what: &str) -> Call {
        let keys = vec![self.shared.keys.of_lane(origin, "pace")];
        Call::script(Operation::ResetBackoff, Script::ResetBackoff, keys, vec![what.into()])
    }

    fn hold_max(&self) -> Vec<u8> {
        number(bounded_micros(self.shared.config.hold_max))
    }

    fn presence_interval(&self) -> Vec<u8> {
        number(bounded_micros(self.shared.members.lock().presence_interval()))
    }

    pub(super) fn keep_ms(&self) -> Vec<u8> {
        number((bounded_micros(self.shared.config.keep) / 1000).max(1))
    }

    /// How long what was asked for once is kept, in milliseconds.
    pub(super) fn keep_once_ms(&self, once: Duration) -> Vec<u8> {
        number((bounded_micros(self.shared.config.keep.min(once)) / 1000).max(1))
    }

    pub(super) fn lookup_call(&self, request: LookupRequest<'_>) -> Call {
        let arguments = vec![
            number(request.have.0),
            self.shared.config.member().into_bytes(),
            boolean(request.may_fetch),
            boolean(request.is_used),
            self.presence_interval(),
            self.hold_max(),
            number(format::stored_max(KNOWN_BYTES_MAX) as u64),
            number(bounded_micros(LEASE)),
            number(bounded_micros(self.shared.config.keep)),
        ];
        let (keys, origin) = (&self.shared.keys, request.origin);
        let own = ["known", "lease"].map(|name| keys.of(origin, name));
        let of_lane = ["pace", "presence"].map(|name| keys.of_lane(origin, name));
        let keys = own.into_iter().chain(of_lane).collect();
        Call::script(Operation::Lookup, Script::Lookup, keys, arguments)
    }

    /// `promised`: the next starts, from now, of the lane and of the group, as they were reserved.
    pub(super) fn slots_call(&self, request: SlotsRequest<'_>, promised: [Option<i64>; 2]) -> Call {
        let [own, group] = promised
            .map(|micros| micros.map_or_else(Vec::new, |micros| micros.to_string().into_bytes()));
        let length = |length| number(bounded_micros(length));
        let arguments = vec![
            keys::group(request.group).into_owned().into_bytes(),
            length(request.lane_delay),
            length(request.site_delay),
            length(request.slack),
            length(request.horizon),
            number(request.count.clamp(1, SLOTS_MAX).into()),
            length(request.left),
            number(self.shared.members.lock().known_since()),
            self.hold_max(),
            own,
            group,
        ];
        let keys = vec![self.shared.keys.of_lane(request.origin, "pace")];
        Call::script(Operation::ReserveSlots, Script::ReserveSlots, keys, arguments)
    }

    pub(super) fn hold_call(&self, request: HoldRequest<'_>) -> Call {
        let length = |length| number(bounded_micros(length));
        let (kind, length, longest, jitter) = match request.length {
            HoldLength::For(time) => ("for", length(time), number(0), number(0)),
            HoldLength::BackOff { first, max, jitter } => {
                ("back_off", length(first), length(max), number(jitter.min(1000).into()))
            }
        };
        let (status, cause) = (number(request.status.into()), request.cause.word().into());
        let arguments = vec![kind.into(), length, longest, jitter, status, cause, self.hold_max()];
        let keys = vec![self.shared.keys.of_lane(request.origin, "pace")];
        Call::script(Operation::SetHold, Script::SetHold, keys, arguments)
    }

    pub(super) fn presence_call(&self, origin: &Origin) -> Call {
        let keys = ["presence", "pace"].map(|name| self.shared.keys.of_lane(origin, name)).into();
        let name = self.shared.config.member().into_bytes();
        let arguments = vec![name, self.presence_interval(), self.hold_max()];
        Call::script(Operation::AnnouncePresence, Script::AnnouncePresence, keys, arguments)
    }
}
