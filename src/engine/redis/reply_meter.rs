//! Measures replies as their bytes arrive (RESP version 2), so that none grows in memory beyond what
//! any operation asks for.

use super::settings::Address;
use crate::engine::error::{Error, ErrorKind};

/// Values in one reply: a cluster of a hundred nodes with three replicas each names some 23,000.
/// Each takes some fifty bytes in memory.
const VALUES_MAX: usize = 65_536;

/// The bytes of replies, in the order in which they come.
#[derive(Debug)]
pub(super) struct ReplyMeter {
    max: usize,
    /// Of the reply that is being read.
    bytes: usize,
    /// Of the same, as far as they were announced.
    values: usize,
    /// Values without which it is not whole.
    missing: usize,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The first byte of a value, which is its type.
    Type,
    /// Up to the end of the line.
    Line,
    /// The length of a string or an array, as far as it was read.
    Length { is_array: bool, value: u64, is_negative: bool },
    /// So many bytes of a string and of its line end.
    String(usize),
}

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyFault {
    /// More bytes than these, or more values than any reply has.
    TooLong(usize),
    /// It does not begin as a reply does, but with this byte.
    Other(u8),
}

impl ReplyMeter {
    /// Of replies of at most `max` bytes.
    pub(super) const fn new(max: usize) -> Self {
        Self { max, bytes: 0, values: 1, missing: 1, state: State::Type }
    }

    /// Takes the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), ReplyFault> {
        while let Some((first, rest)) = bytes.split_first() {
            let taken = match self.state {
                State::Type => {
                    self.state = match first {
                        b'+' | b'-' | b':' => State::Line,
                        b'$' | b'*' => {
                            State::Length { is_array: *first == b'*', value: 0, is_negative: false }
                        }
                        other => return Err(ReplyFault::Other(*other)),
                    };
                    1
                }
                State::Line => match memchr::memchr(b'\n', bytes) {
                    Some(end) => {
                        self.take(end + 1)?;
                        self.end_value();
                        bytes = &bytes[end + 1..];
                        continue;
                    }
                    None => bytes.len(),
                },
                State::Length { is_array, value, is_negative } => {
                    self.read_length(*first, is_array, value, is_negative)?;
                    bytes = rest;
                    continue;
                }
                State::String(left) => {
                    let taken = left.min(bytes.len());
                    self.take(taken)?;
                    self.state = State::String(left - taken);
                    if taken == left {
                        self.end_value();
                    }
                    bytes = &bytes[taken..];
                    continue;
                }
            };
            self.take(taken)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), ReplyFault> {
        self.bytes += bytes;
        if self.bytes > self.max { Err(ReplyFault::TooLong(self.max)) } else { Ok(()) }
    }

    fn read_length(
        &mut self,
        byte: u8,
        is_array: bool,
        value: u64,
        is_negative: bool,
    ) -> Result<(), ReplyFault> {
        self.take(1)?;
        match byte {
            b'0'..=b'9' => {
                let value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                self.state = State::Length { is_array, value, is_negative };
            }
            b'-' => self.state = State::Length { is_array, value, is_negative: true },
            b'\r' => {}
            // Nothing at all, which is no value of its own.
            b'\n' if is_negative || is_array && value == 0 => self.end_value(),
            b'\n' => {
                let too_long = ReplyFault::TooLong(self.max);
                let length = usize::try_from(value).map_err(|_| too_long)?;
                if is_array {
                    self.values = self.values.saturating_add(length);
                    if self.values > VALUES_MAX {
                        return Err(too_long);
                    }
                    self.missing += length;
                    self.end_value();
                } else if length > self.max {
                    return Err(too_long);
                } else {
                    self.state = State::String(length + "\r\n".len());
                }
            }
            other => return Err(ReplyFault::Other(other)),
        }
        Ok(())
    }

    fn end_value(&mut self) {
        self.state = State::Type;
        self.missing -= 1;
        if self.missing == 0 {
            *self = Self::new(self.max);
        }
    }
}

impl ReplyFault {
    /// What the server at `address` has done, and what to do.
    pub(super) fn of_server(self, address: &Address) -> Error {
        match self {
            Self::TooLong(max) => ErrorKind::TooLarge.with(format!(
                "{address} has sent a reply of more than {max} bytes or {VALUES_MAX} values, which \
                 no operation asks for; the connection is closed"
            )),
            // RFC 8446 §5.1: an alert, or a handshake.
            Self::Other(0x15 | 0x16) => ErrorKind::Settings
                .with(format!("{address} speaks TLS: write rediss:// in engine.url")),
            Self::Other(b'H') => ErrorKind::Settings.with(format!(
                "{address} answers as an HTTP server: engine.url must name a Redis or Valkey server"
            )),
            Self::Other(byte) => ErrorKind::Protocol.with(format!(
                "{address} has sent what is no reply of a Redis server (byte {byte:#04x})"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is sent, the bound, and the fault.
    type Case<'a> = (&'a str, usize, Result<(), ReplyFault>);

    #[test]
    fn a_reply_has_a_bound_and_the_next_one_the_same_again() {
        let long = Err(ReplyFault::TooLong(20));
        let other = |byte| Err(ReplyFault::Other(byte));
        let cases: [Case<'_>; 21] = [
            ("+OK\r\n", 20, Ok(())),
            ("+OK\r\n:1\r\n-ERR a\r\n$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n", 20, Ok(())),
            ("+0123456789\r\n+0123456789\r\n", 20, Ok(())),
            ("+0123456789012345678901234", 20, long),
            ("-ERR 789012345678901234", 20, long),
            ("$20\r\n", 20, Ok(())),
            ("$21\r\n", 20, long),
            ("$99999999999999999999999\r\n", 30, Err(ReplyFault::TooLong(30))),
            ("$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n+next\r\n", 20, Ok(())),
            ("*2\r\n$4\r\nabcd\r\n$4\r\nabcd\r\n", 20, long),
            ("*2\r\n*1\r\n:1\r\n:2\r\n+a\r\n", 20, Ok(())),
            ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", 20, long),
            ("*65535\r\n", 20, Ok(())),
            ("*65536\r\n", 20, long),
            ("*18446744073709551615\r\n", 30, Err(ReplyFault::TooLong(30))),
            ("$0000000000000000000000000000", 20, long),
            ("HTTP/1.1 400 Bad Request\r\n", 20, other(b'H')),
            ("\u{15}\u{3}\u{3}", 20, other(0x15)),
            ("$3\r\nabc\r\nx", 20, other(b'x')),
            ("$a", 20, other(b'a')),
            ("%1\r\n", 20, other(b'%')),
        ];
        for (sent, max, expected) in cases {
            assert_eq!(ReplyMeter::new(max).read(sent.as_bytes()), expected, "{sent:?}");
        }
    }

    proptest! {
        /// However the bytes arrive.
        #[test]
        fn the_parts_in_which_a_reply_arrives_make_no_difference(
            sent in "[+$*:-]?[0-9]{0,2}(\r\n)?([a-z+$*:-][0-9]{0,2}\r\n){0,6}", part in 1_usize..5,
        ) {
            let whole = ReplyMeter::new(24).read(sent.as_bytes());
            let mut meter = ReplyMeter::new(24);
            let parts = sent.as_bytes().chunks(part).try_for_each(|part| meter.read(part));
            prop_assert_eq!(whole, parts);
        }
    }
}
