//! The names of profiles in settings, and what records say of one. Its knobs and rows are those of
//! [`crate::robots`]. No code but this checks a profile's name.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

pub use crate::robots::{Access, Meaning, Meanings, Obedience, Outage, OutageCopy, Profile};
use crate::types::words::words;

/// The version of this table, named in records: a knob that changes its meaning needs another
/// version. Since 2, `conservative` takes every 4xx but 404 and 410 as access denied, and judges
/// all readings of a path.
pub const VERSION: u32 = 2;

/// A knob by the name that records give it: how its value is written, and how it is set.
type Knob = (&'static str, fn(&Profile) -> String, fn(&mut Profile, &str) -> Result<(), String>);

/// A knob whose value is written by `Display` and read by `FromStr`.
macro_rules! knob {
    ($name:literal, $($field:ident).+) => {
        ($name, |it| it.$($field).+.to_string(), |it, text| set(&mut it.$($field).+, text))
    };
}

/// A length of time, in milliseconds.
macro_rules! knob_millis {
    ($name:literal, $($field:ident).+) => {
        ($name, |it| format!("{}ms", it.$($field).+.as_millis()), |it, text| {
            let mut millis = 0_u64;
            set(&mut millis, text.strip_suffix("ms").unwrap_or(text))?;
            it.$($field).+ = Duration::from_millis(millis);
            Ok(())
        })
    };
}

/// The knobs that a record repeats where they differ from the row. Those named `outage.…` and
/// `robots.knobs.…` were settings once: records of then are decided again.
const KNOBS: [Knob; 15] = [
    knob!("outage.after", outage.after),
    knob_millis!("outage.after_time", outage.after_time),
    knob!("outage.copy", outage.copy),
    knob_millis!("outage.retry_max", outage.retry_max),
    knob_millis!("outage.retry_min", outage.retry_min),
    knob!("robots.knobs.conditional", conditional),
    knob!("robots.knobs.crawl_delay", pace.crawl_delay),
    knob!("robots.knobs.request_rate", pace.request_rate),
    knob!("robots.knobs.status_401_403", meanings.unauthorized),
    knob!("robots.knobs.status_429", meanings.too_many_requests),
    knob!("robots.knobs.status_other_4xx", meanings.other_4xx),
    knob!("robots.knobs.visit_time", pace.visit_time),
    knob!("robots.max_redirects", redirects_max),
    (
        "robots.max_size",
        |it| format!("{}B", it.dialect.size_limit),
        |it, text| set(&mut it.dialect.size_limit, text.strip_suffix('B').unwrap_or(text)),
    ),
    knob!("robots.spellings", dialect.spellings),
];

fn set<T: FromStr<Err: Display>>(place: &mut T, text: &str) -> Result<(), String> {
    *place = text.parse().map_err(|problem: T::Err| problem.to_string())?;
    Ok(())
}

impl ProfileName {
    /// The row of that name.
    pub fn row(self) -> Profile {
        match self {
            Self::Rfc9309 => Profile::RFC9309,
            Self::Google => Profile::GOOGLE,
            Self::Google2019 => Profile::GOOGLE_2019,
            Self::DraftRep00 => Profile::DRAFT_REP_00,
            Self::Koster1996 => Profile::KOSTER_1996,
            Self::Conservative => Profile::CONSERVATIVE,
            Self::Archival => Profile::ARCHIVAL,
        }
    }

    /// The row of that name as `version` of the table had it; the latest, where the version is newer.
    pub fn row_in(self, version: u32) -> Profile {
        let mut row = self.row();
        if version < 2 && self == Self::Conservative {
            row.meanings.other_4xx = Profile::RFC9309.meanings.other_4xx;
            row.dialect = Profile::RFC9309.dialect;
        }
        row
    }
}

words! {
    /// The name of a row of the table: a dialect of robots.txt.
    pub enum ProfileName {
        Rfc9309 = "rfc9309",
        Google = "google",
        Google2019 = "google-2019",
        DraftRep00 = "draft-rep-00",
        Koster1996 = "koster-1996",
        Conservative = "conservative",
        Archival = "archival",
    }
}

/// The knobs by which `profile` differs from the row of its name. Records repeat them, so that a
/// decision can be replayed without the configuration.
pub fn changes(profile: &Profile) -> BTreeMap<String, String> {
    let Some(row) = Profile::named(profile.name).filter(|row| row != profile) else {
        return BTreeMap::new();
    };
    let differs = |(name, print, _): &Knob| {
        let ours = print(profile);
        (ours != print(&row)).then(|| ((*name).to_owned(), ours))
    };
    KNOBS.iter().filter_map(differs).collect()
}

/// The profile that a record names: the row `name` of that `version` of the table, with these
/// [`changes`].
///
/// # Errors
///
/// What makes no profile, by its name.
pub fn recorded(
    name: &str,
    version: u32,
    changes: &BTreeMap<String, String>,
) -> Result<Profile, String> {
    let mut profile = name.parse::<ProfileName>()?.row_in(version);
    for (key, text) in changes {
        let knob = KNOBS.iter().find(|(name, ..)| name == key);
        let (_, _, set) = knob.ok_or_else(|| format!("{key}: there is no such knob"))?;
        set(&mut profile, text).map_err(|problem| format!("{key}: {problem}"))?;
    }
    Ok(profile)
}

/// `meanings` as one word, a letter each in the order of the table. Profiles with the same word observe
/// the same outages.
pub fn word_of(meanings: &Meanings) -> String {
    let Meanings {
        unauthorized,
        not_found,
        too_many_requests,
        other_4xx,
        server_error,
        other_status,
        too_many_redirects,
        redirect_loop,
        redirect_without_location,
    } = meanings;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, version: u32, changes: &[(&str, &str)]) -> Result<Profile, String> {
        let changes = changes.iter().map(|(key, text)| (key.to_string(), text.to_string()));
        recorded(name, version, &changes.collect())
    }

    #[test]
    fn every_profile_is_made_again_from_its_name_and_its_changes() {
        let changes = [
            ("outage.after", "disallow"),
            ("outage.after_time", "3600000ms"),
            ("outage.copy", "disallow"),
            ("outage.retry_max", "7200000ms"),
            ("outage.retry_min", "1500ms"),
            ("robots.knobs.conditional", "false"),
            ("robots.knobs.crawl_delay", "ignore"),
            ("robots.knobs.request_rate", "ignore"),
            ("robots.knobs.status_401_403", "disallow"),
            ("robots.knobs.status_429", "allow"),
            ("robots.knobs.status_other_4xx", "unreachable"),
            ("robots.knobs.visit_time", "obey"),
            ("robots.max_redirects", "7"),
            ("robots.max_size", "1048577B"),
            ("robots.spellings", "all_readings"),
        ];
        let changed = made("rfc9309", VERSION, &changes).unwrap();
        let again = super::changes(&changed);
        let again: Vec<_> = again.iter().map(|(key, text)| (&**key, &**text)).collect();
        assert_eq!(again, changes);
        for row in Profile::ALL {
            assert_eq!(recorded(row.name, VERSION, &super::changes(&row)), Ok(row));
        }
    }

    #[test]
    fn a_record_of_an_older_version_names_the_row_that_it_was_made_by() {
        let meaning = |version, changes: &[(&str, &str)]| {
            made("conservative", version, changes).unwrap().meanings.other_4xx
        };
        let shut = [("robots.knobs.status_other_4xx", "disallow")];
        assert_eq!(
            (meaning(1, &[]), meaning(1, &shut)),
            (Meaning::Unavailable, Meaning::Forbidden)
        );
        assert_eq!(
            (meaning(2, &[]), meaning(VERSION + 1, &[])),
            (Meaning::Forbidden, Meaning::Forbidden)
        );
        assert_eq!(made("google", 1, &[]), Ok(Profile::named("google").unwrap()));
    }

    #[test]
    fn what_makes_no_profile_is_refused_by_its_name() {
        for (name, changes, expected) in [
            ("gogle", &[][..], "\"gogle\" is not one of"),
            (
                "google",
                &[("robots.knobs.status_500", "allow")],
                "robots.knobs.status_500: there is no such knob",
            ),
            ("google", &[("outage.after", "perhaps")], "outage.after: \"perhaps\" is not one of"),
            ("google", &[("outage.after_time", "1d")], "outage.after_time: "),
            ("google", &[("listen.admin", "off")], "listen.admin: there is no such knob"),
        ] {
            let refusal = made(name, VERSION, changes).unwrap_err();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }

    #[test]
    fn every_profile_has_a_name_here_and_every_name_a_profile() {
        let named: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
        assert_eq!(ProfileName::WORDS, named);
        for name in ProfileName::WORDS {
            assert_eq!(Profile::named(name), Some(name.parse::<ProfileName>().unwrap().row()));
        }
    }
}
