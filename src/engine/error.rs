//! Why an engine did not do what it was asked.

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
    /// `MISCONF`: the server cannot write its data to disk.
    #[error("server cannot persist")]
    Persistence,
    /// `BUSY`: a script of another program runs for too long.
    #[error("server busy")]
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
    /// A response that no script of this program makes.
    #[error("unexpected response")]
    Protocol,
    /// The value is larger than is shared.
    #[error("value too large")]
    TooLarge,
}

impl ErrorKind {
    /// All kinds, in the order of [`Self::index`].
    pub const ALL: [Self; 21] = [
        Self::Broken,
        Self::Timeout,
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
        Self::Protocol,
        Self::TooLarge,
    ];

    /// The value of the label `kind` in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Timeout => "timeout",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place_and_its_word() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
        let words: std::collections::HashSet<_> = ErrorKind::ALL.map(ErrorKind::word).into();
        assert_eq!(words.len(), ErrorKind::ALL.len());
    }
}
