//! What this proxy has shared first, and no proxy has asked for since, as far as it knows: a client
//! that asks for ever new origins could fill the server with it. The oldest go first.

use std::collections::VecDeque;

use crate::runtime::lock::Lock;

/// Keys, and bytes of their values, that one proxy shares of what was asked for once.
const KEYS_MAX: usize = 131_072;
const BYTES_MAX: usize = 128 << 20;
/// Bytes that a server needs for a key beside its value, with the key itself.
const KEY_BYTES: usize = 200;

/// The keys in the order in which they were shared.
#[derive(Debug, Default)]
pub(super) struct SharedOnce(Lock<Keys>);

#[derive(Debug, Default)]
struct Keys {
    keys: VecDeque<(Vec<u8>, usize)>,
    bytes: usize,
}

impl SharedOnce {
    /// Notes that a value of so many bytes was shared under a new key. Returns the keys that are to
    /// be forgotten for it.
    pub(super) fn note(&self, key: Vec<u8>, bytes: usize) -> Vec<Vec<u8>> {
        self.0.lock().note(key, bytes, (KEYS_MAX, BYTES_MAX))
    }
}

impl Keys {
    fn note(
        &mut self,
        key: Vec<u8>,
        bytes: usize,
        (keys_max, bytes_max): (usize, usize),
    ) -> Vec<Vec<u8>> {
        let bytes = bytes + key.len() + KEY_BYTES;
        self.keys.push_back((key, bytes));
        self.bytes += bytes;
        let mut over = Vec::new();
        while self.keys.len() > keys_max || self.bytes > bytes_max {
            let Some((key, bytes)) = self.keys.pop_front() else { break };
            self.bytes -= bytes;
            over.push(key);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let mut keys = Keys::default();
        let mut note = |name: &str, bytes| {
            let over = keys.note(name.as_bytes().to_vec(), bytes, (3, 2000));
            over.into_iter()
                .map(|key| String::from_utf8(key).unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (name, bytes, over) in [
            ("a", 1, ""),
            ("b", 1, ""),
            ("c", 1, ""),
            ("d", 1, "a"),
            ("e", 1500, "b c"),
            ("f", 9999, "d e f"),
        ] {
            assert_eq!(note(name, bytes), over, "{name}");
        }
        assert_eq!(keys.bytes, 0);
    }
}
