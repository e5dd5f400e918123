//! What is sent to a server, and the way of its reply.

use std::time::Instant;

use redis::{Cmd, Value};
use tokio::sync::oneshot;

use crate::engine::clock::Micros;
use crate::engine::error::Error;
use crate::engine::stats::Operation;

/// A command with its keys, all of one hash slot.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub operation: Operation,
    pub act: Act,
    pub keys: Vec<Vec<u8>>,
    pub arguments: Vec<Vec<u8>>,
}

/// What a server does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Script(Script),
    /// The command has one key, before its arguments.
    Command(&'static str),
}

/// A call that waits for its reply.
#[derive(Debug)]
pub(super) struct Job {
    pub call: Call,
    pub reply: oneshot::Sender<Result<Value, Error>>,
    /// After it the call has timed out.
    pub deadline: Instant,
    /// How often another node was named by a node of the cluster.
    pub redirects: u8,
    /// Whether the node has the slot only for those who were sent to it (`ASK`).
    pub is_asking: bool,
}

impl Call {
    pub(super) fn script(
        operation: Operation,
        script: Script,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
    ) -> Self {
        Self { operation, act: Act::Script(script), keys, arguments }
    }

    pub(super) fn command(
        operation: Operation,
        name: &'static str,
        key: Vec<u8>,
        arguments: Vec<Vec<u8>>,
    ) -> Self {
        Self { operation, act: Act::Command(name), keys: vec![key], arguments }
    }

    /// The command as it is sent; `digest` is that of the script.
    pub(super) fn packed(&self, digest: &str) -> Cmd {
        let mut command = match self.act {
            Act::Script(_) => {
                let mut command = redis::cmd("EVALSHA");
                command.arg(digest).arg(self.keys.len());
                command
            }
            Act::Command(name) => redis::cmd(name),
        };
        for part in self.keys.iter().chain(&self.arguments) {
            command.arg(&part[..]);
        }
        command
    }
}

/// A number as an argument.
pub(super) fn decimal(value: u64) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A condition as an argument.
pub(super) fn boolean(value: bool) -> Vec<u8> {
    decimal(value.into())
}

/// A script of `src/engine/scripts/`. Each touches keys of one hash slot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Lookup,
    Publish,
    RenewLease,
    ReserveSlots,
    SetHold,
    ResetBackoff,
    AnnouncePresence,
    Heartbeat,
    GetFile,
    PutFile,
    Forget,
    Leave,
    TakePlace,
}

/// Goes before each script.
const COMMON: &str = include_str!("../scripts/common.lua");

impl Script {
    /// All scripts, in the order of [`Self::index`].
    pub const ALL: [Self; 13] = [
        Self::Lookup,
        Self::Publish,
        Self::RenewLease,
        Self::ReserveSlots,
        Self::SetHold,
        Self::ResetBackoff,
        Self::AnnouncePresence,
        Self::Heartbeat,
        Self::GetFile,
        Self::PutFile,
        Self::Forget,
        Self::Leave,
        Self::TakePlace,
    ];

    /// The place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The text that is loaded.
    pub fn source(self) -> String {
        let script = match self {
            Self::Lookup => include_str!("../scripts/lookup.lua"),
            Self::Publish => include_str!("../scripts/publish.lua"),
            Self::RenewLease => include_str!("../scripts/renew_lease.lua"),
            Self::ReserveSlots => include_str!("../scripts/reserve_slots.lua"),
            Self::SetHold => include_str!("../scripts/set_hold.lua"),
            Self::ResetBackoff => include_str!("../scripts/reset_backoff.lua"),
            Self::AnnouncePresence => include_str!("../scripts/announce_presence.lua"),
            Self::Heartbeat => include_str!("../scripts/heartbeat.lua"),
            Self::GetFile => include_str!("../scripts/get_file.lua"),
            Self::PutFile => include_str!("../scripts/put_file.lua"),
            Self::Forget => include_str!("../scripts/forget.lua"),
            Self::Leave => include_str!("../scripts/leave.lua"),
            Self::TakePlace => include_str!("../scripts/take_place.lua"),
        };
        [COMMON, "\n", script].concat()
    }
}

/// The parts of a reply, from the first.
#[derive(Debug)]
pub(super) struct Parts(std::vec::IntoIter<Value>);

impl Parts {
    /// The parts of an array.
    pub(super) fn of(reply: Value) -> Option<Self> {
        match reply {
            Value::Array(values) => Some(Self(values.into_iter())),
            _ => None,
        }
    }

    /// A number, as such or in digits.
    pub(super) fn number(&mut self) -> Option<u64> {
        number(&self.0.next()?)
    }

    /// A number that may be negative; `None` also stands for that.
    pub(super) fn count(&mut self) -> Option<usize> {
        self.number().and_then(|number| usize::try_from(number).ok())
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        bytes(self.0.next()?)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    pub(super) fn value(&mut self) -> Option<Value> {
        self.0.next()
    }
}

/// A number, as such or in digits.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(text) => digits(text),
        Value::SimpleString(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// The number that an argument is.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A string.
pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// The time of a `TIME` command.
pub(super) fn time(reply: Value) -> Option<Micros> {
    let mut parts = Parts::of(reply)?;
    parts.number()?.checked_mul(1_000_000)?.checked_add(parts.number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_its_place() {
        for (index, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script.index(), index);
            assert!(script.source().contains("KEYS[1]"), "{script:?}");
        }
    }
}
