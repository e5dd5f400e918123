//! The settings of a profile that differ from its row in the table.

use std::collections::BTreeMap;

use super::{Meanings, Profile, SETTINGS, Setting};

impl Profile {
    /// The settings by which the profile differs from the row of its name, as in the configuration.
    /// Records repeat them, so that a decision can be replayed without the configuration.
    pub fn changes(&self) -> BTreeMap<String, String> {
        Self::named(self.name).map(|row| self.changes_of(&row)).unwrap_or_default()
    }

    /// The settings by which it differs from `row`, which may be of another version of the table.
    pub fn changes_of(&self, row: &Self) -> BTreeMap<String, String> {
        if self == row {
            return BTreeMap::new();
        }
        let differs = |(name, print): &Setting| {
            let ours = print(self);
            (ours != print(row)).then(|| ((*name).to_owned(), ours))
        };
        SETTINGS.iter().filter_map(differs).collect()
    }
}

impl Meanings {
    /// The meanings of the row as one word, a letter each in the order of the table. Profiles with
    /// the same word observe the same outages.
    pub fn word(&self) -> String {
        let Self {
            unauthorized,
            not_found,
            too_many_requests,
            other_4xx,
            server_error,
            other_status,
            too_many_redirects,
            redirect_loop,
            redirect_without_location,
        } = self;
        let row = [
            unauthorized,
            not_found,
            too_many_requests,
            other_4xx,
            server_error,
            other_status,
            too_many_redirects,
            redirect_loop,
            redirect_without_location,
        ];
        row.into_iter().filter_map(|it| it.as_str().chars().next()).collect()
    }
}
