//! Settings in the words of the modules below, and the profile as the settings make it.

use super::settings::Settings;
use crate::policy::profile::{Profile, ProfileName};
use crate::store::limits::ROBOTS_TXT_BYTES;

impl Settings {
    /// A profile as it holds here: the named one, with the single knobs and the outage that are set.
    pub fn profile(&self, name: ProfileName) -> Profile {
        self.changed(name.row())
    }

    /// `row` with the single knobs and the outage that are set.
    pub(super) fn changed(&self, row: Profile) -> Profile {
        let mut profile = row;
        profile.redirects_max = self.robots.max_redirects;
        // Upwards only: RFC 9309 §2.5 sets the least, and each profile has its own default.
        if self.robots.max_size > ROBOTS_TXT_BYTES as u64 {
            profile.dialect.size_limit =
                usize::try_from(self.robots.max_size).unwrap_or(usize::MAX);
        }

        let knobs = &self.robots.knobs;
        put(&mut profile.meanings.unauthorized, knobs.status_401_403);
        put(&mut profile.meanings.too_many_requests, knobs.status_429);
        put(&mut profile.meanings.other_4xx, knobs.status_other_4xx);
        put(&mut profile.conditional, knobs.conditional);
        put(&mut profile.dialect.spellings, self.robots.spellings);

        let outage = &self.outage;
        put(&mut profile.outage.copy, outage.copy);
        put(&mut profile.outage.after, outage.after);
        put(&mut profile.outage.after_time, outage.after_time);
        put(&mut profile.outage.retry_min, outage.retry_min);
        put(&mut profile.outage.retry_max, outage.retry_max);
        profile
    }

    /// These settings with everything filled in that follows from others.
    pub(super) fn filled(&self) -> Self {
        let profile = self.profile(self.robots.profile);
        let mut filled = self.clone();
        filled.robots.knobs.status_401_403 = Some(profile.meanings.unauthorized);
        filled.robots.knobs.status_429 = Some(profile.meanings.too_many_requests);
        filled.robots.knobs.status_other_4xx = Some(profile.meanings.other_4xx);
        filled.robots.knobs.conditional = Some(profile.conditional);
        filled.robots.spellings = Some(profile.dialect.spellings);
        filled.outage.copy = Some(profile.outage.copy);
        filled.outage.after = Some(profile.outage.after);
        filled.outage.after_time = Some(profile.outage.after_time);
        filled.outage.retry_min = Some(profile.outage.retry_min);
        filled.outage.retry_max = Some(profile.outage.retry_max);
        filled.audit.dir = Some(self.audit_dir());
        filled.audit.node = Some(self.node());
        filled
    }
}

/// Only what is set replaces what is there.
fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
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
