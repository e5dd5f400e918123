//! The operations that are scripts.

/// A script of `src/engine/scripts/`. Each touches keys of one hash slot only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Look,
    Land,
    Lease,
    Turn,
    Hold,
    Calm,
    Here,
    Beat,
}

/// Goes before each script.
const COMMON: &str = include_str!("../scripts/common.lua");

impl Script {
    /// All scripts, in the order of [`Self::index`].
    pub const ALL: [Self; 8] = [
        Self::Look,
        Self::Land,
        Self::Lease,
        Self::Turn,
        Self::Hold,
        Self::Calm,
        Self::Here,
        Self::Beat,
    ];

    /// The place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The text that is loaded.
    pub fn source(self) -> String {
        let script = match self {
            Self::Look => include_str!("../scripts/look.lua"),
            Self::Land => include_str!("../scripts/land.lua"),
            Self::Lease => include_str!("../scripts/renew_lease.lua"),
            Self::Turn => include_str!("../scripts/turn.lua"),
            Self::Hold => include_str!("../scripts/hold.lua"),
            Self::Calm => include_str!("../scripts/calm.lua"),
            Self::Here => include_str!("../scripts/here.lua"),
            Self::Beat => include_str!("../scripts/beat.lua"),
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
