//! The settings of a profile that differ from its row in the table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Access, Meaning, Meanings, OutageCopy, Profile};
use crate::robots::Spellings;

/// The name of a setting, and its value in a profile.
type Setting = (&'static str, fn(&Profile) -> String);

/// The settings of a profile, with values as in the configuration.
const SETTINGS: [Setting; 12] = [
    ("outage.after", |it| access(it.outage.after)),
    ("outage.after_time", |it| length(it.outage.after_time)),
    ("outage.copy", |it| copy(it.outage.copy)),
    ("outage.retry_max", |it| length(it.outage.retry_max)),
    ("outage.retry_min", |it| length(it.outage.retry_min)),
    ("robots.knobs.conditional", |it| it.conditional.to_string()),
    ("robots.knobs.status_401_403", |it| meaning(it.meanings.unauthorized)),
    ("robots.knobs.status_429", |it| meaning(it.meanings.too_many_requests)),
    ("robots.knobs.status_other_4xx", |it| meaning(it.meanings.other_4xx)),
    ("robots.max_redirects", |it| it.redirects_max.to_string()),
    ("robots.max_size", |it| format!("{}B", it.dialect.size_limit)),
    ("robots.spellings", |it| spellings(it.dialect.spellings)),
];

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
        row.into_iter().filter_map(|it| meaning(*it).chars().next()).collect()
    }
}

fn meaning(meaning: Meaning) -> String {
    let word = match meaning {
        Meaning::Unavailable => "allow",
        Meaning::Forbidden => "disallow",
        Meaning::Unreachable => "unreachable",
    };
    word.into()
}

fn access(access: Access) -> String {
    let word = match access {
        Access::Allow => "allow",
        Access::Disallow => "disallow",
    };
    word.into()
}

fn copy(copy: OutageCopy) -> String {
    let word = match copy {
        OutageCopy::Use => "use",
        OutageCopy::Disallow => "disallow",
    };
    word.into()
}

fn spellings(spellings: Spellings) -> String {
    let word = match spellings {
        Spellings::AsWritten => "as_written",
        Spellings::AllReadings => "all_readings",
    };
    word.into()
}

fn length(length: Duration) -> String {
    format!("{}ms", length.as_millis())
}
