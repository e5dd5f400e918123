//! The operations that are scripts.

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
}

/// Goes before each script.
const COMMON: &str = include_str!("../scripts/common.lua");

impl Script {
    /// All scripts, in the order of [`Self::index`].
    pub const ALL: [Self; 11] = [
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
        };
        [COMMON, "\n", script].concat()
    }
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
