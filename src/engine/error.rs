//! Why an engine did not do what it was asked.

use std::time::Duration;

/// The engine is away, or refuses. The message is the server's, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Error {
    pub kind: ErrorKind,
    pub detail: Box<str>,
}

/// Why, as far as it matters what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ErrorKind {
    /// Not asked: too many failures of late.
    #[error("not reachable")]
    Broken,
    #[error("no response in time")]
    Timeout,
    /// `LATE`: the engine had the command when its caller had left, or its clock was set.
    #[error("too late")]
    Late,
    /// Not asked: too many requests wait already.
    #[error("too many requests wait")]
    Full,
    /// No connection, or it was lost.
    #[error("connection failed")]
    Connection,
    #[error("TLS failed")]
    Tls,
    /// No or wrong user or password (`NOAUTH`, `WRONGPASS`).
    #[error("authentication failed")]
    Authentication,
    /// The user lacks rights (`NOPERM`).
    #[error("rights are missing")]
    Permission,
    /// `OOM`: the server's memory is full.
    #[error("out of memory")]
    Memory,
    /// `MISCONF`: the server cannot write its data to disk. Or this machine's file cannot be used.
    #[error("data cannot be written")]
    Persistence,
    /// `BUSY`: a script of another program runs for too long.
    #[error("busy")]
    Busy,
    /// `READONLY`, or the role of a replica.
    #[error("server is a replica")]
    ReadOnly,
    /// `LOADING`: the server reads its data.
    #[error("server is loading")]
    Loading,
    /// `MASTERDOWN`: a replica has lost its primary.
    #[error("primary is down")]
    MasterDown,
    /// `CLUSTERDOWN`, or a slot without a node.
    #[error("cluster is down")]
    ClusterDown,
    /// `TRYAGAIN`: the slot is on its way to another node.
    #[error("slot is being moved")]
    Moving,
    /// `WRONGTYPE`: another program has written to the key.
    #[error("key of a wrong type")]
    WrongType,
    /// No sentinel names a primary.
    #[error("no primary known to the sentinels")]
    Sentinel,
    /// The server is of another kind than the settings say.
    #[error("settings do not fit the server")]
    Settings,
    /// Another program has removed what this proxy had written.
    #[error("entries were removed")]
    Removed,
    /// Proxies are missing that may start at any time.
    #[error("proxies are missing")]
    Missing,
    /// A response that no script of this program makes.
    #[error("unexpected response")]
    Protocol,
    /// The value is larger than is shared.
    #[error("value too large")]
    TooLarge,
}

impl ErrorKind {
    /// All kinds, in the order of [`Self::index`].
    pub const ALL: [Self; 23] = [
        Self::Broken,
        Self::Timeout,
        Self::Late,
        Self::Full,
        Self::Connection,
        Self::Tls,
        Self::Authentication,
        Self::Permission,
        Self::Memory,
        Self::Persistence,
        Self::Busy,
        Self::ReadOnly,
        Self::Loading,
        Self::MasterDown,
        Self::ClusterDown,
        Self::Moving,
        Self::WrongType,
        Self::Sentinel,
        Self::Settings,
        Self::Removed,
        Self::Missing,
        Self::Protocol,
        Self::TooLarge,
    ];

    /// The value of the label `kind` in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Timeout => "timeout",
            Self::Late => "late",
            Self::Full => "full",
            Self::Connection => "connection",
            Self::Tls => "tls",
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::Memory => "memory",
            Self::Persistence => "persistence",
            Self::Busy => "busy",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::MasterDown => "master_down",
            Self::ClusterDown => "cluster_down",
            Self::Moving => "moving",
            Self::WrongType => "wrong_type",
            Self::Sentinel => "sentinel",
            Self::Settings => "settings",
            Self::Removed => "removed",
            Self::Missing => "missing",
            Self::Protocol => "protocol",
            Self::TooLarge => "too_large",
        }
    }

    /// The place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// An error of this kind.
    pub fn with(self, detail: impl Into<Box<str>>) -> Error {
        Error { kind: self, detail: detail.into() }
    }
}

