//! Values that a server replies with.

use redis::Value;

use crate::engine::clock::Micros;

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
