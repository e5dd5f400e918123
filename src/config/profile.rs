//! The profile that results from the settings, and the settings that result from it.

use super::settings::{Settings, apply_knobs, fill_knobs};
use crate::policy::profile::{Profile, ProfileName};

impl Settings {
    /// The profile in effect: the named one, with the knobs and the outage that are set.
    pub fn profile(&self, name: ProfileName) -> Profile {
        self.changed(name.row())
    }

    /// `row` with the knobs and the outage that are set.
    pub(super) fn changed(&self, row: Profile) -> Profile {
        let mut profile = row;
        apply_knobs(&self.robots, &self.outage, &mut profile);
        profile
    }

    /// These settings with all derived values filled in.
    pub(super) fn filled(&self) -> Self {
        let profile = self.profile(self.robots.profile);
        let mut filled = self.clone();
        fill_knobs(&mut filled.robots, &mut filled.outage, &profile);
        filled.audit.dir = Some(self.audit_dir());
        filled.audit.node = Some(self.node());
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_file_is_also_read_further() {
        let mut settings = Settings::default();
        settings.robots.max_size = 1 << 20;
        assert_eq!(settings.profile(ProfileName::Rfc9309).dialect.size_limit, 1 << 20);
    }

    #[test]
    fn every_profile_has_a_name_here_and_every_name_a_profile() {
        let named: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
        assert_eq!(ProfileName::WORDS, named);
        for name in ProfileName::WORDS {
            let settings = Settings::default();
            let profile = settings.profile(name.parse().unwrap());
            assert_eq!(Profile::named(name), Some(profile), "the defaults change no profile");
        }
    }
}
