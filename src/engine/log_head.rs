//! The head of an audit log, of which the engine is a witness.

use crate::types::log_id::LogId;
use crate::types::timestamp::Timestamp;

/// The last line of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The log; none in what an earlier version has passed on.
    pub log: Option<LogId>,
    /// Its number in the log.
    pub number: u64,
    /// Its SHA-256.
    pub hash: [u8; 32],
    /// When it was written, by the clock of its proxy.
    pub time: Timestamp,
    /// It contradicts a head that the engine has seen of the same log: it is behind that, or beside
    /// it. The proxy has found so itself, or the engine has.
    pub contradicts: bool,
}

/// Heads by the names of their proxies.
pub type NamedHeads = Vec<(String, LogHead)>;

/// Numbers that are compared: those of a server are exact up to there.
pub(super) const NUMBER_MAX: u64 = (1 << 53) - 1;

impl LogHead {
    /// The head, of a log or of the proxy of this name, that it follows or contradicts; what
    /// contradicts has a place beside it.
    pub(super) fn place(&self, proxy: &str) -> String {
        self.log.map_or_else(|| proxy.to_owned(), |log| log.to_string())
    }

    /// Whether it does not follow the head that was seen before it, which moves forward only.
    pub(super) fn is_against(&self, seen: &Self) -> bool {
        let (number, before) = (self.number, seen.number);
        let is_behind = number < before || number == before && self.hash != seen.hash;
        before <= NUMBER_MAX && (self.contradicts || number <= NUMBER_MAX && is_behind)
    }
}

/// The place of what contradicts the head in `place`.
pub(super) fn against(place: &str) -> String {
    format!("{place}!")
}

/// In one order, each once.
pub(super) fn in_order(mut heads: NamedHeads) -> NamedHeads {
    heads.sort_by(|(one, a), (other, b)| {
        (one, a.log, a.contradicts).cmp(&(other, b.log, b.contradicts))
    });
    heads.dedup_by(|(one, a), (other, b)| {
        one == other && (a.log, a.contradicts) == (b.log, b.contradicts)
    });
    heads
}