/// The failures in a row that open the breaker.
const IN_A_ROW: u32 = 3;
/// Or half of the last so many results.
const RECENT: u32 = 20;
/// The pause, while there are few proxies.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The most proxies that come back in a second: the pause is this part of a second for each.
const PER_SECOND: u32 = 2000;

/// Counts results; open, nothing is sent until its pause is over. Then one probe decides.
#[derive(Debug, Default)]
pub struct Breaker {
    /// The last results, the latest in the lowest bit; 1 is a failure.
    recent: u32,
    /// How many results `recent` has.
    count: u32,
    in_a_row: u32,
}

impl Breaker {
    /// Notes the result of a request. Whether the breaker is to open: see [`Self::open`].
    pub fn note(&mut self, is_good: bool) -> bool {
        self.recent = (self.recent << 1 | u32::from(!is_good)) & ((1 << RECENT) - 1);
        self.count = (self.count + 1).min(RECENT);
        self.in_a_row = if is_good { 0 } else { self.in_a_row + 1 };
        let failures = self.recent.count_ones();
        self.in_a_row >= IN_A_ROW || self.count == RECENT && 2 * failures >= RECENT
    }

    /// Opens. The pause is from half to all (`jitter`, from 0 to 1) of one second, or of half a
    /// millisecond for each of the `members` if that is longer: what waits for the engine is to go on
    /// soon after its return, however long it was away.
    pub fn open(&mut self, members: usize, jitter: f64) -> Duration {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let spread = Duration::from_secs(members.into()) / PER_SECOND;
        *self = Self::default();
        PAUSE_MIN.max(spread).mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_kind_has_its_place_and_its_word() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
        let words: std::collections::HashSet<_> = ErrorKind::ALL.map(ErrorKind::word).into();
        assert_eq!(words.len(), ErrorKind::ALL.len());
    }

    /// Results as letters, `x` for a failure; where it opens.
    #[track_caller]
    fn check(results: &str, opens: Option<usize>) {
        let mut breaker = Breaker::default();
        let found = results.chars().position(|result| breaker.note(result == '.'));
        assert_eq!(found, opens, "{results}");
    }

    #[test]
    fn three_failures_in_a_row_open_it_or_half_of_the_last_twenty() {
        check("xx.xx.xx", None);
        check("xxx", Some(2));
        check(".........xxx", Some(11));
        check(".x.x.x.x.x.x.x.x.x.x", Some(19));
        check(".x.x.x.x.x.x.x.x.x..", None);
        check("..................x.x.xx.xx.xx.xx.xx.xx", Some(32));
    }

    #[test]
    fn pauses_are_as_long_however_many_there_were() {
        let mut breaker = Breaker::default();
        for _ in 0..5 {
            assert_eq!(breaker.open(1, 1.0), Duration::from_secs(1));
        }
    }

    #[test]
    fn many_proxies_do_not_come_back_at_once() {
        let pause = |members, jitter| Breaker::default().open(members, jitter);
        assert_eq!(pause(10_000, 1.0), Duration::from_secs(5));
        assert_eq!(pause(10_000, 0.0), Duration::from_millis(2500));
        assert!(pause(usize::MAX, 0.0) > Duration::from_secs(1_000_000), "no overflow");
    }

    proptest! {
        #[test]
        fn the_breaker_opens_after_3_failures_or_10_of_20(
            results in prop::collection::vec(any::<bool>(), 0..200)
        ) {
            let mut breaker = Breaker::default();
            let mut seen: Vec<bool> = Vec::new();
            for is_good in results {
                seen.push(is_good);
                let failed = seen.iter().rev().take(20).filter(|good| !**good).count();
                let in_a_row = seen.iter().rev().take_while(|good| !**good).count();
                let opens = in_a_row >= 3 || seen.len() >= 20 && failed >= 10;
                prop_assert_eq!(breaker.note(is_good), opens);
                if opens {
                    let pause = breaker.open(1, 0.3);
                    prop_assert!(Duration::from_millis(500) <= pause && pause <= PAUSE_MIN);
                    seen.clear();
                }
            }
        }
    }
}
